package blog

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
