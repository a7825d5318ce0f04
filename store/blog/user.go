package blog

import "time"

// User is a registered author.
type User struct {
	ID        string `json:"userId"`
	Username  string `json:"username"`
	CreatedAt Date   `json:"creationDate"` // "" where only the id and the name are known
	Revision  int64  `json:"revision"`     // raised by every write
}

// UserItem is a user in the users container.
type UserItem struct {
	Envelope
	ItemID string `json:"id"` // == userId
	User
	InputDigest string `json:"inputDigest,omitempty"`

	FormerUsernames []string `json:"formerUsernames,omitempty"` // kept for the user, oldest first
	Renames         []Date   `json:"renames,omitempty"`         // when the name was changed, the last few times, oldest first

	DeletedAt Date `json:"deletionDate,omitempty"` // of a tombstone, which has no TTL: the deletion of all they wrote ends with it
}

func (u *UserItem) readProperty(p *fastReader, name string) bool {
	switch name {
	case "id":
		u.ItemID = p.quoted()
	case "userId":
		u.ID = p.quoted()
	case "username":
		u.Username = p.quoted()
	case "creationDate":
		u.CreatedAt = p.day()
	case "revision":
		u.Revision = p.integer(64)
	case "inputDigest":
		u.InputDigest = p.quoted()
	case "deletionDate":
		u.DeletedAt = p.day()
	default:
		return u.readEnvelope(p, name)
	}
	return true
}

// DecodeUser decodes a user. It returns nil for another type.
func DecodeUser(op string, raw []byte) (*User, error) {
	item, ok, err := Decode[UserItem](op, TypeUser, raw)
	if !ok {
		return nil, err
	}
	return &item.User, nil
}

// DecodeUserOrTombstone is DecodeUser for users that may be deleted, with the properties that only
// the container has.
func DecodeUserOrTombstone(op string, raw []byte) (*UserItem, error) {
	item, _, err := Decode[UserItem](op, TypeUser, raw)
	if err != nil || item.Type != TypeUser {
		return nil, err
	}
	return &item, nil
}

// DeletionGrace is how long after the deletion of a user something of theirs may still arrive, from
// requests that had begun, cached authors and delayed handlers: the deletion lasts at least as long, and
// so nothing newer is of it.
const DeletionGrace = time.Minute
