package names

import (
	"errors"
	"io"

	"github.com/99designs/gqlgen/graphql"

	"byline/store/blog"
)

// Fields are the fields of User that are read from the byline at hand, besides id: their texts, nil for null. The
// executor finds them as methods of User.
var Fields = map[string]func(b blog.Byline) *string{
	"username":    func(b blog.Byline) *string { return &b.Username },
	"displayName": func(b blog.Byline) *string { return new(b.Shown()) },
	"avatarUrl": func(b blog.Byline) *string {
		if b.AvatarURL == "" {
			return nil
		}
		return &b.AvatarURL
	},
}

// User is a user as a response shows it.
type User struct {
	blog.User
	names *Names
}

// User returns a user as the response shows it.
func (n *Names) User(u blog.User) *User { return &User{u, n} }

// Username returns the username to show.
func (u *User) Username() Text { return u.text("username") }

// DisplayName returns the display name to show.
func (u *User) DisplayName() Text { return u.text("displayName") }

// AvatarURL returns the picture to show.
func (u *User) AvatarURL() Text { return u.text("avatarUrl") }

func (u *User) text(field string) Text {
	u.names.Show(u.Byline)
	return Text{u.names, u.Byline, Fields[field]}
}

// Text is a text of a byline that is decided when the response is written.
type Text struct {
	names  *Names
	copied blog.Byline
	of     func(blog.Byline) *string
}

// MarshalGQL implements graphql.Marshaler.
func (t Text) MarshalGQL(w io.Writer) {
	t.names.Settle()
	if text := t.of(t.names.Show(t.copied)); text != nil {
		graphql.MarshalString(*text).MarshalGQL(w)
	} else {
		graphql.Null.MarshalGQL(w)
	}
}

// UnmarshalGQL implements graphql.Unmarshaler, which gqlgen requires. A Text is never an
// input.
func (*Text) UnmarshalGQL(any) error { return errors.New("Text is not an input type") }
