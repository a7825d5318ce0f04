package blog

// Comment is a comment on a post.
type Comment struct {
	ID     string `json:"id"`
	PostID string `json:"postId"`
	Byline
	Content   string `json:"content"`
	CreatedAt Date   `json:"creationDate"`
	UpdatedAt *Date  `json:"editDate,omitempty"` // nil: never edited
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

// Comments is the format of a list of comments.
var Comments = Format[Comment]{Fields: commentFields, fast: readComment,
	tombstone: func(c *Comment) bool { return c.Username == "" && c.Content == "" }}

// commentFields are the fields of a comment in a list.
var commentFields = "c.id, " + BylineFields + ", c.content, c.creationDate, c.editDate"

func readComment(r *fastReader, c *Comment) {
	c.ID = r.text("id")
	readByline(r, &c.Byline)
	c.Content, c.CreatedAt, c.UpdatedAt = r.text("content"), r.date("creationDate"), r.dateOrNil("editDate")
}
