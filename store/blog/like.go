package blog

// Like says that a user likes a post. A user likes a post at most once, so the
// two ids identify it.
type Like struct {
	PostID    string `json:"postId"`
	UserID    string `json:"userId"`
	Username  string `json:"userUsername"`
	CreatedAt Date   `json:"creationDate"`
}

type LikeItem struct {
	Envelope
	ID string `json:"id"` // likeID(userId)
	Like
}

// likeID is the id of a user's like in the partition of a post.
func LikeID(userID string) string { return "like-" + userID }

func DecodeLike(op string, raw []byte) (*Like, error) {
	item, ok, err := Decode[LikeItem](op, TypeLike, raw)
	if !ok {
		return nil, err
	}
	return &item.Like, nil
}
