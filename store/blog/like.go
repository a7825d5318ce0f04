package blog

// Like is a user's like of a post. A user likes a post at most once, so the ids of the two identify it.
type Like struct {
	PostID string `json:"postId"`
	Byline
	CreatedAt Date `json:"creationDate"`
}

// LikeItem is a like in the posts container.
type LikeItem struct {
	Envelope
	ID string `json:"id"` // LikeID(userId)
	Like
}

// LikeID returns the id of a user's like, in the partition of the post.
func LikeID(userID string) string { return "like-" + userID }

// DecodeLike decodes a like. It returns nil for a tombstone.
func DecodeLike(op string, raw []byte) (*Like, error) {
	item, ok, err := Decode[LikeItem](op, TypeLike, raw)
	if !ok {
		return nil, err
	}
	return &item.Like, nil
}

// Likes is the format of a list of likes.
var Likes = Format[Like]{Fields: likeFields, fast: readLike}

// likeFields are the fields of a like in a list.
var likeFields = BylineFields + ", c.creationDate"

func readLike(r *fastReader, l *Like) {
	readByline(r, &l.Byline)
	l.CreatedAt = r.date("creationDate")
}
