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

// SavedItem is a post in a list of a reader's own, in the reader's partition of the users container: a bookmark, or the
// view of a like. Nobody else sees it.
type SavedItem struct {
	Envelope        // TypeBookmark or TypeLiked
	ID       string `json:"id"` // BookmarkID or LikedID
	UserID   string `json:"userId"`
	PostID   string `json:"postId"`
	SavedAt  Date   `json:"creationDate"` // of the bookmark, or of the like
}

// SavedID returns the id of a SavedItem of a type.
func SavedID(typ, postID string) string { return typ + "-" + postID }

// BookmarkID returns the id of the bookmark of a post, in the partition of the reader.
func BookmarkID(postID string) string { return SavedID(TypeBookmark, postID) }

// LikedID returns the id of the view of a like of a post, in the partition of the reader.
func LikedID(postID string) string { return SavedID(TypeLiked, postID) }

// NewBookmark returns a bookmark.
func NewBookmark(userID, postID string, at Date) SavedItem {
	return SavedItem{Envelope: Envelope{Type: TypeBookmark}, ID: BookmarkID(postID), UserID: userID, PostID: postID,
		SavedAt: at}
}

// Liked returns the view of a like.
func (l *Like) Liked() SavedItem {
	return SavedItem{Envelope: Envelope{Type: TypeLiked}, ID: LikedID(l.PostID), UserID: l.UserID, PostID: l.PostID,
		SavedAt: l.CreatedAt}
}

// DecodeSaved decodes an item of a reader's own list. It returns nil for other types.
func DecodeSaved(op string, raw []byte) (*SavedItem, error) {
	var item SavedItem
	if err := Unmarshal(raw, &item); err != nil {
		return nil, Malformed(op, "saved", err)
	}
	if item.Type != TypeBookmark && item.Type != TypeLiked {
		return nil, nil
	}
	return &item, nil
}

// Saved is an entry of a reader's own list.
type Saved struct {
	PostID  string `json:"postId"`
	SavedAt Date   `json:"creationDate"`
	Post    *Post  `json:"-"` // not stored with it
}

// SavedPosts is the format of a reader's own list.
var SavedPosts = Format[Saved]{Fields: "c.postId, c.creationDate", fast: func(r *fastReader, s *Saved) {
	s.PostID, s.SavedAt = r.text("postId"), r.date("creationDate")
}}
