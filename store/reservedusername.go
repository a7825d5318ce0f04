package store

import (
	"strings"

	"byline/store/blog"
)

// reservedNames are the usernames that readers could take for the blog's own.
var reservedNames = []string{
	"abuse", "account", "admin", "administrator", "anonymous", "api", "byline", "contact", "everyone", "guest",
	"help", "info", "legal", "mail", "me", "mod", "moderation", "moderator", "nobody", "null", "official", "operator",
	"owner", "postmaster", "privacy", "root", "security", "staff", "superuser", "support", "system", "team", "undefined",
	"user", "viewer", "webmaster",
}

// reservedUsernames are usernames that no user can take, as reservedForm has them.
type reservedUsernames map[string]bool

func newReservedUsernames(more []string) reservedUsernames {
	r := reservedUsernames{}
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

// check returns an Error if nobody can take a valid username.
func (r reservedUsernames) check(op, name string) error {
	switch form := reservedForm(name); {
	case form == "":
		return blog.Invalidf(op, "username", "username must contain a letter or a digit")
	case r[form]:
		return blog.Invalidf(op, "username", "username %s is reserved; choose another", name)
	}
	return nil
}
