package blog

import "time"

// User is a registered author.
type User struct {
	ID        string `json:"userId"`
	Username  string `json:"username"`
	CreatedAt Date   `json:"creationDate"` // "" where only the id and the name are known
	Revision  int64  `json:"revision"`     // incremented by every write
}

// UserItem is a user in the users container.
type UserItem struct {
	Envelope
	ItemID string `json:"id"` // == userId
	User
	InputDigest string `json:"inputDigest,omitempty"`

	FormerUsernames []string `json:"formerUsernames,omitempty"` // kept for the user, oldest first
	Renames         []Date   `json:"renames,omitempty"`         // dates of the last renames, oldest first

	DeletedAt Date `json:"deletionDate,omitempty"` // of a tombstone, which has no TTL: the deletion job deletes it last
}

func (u *UserItem) readProperty(r *fastReader, name string) bool {
	switch name {
	case "id":
		u.ItemID = r.stringValue()
	case "userId":
		u.ID = r.stringValue()
	case "username":
		u.Username = r.stringValue()
	case "creationDate":
		u.CreatedAt = r.dateValue()
	case "revision":
		u.Revision = r.intValue(64)
	case "inputDigest":
		u.InputDigest = r.stringValue()
	case "formerUsernames":
		u.FormerUsernames = r.stringsValue()
	case "renames":
		u.Renames = []Date{}
		r.eachString(func() { u.Renames = append(u.Renames, r.dateValue()) })
	case "deletionDate":
		u.DeletedAt = r.dateValue()
	default:
		return u.readEnvelope(r, name)
	}
	return true
}

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
