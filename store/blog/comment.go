package blog

// Comment is what somebody says under a post.
type Comment struct {
	ID             string `json:"id"`
	PostID         string `json:"postId"`
	AuthorID       string `json:"userId"`
	AuthorUsername string `json:"userUsername"`
	Content        string `json:"content"`
	CreatedAt      Date   `json:"creationDate"`
	UpdatedAt      *Date  `json:"editDate,omitempty"` // nil: never edited
}

type CommentItem struct {
	Envelope
	Comment
	InputDigest string `json:"inputDigest,omitempty"`
}

func DecodeComment(op string, raw []byte) (*Comment, error) {
	item, ok, err := Decode[CommentItem](op, TypeComment, raw)
	if !ok {
		return nil, err
	}
	return &item.Comment, nil
}
