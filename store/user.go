package store

import (
	"context"
	"errors"
	"net/http"

	"byline/store/cosmos"
)

// User is somebody who writes, comments and likes.
type User struct {
	ID        string `json:"userId"`
	Username  string `json:"username"`
	CreatedAt Date   `json:"creationDate"` // "" in the copies that posts, comments and likes carry
	Revision  int64  `json:"revision"`     // raised by every write
}

type userItem struct {
	envelope
	ItemID string `json:"id"` // == userId
	User
	InputDigest string `json:"inputDigest,omitempty"`

	FormerUsernames []string `json:"formerUsernames,omitempty"` // that are kept for the user, the newest last
}

func (u *userItem) plain(p *plain, name string) bool {
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
		return u.plainEnvelope(p, name)
	}
	return true
}

func decodeUser(op string, raw []byte) (*User, error) {
	item, ok, err := decode[userItem](op, typeUser, raw)
	if !ok {
		return nil, err
	}
	return &item.User, nil
}

// wholeUser is what a user is called in memory.
const wholeUser = "user"

// User reads a user: Q1, one point read. It returns nil if there is none.
func (s *Store) User(ctx context.Context, id string) (*User, error) {
	ctx = s.account.Begin(ctx, Q1)
	return cached(ctx, s.users, id, wholeUser, func(ctx context.Context) (*User, error) {
		return readUser(ctx, "read user", s.users, id)
	})
}

func readUser(ctx context.Context, op string, c *cosmos.Container, id string) (*User, error) {
	item, err := readUserItem(ctx, op, c, id)
	if item == nil {
		return nil, err
	}
	return &item.User, nil
}

func readUserItem(ctx context.Context, op string, c *cosmos.Container, id string) (*userItem, error) {
	if !validID(id) {
		return nil, nil
	}
	raw, err := readItem(ctx, op, c, key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	item, ok, err := decode[userItem](op, typeUser, raw)
	if !ok {
		return nil, err
	}
	return &item, nil
}

// Users reads many users in one request: result[i] is nil if ids[i] does not exist.
func (s *Store) Users(ctx context.Context, ids []string) ([]*User, error) {
	ctx = s.account.Begin(ctx, ManyUsers)
	return cachedMany(ctx, s.users, ids, func(string) string { return wholeUser }, func(ctx context.Context, ids []string) ([]*User, error) {
		return readUsers(ctx, s.users, ids, decodeUser)
	})
}

func readUsers(ctx context.Context, c *cosmos.Container, ids []string, decode func(string, []byte) (*User, error)) ([]*User, error) {
	return readAll(ctx, "read users", c, ids,
		func(id string) cosmos.Key {
			return key(id, id)
		},
		decode, func(u *User) string { return u.ID })
}

// NewUser is a user to create. ID comes from UserID.
type NewUser struct {
	ID       string
	Username string
	Key      string // the idempotency key, or ""
}

// Validate returns all that is wrong with the input, as Errors that are joined: one for
// each field.
func (n NewUser) Validate() error {
	const op = "create user"
	return errors.Join(checkUsername(op, n.Username), checkKey(op, n.Key))
}

// CreateUser is C1: it reserves the name, then makes the user. Conflict says
// that the name is taken (Field is "username") or that the id has a user
// already. A crash between the two steps leaves a reservation that the same
// user can go on with.
func (s *Store) CreateUser(ctx context.Context, n NewUser) (*User, error) {
	const op = "create user"
	ctx = s.account.Begin(ctx, C1)
	if err := n.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sagaTimeout)
	defer cancel()
	item := userItem{envelope: envelope{Type: typeUser}, ItemID: n.ID, InputDigest: inputDigest(n.Key, n.Key, n.Username),
		User: User{ID: n.ID, Username: n.Username, CreatedAt: s.now(), Revision: 1}}
	// Look first: a name must not be reserved for somebody who cannot have it.
	existing, err := s.existingUser(ctx, op, item)
	if existing != nil || err != nil {
		return existing, err
	}
	if err := s.reserveUsername(ctx, op, n.ID, n.Username); err != nil {
		return nil, err
	}
	err = s.users.Create(ctx, n.ID, encode(item))
	if cosmos.HasStatus(err, http.StatusConflict) {
		if existing, err := s.existingUser(ctx, op, item); existing != nil || err != nil {
			return existing, err
		}
	}
	if ambiguous(ctx, err) {
		if have, readErr := readUser(ctx, op, s.users, n.ID); readErr == nil && have != nil && have.CreatedAt == item.CreatedAt && have.Username == n.Username {
			return have, nil
		}
	}
	if err != nil {
		return nil, cosmosError(op, err)
	}
	return &item.User, nil
}

// existingUser returns the user if it is what an earlier attempt at creating
// item made, nil if there is none, and Conflict if there is another.
func (s *Store) existingUser(ctx context.Context, op string, item userItem) (*User, error) {
	raw, err := readItem(ctx, op, s.users, key(item.ID, item.ID))
	if raw == nil || err != nil {
		return nil, err
	}
	have, ok, err := decode[userItem](op, typeUser, raw)
	if !ok {
		return nil, err
	}
	if item.InputDigest != "" && have.InputDigest == item.InputDigest {
		return &have.User, nil
	}
	return nil, &Error{Code: Conflict, Op: op, Message: "you already have a user; rename it with updateUser"}
}

// author reads the user who acts. Without one, nothing may be written: Forbidden.
func (s *Store) author(ctx context.Context, op, userID string) (*User, error) {
	u, err := readUser(ctx, op, s.users, userID)
	if u == nil && err == nil {
		err = &Error{Code: Forbidden, Op: op, Message: "you have no user yet: call createUser first"}
	}
	return u, err
}

// Empty reports whether there is no user. It looks in all partitions:
// for the start of a process, never for the request path.
func (s *Store) Empty(ctx context.Context) (bool, error) {
	ctx = s.account.Begin(ctx, Readiness)
	for users, err := range s.background.users.Query(ctx, cosmos.Query{Text: "SELECT c.id FROM c WHERE c.type = 'user'", AllPartitions: true, PageSize: 1}) {
		if err != nil {
			return false, cosmosError("look for users", err)
		}
		if len(users) > 0 {
			return false, nil
		}
	}
	return true, nil
}
