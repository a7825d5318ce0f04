package blog

import "strings"

// A follow is one item in the partition of the author who is followed, with the byline of the follower, and its view in
// the partition of the follower. The first is the source. It is a tombstone once the follow has ended, as the change
// feed does not show deletes; the view follows it by the revision.

// FollowItem is one of the two items of a follow in the users container. Its partition and its owner are the two users:
// so a query for the owner finds what other partitions have of a user.
type FollowItem struct {
	Envelope           // TypeFollower or TypeFollowing
	ID         string  `json:"id"`
	UserID     string  `json:"userId"`             // whose partition it is in
	OwnerID    string  `json:"ownerId"`            // the other user
	Follower   *Byline `json:"follower,omitempty"` // of the owner, in the author's partition; nil in a tombstone
	FollowedAt Date    `json:"creationDate"`
	Revision   int64   `json:"revision"` // incremented by every write but that of the byline
}

// FollowerID returns the id of the item of a follower in the partition of the author.
func FollowerID(follower string) string { return "follower-" + follower }

// FollowingID returns the id of the item of an author in the partition of the follower.
func FollowingID(author string) string { return "following-" + author }

// NewFollow returns the item of a follower in the partition of the author.
func NewFollow(authorID string, follower Byline, at Date, revision int64) FollowItem {
	return FollowItem{Envelope: Envelope{Type: TypeFollower}, ID: FollowerID(follower.UserID), UserID: authorID,
		OwnerID: follower.UserID, Follower: &follower, FollowedAt: at, Revision: revision}
}

// Following returns the item, or its tombstone, that the follower's partition has of a follow, given the author's.
func (f FollowItem) Following() FollowItem {
	item := FollowItem{Envelope: Envelope{Type: TypeFollowing}, ID: FollowingID(f.UserID), UserID: f.OwnerID,
		OwnerID: f.UserID, FollowedAt: f.FollowedAt, Revision: f.Revision}
	if f.Deleted {
		item.Envelope = tombstone(TypeFollowing)
		item.TTL = ViewTombstoneTTL
	}
	return item
}

// DecodeFollow decodes an item of a follow, or its tombstone. It returns nil for other types.
func DecodeFollow(op string, raw []byte) (*FollowItem, error) {
	item, _, err := Decode[FollowItem](op, "", raw)
	if err != nil || item.Type != TypeFollower && item.Type != TypeFollowing {
		return nil, err
	}
	return &item, nil
}

// Follow is a user in a list of an author's followers, or of the authors whom a user follows.
type Follow struct {
	User       // of a follower the byline alone
	FollowedAt Date
}

// Followers is the format of a list of an author's followers.
var Followers = Format[Follow]{Fields: strings.ReplaceAll(BylineFields, "c.", "c.follower.") + ", c.creationDate",
	fast: readFollow, into: followTarget}

// Following is the format of a list of the authors whom a user follows. Of a user it has the id alone.
var Following = Format[Follow]{Fields: "c.ownerId AS userId, c.creationDate", fast: readFollow, into: followTarget}

func readFollow(r *fastReader, f *Follow) {
	readByline(r, &f.Byline)
	f.FollowedAt = r.date("creationDate")
}

// followTarget returns what an item of a list is decoded into.
func followTarget(f *Follow) any {
	return &struct {
		*Byline
		FollowedAt *Date `json:"creationDate"`
	}{&f.Byline, &f.FollowedAt}
}
