package username

import (
	"strings"

	"byline/store/blog"
)

// reservedNames are the usernames that readers could take for the blog's own.
var reservedNames = []string{
	"abuse", "account", "admin", "administrator", "anonymous", "api", "byline", "contact", "everyone", "guest",
	"help", "info", "legal", "mail", "me", "mod", "moderation", "moderator", "nobody", "null", "official", "operator",
	"owner", "postmaster", "privacy", "root", "security", "staff", "superuser", "support", "system", "team",
	"undefined", "user", "viewer", "webmaster",
}

// Reserved are the usernames that no user can take.
type Reserved map[string]bool // by reservedForm

// NewReserved returns reservedNames, and more.
func NewReserved(more []string) Reserved {
	r := Reserved{}
	for _, name := range append(reservedNames, more...) {
		r[reservedForm(name)] = true
	}
	return r
}

// reservedForm returns a name without case, hyphens and underscores, so that Admin_ and a-d-m-i-n are reserved with
// admin.
func reservedForm(name string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
}

// Check returns an Error if nobody can take a valid username.
func (r Reserved) Check(op, name string) error {
	switch form := reservedForm(name); {
	case form == "":
		return blog.Invalidf(op, "username", blog.ReasonCharacter, "must contain a letter or a digit")
	case r[form]:
		return blog.Invalidf(op, "username", blog.ReasonReserved, "is reserved; choose another")
	}
	return nil
}

// The limits on the length of a username, in bytes.
const (
	minLength = 3
	maxLength = 30
)

// Check returns an Error if a username has an invalid length or character.
func Check(op, name string) error {
	switch n := len(name); {
	case n == 0:
		return blog.Invalidf(op, "username", blog.ReasonBlank, "must not be blank")
	case n < minLength:
		return blog.Invalidf(op, "username", blog.ReasonTooShort, "must have at least %d characters", minLength)
	case n > maxLength:
		return blog.Invalidf(op, "username", blog.ReasonTooLong, "must have at most %d characters", maxLength)
	}
	for i := range len(name) {
		if !blog.IsIDByte(name[i]) {
			return blog.Invalidf(op, "username", blog.ReasonCharacter, "may contain only A-Z, a-z, 0-9, _ and -")
		}
	}
	return nil
}
