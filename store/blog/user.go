package blog

import (
	"encoding/json"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// User is a registered author.
type User struct {
	Byline
	Bio       string `json:"bio,omitempty"`
	CreatedAt Date   `json:"creationDate"` // "" where only the id and the name are known
	Revision  int64  `json:"revision"`     // incremented by every write but those of the counts

	FollowerCount  int32 `json:"followerCount,omitempty"`
	FollowingCount int32 `json:"followingCount,omitempty"` // authors whom the user follows; a view
}

// UserItem is a user in the users container.
type UserItem struct {
	Envelope
	ItemID string `json:"id"` // == userId
	User
	InputDigest string `json:"inputDigest,omitempty"`

	FormerUsernames []string `json:"formerUsernames,omitempty"` // kept for the user, oldest first
	Renames         []Date   `json:"renames,omitempty"`         // dates of the last changes of the username, oldest first
	Changes         []Date   `json:"changes,omitempty"`         // likewise of the display name and the avatar

	// SpreadRevision is the last revision whose byline every copy has: see Spread.
	SpreadRevision int64 `json:"spreadRevision,omitempty"`

	DeletedAt Date `json:"deletionDate,omitempty"` // of a tombstone, which has no TTL: the deletion job deletes it last
}

// storedUser is a UserItem as it is stored, with the username under another name than on copies of the byline.
type storedUser struct {
	userItem
	Username string `json:"username"`
	Copied   string `json:"userUsername,omitempty"` // ""
}

type userItem UserItem // without its methods

// MarshalJSON implements json.Marshaler.
func (u UserItem) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedUser{userItem: userItem(u), Username: u.Username})
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom of package json/v2, which decodes items.
func (u *UserItem) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var stored storedUser
	err := jsonv2.UnmarshalDecode(d, &stored)
	*u = UserItem(stored.userItem)
	u.Username = stored.Username
	return err
}

func (u *UserItem) readProperty(r *fastReader, name string) bool {
	switch name {
	case "id":
		u.ItemID = r.stringValue()
	case "username":
		u.Username = r.stringValue()
	case "userUsername":
		r.skipString() // of copies
	case "bio":
		u.Bio = r.stringValue()
	case "creationDate":
		u.CreatedAt = r.dateValue()
	case "revision":
		u.Revision = r.intValue(64)
	case "followerCount":
		u.FollowerCount = int32(r.intValue(32))
	case "followingCount":
		u.FollowingCount = int32(r.intValue(32))
	case "inputDigest":
		u.InputDigest = r.stringValue()
	case "formerUsernames":
		u.FormerUsernames = r.stringsValue()
	case "spreadRevision":
		u.SpreadRevision = r.intValue(64)
	case "renames":
		u.Renames = r.datesValue()
	case "changes":
		u.Changes = r.datesValue()
	case "deletionDate":
		u.DeletedAt = r.dateValue()
	default:
		return u.Byline.readBylineProperty(r, name) || u.readEnvelope(r, name)
	}
	return true
}

func (r *fastReader) datesValue() []Date {
	dates := []Date{}
	r.eachString(func() { dates = append(dates, r.dateValue()) })
	return dates
}

// Spread reports whether every copy of the byline is up to date. A change of the byline increments only Revision. Any
// other change increments Revision, and sets SpreadRevision to it if Spread was true. A user at revision 1 has never
// changed. Versions without SpreadRevision incremented only Revision, whatever changed.
func (u *UserItem) Spread() bool { return u.Revision <= max(1, u.SpreadRevision) }

// DecodeUser decodes a user. It returns nil for a tombstone and for other types.
func DecodeUser(op string, raw []byte) (*User, error) {
	item, ok, err := Decode[UserItem](op, TypeUser, raw)
	if !ok {
		return nil, err
	}
	return &item.User, nil
}

// DecodeUserOrTombstone is DecodeUser for users that may be deleted, with the properties that only the item
// has.
func DecodeUserOrTombstone(op string, raw []byte) (*UserItem, error) {
	item, _, err := Decode[UserItem](op, TypeUser, raw)
	if err != nil || item.Type != TypeUser {
		return nil, err
	}
	return &item, nil
}

// DeletionGrace is how long after the deletion of a user more of their items may be written, by requests in
// flight, cached authors and delayed handlers. The deletion takes at least as long, so newer items are not of
// the deleted user.
const DeletionGrace = time.Minute

// MaxWriteTime is the longest that a write takes, with the largest difference between two clocks.
const MaxWriteTime = time.Minute

// Items counts items of users.
type Items struct {
	Posts  int
	Tags   int // of these posts
	Others int // comments and likes
	Below  int // comments and likes below the posts

	Followers int
	Following int // authors whom the user follows
}
