package blog

// A tombstone replaces a deleted item for TombstoneTTL, since the change feed does not show deletes. It is made
// of the properties that are listed here. So what an item gets in later versions, such as another text, does not
// outlive the item.

// PostTombstone replaces a deleted post in the posts container, and its summaries in the users and feed
// containers.
type PostTombstone struct {
	Envelope
	ID        string `json:"id"`
	PostID    string `json:"postId"`
	UserID    string `json:"userId,omitempty"`       // "" once the job that deletes the author has deleted its items
	Username  string `json:"userUsername,omitempty"` // "" if a job deletes the author or has ended, see Post.Erased
	CreatedAt Date   `json:"creationDate,omitempty"` // "" in the feed, whose list is sorted by it
	Revision  int64  `json:"revision"`

	// In the posts container, until the job that deletes what belongs to the post has deleted its entries in timelines
	// and its files.
	Tags       []string `json:"tags,omitempty"`
	FormerTags []string `json:"formerTags,omitempty"`
	Files      []string `json:"files,omitempty"`
}

// NewPostTombstone returns the tombstone of a post, at the post's revision, without tags and files.
func NewPostTombstone(p *Post) PostTombstone {
	return PostTombstone{Envelope: tombstone(TypePost), ID: p.ID, PostID: p.ID, UserID: p.UserID, Username: p.Username,
		CreatedAt: p.CreatedAt, Revision: p.Revision}
}

// Erased reports whether nothing is left to do for a deleted post. Either its job has ended, or it was deleted together
// with its author: the job that deletes the user deletes its comments, likes, text and entries in timelines, and the
// summary in its author's partition.
func (p *Post) Erased() bool { return p.Tombstone && p.Username == "" }

// CommentTombstone replaces a deleted comment.
type CommentTombstone struct {
	Envelope
	ID        string `json:"id"`
	PostID    string `json:"postId"`
	UserID    string `json:"userId"`
	CreatedAt Date   `json:"creationDate"`
}

// NewCommentTombstone returns the tombstone of a comment.
func NewCommentTombstone(c *Comment) CommentTombstone {
	return CommentTombstone{Envelope: tombstone(TypeComment), ID: c.ID, PostID: c.PostID, UserID: c.UserID,
		CreatedAt: c.CreatedAt}
}

// TextTombstone replaces the text of a post that is no longer long.
type TextTombstone struct {
	Envelope
	ID       string `json:"id"` // TextID
	PostID   string `json:"postId"`
	AuthorID string `json:"userId"`
}

// NewTextTombstone returns the tombstone of the text of a post.
func NewTextTombstone(postID, authorID string) TextTombstone {
	return TextTombstone{Envelope: tombstone(TypeText), ID: TextID, PostID: postID, AuthorID: authorID}
}

func tombstone(typ string) Envelope {
	return Envelope{Type: TombstoneType(typ), Deleted: true, TTL: TombstoneTTL}
}
