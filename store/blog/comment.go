package blog

// Comment is a comment on a post.
type Comment struct {
	ID             string `json:"id"`
	PostID         string `json:"postId"`
	AuthorID       string `json:"userId"`
	AuthorUsername string `json:"userUsername"`
	Content        string `json:"content"`
	CreatedAt      Date   `json:"creationDate"`
	UpdatedAt      *Date  `json:"editDate,omitempty"` // nil: never edited
}

// CommentItem is a comment in the posts container.
type CommentItem struct {
	Envelope
	Comment
	InputDigest string `json:"inputDigest,omitempty"`
}

// DecodeComment decodes a comment. It returns nil for a tombstone.
func DecodeComment(op string, raw []byte) (*Comment, error) {
	item, ok, err := Decode[CommentItem](op, TypeComment, raw)
	if !ok {
		return nil, err
	}
	return &item.Comment, nil
}
