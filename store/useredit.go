package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
	"byline/store/username"
)

// UserEdit is a change of a user. The texts are normalized: see normalizeLine and normalizeLines.
type UserEdit struct {
	Username    *string // nil: unchanged
	DisplayName Optional
	AvatarURL   Optional
	Bio         Optional
}

// Optional is a change of an optional text. The zero value changes nothing.
type Optional struct {
	Set   bool
	Value string // "": removes the text
}

func (o Optional) applyTo(text *string) {
	if o.Set {
		*text = o.Value
	}
}

// normalized returns the edit with normalized texts.
func (e UserEdit) normalized() UserEdit {
	e.Username = normalizedText(e.Username, normalizeLine)
	e.DisplayName.Value = normalizeLine(e.DisplayName.Value)
	e.AvatarURL.Value = normalizeLine(e.AvatarURL.Value)
	if e.Bio.Value = normalizeLines(e.Bio.Value); strings.TrimSpace(e.Bio.Value) == "" {
		e.Bio.Value = ""
	}
	return e
}

// Validate returns an Error for each invalid field, joined.
func (e UserEdit) Validate() error {
	const op = "update user"
	e = e.normalized()
	var errs []error
	if e.Username != nil {
		errs = append(errs, username.Check(op, *e.Username))
	}
	check := func(check func(op, text string) error, text Optional) {
		if text.Value != "" {
			errs = append(errs, check(op, text.Value))
		}
	}
	check(checkDisplayName, e.DisplayName)
	check(func(op, text string) error {
		return checkPictureURL(op, "avatarUrl", text, blog.MaxAvatarURL)
	}, e.AvatarURL)
	check(checkBio, e.Bio)
	return errors.Join(errs...)
}

// of returns the user as it is after the edit.
func (e UserEdit) of(u blog.User) blog.User {
	if e.Username != nil {
		u.Username = *e.Username
	}
	e.DisplayName.applyTo(&u.DisplayName)
	e.AvatarURL.applyTo(&u.AvatarURL)
	e.Bio.applyTo(&u.Bio)
	return u
}

// UpdateUser changes a user. For another name it reserves that, changes the user, and releases the old name. If the
// byline changes, the projections bring everything the user wrote up to date. NotFound if the user does not exist,
// Conflict (Field is "username") if the name is taken, LimitReached after too many changes of the username, or of the
// display name and the avatar. A repetition changes nothing, and has no limit.
func (s *userStore) UpdateUser(ctx context.Context, userID string, e UserEdit) (*blog.User, error) {
	const op = "update user"
	ctx = s.account.Begin(ctx, WriteUser)
	if err := e.Validate(); err != nil {
		return nil, err
	}
	e = e.normalized()
	ctx, cancel := context.WithTimeout(ctx, sagaTimeout)
	defer cancel()
	session := cosmos.SessionFrom(ctx)
	session.MarkWritten() // also if a repetition has nothing to write
	for range 3 {
		u, err := stored.ReadUserItem(ctx, op, s.users, userID)
		if err != nil {
			return nil, err
		}
		if u == nil || s.deletions.Hides(u.UserID, u.CreatedAt) {
			return nil, noUser(op)
		}
		to := e.of(u.User)
		if to == u.User {
			s.sessions.noteRename(session, userID)
			s.authors.put(&u.User)
			return &u.User, nil
		}
		if err := s.checkChange(op, u, to); err != nil {
			return nil, err
		}
		if id, ok := blog.FileOf(to.AvatarURL); ok && to.AvatarURL != u.AvatarURL {
			if _, err := s.publishFile(ctx, op, userID, "avatarUrl", id); err != nil {
				return nil, err
			}
		}
		changed, err := s.changeUser(ctx, op, u, to)
		s.authors.drop(userID)
		s.authors.put(changed)
		if changed != nil || err != nil {
			return changed, err
		}
	}
	return nil, &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonConcurrent,
		Message: "another request is changing the user; try again"}
}

// changeUser changes a user to another state. It returns nil if another request has changed the user meanwhile.
func (s *userStore) changeUser(ctx context.Context, op string, u *blog.UserItem, to blog.User) (*blog.User, error) {
	write := func(former []string) (*blog.User, error) {
		s.sessions.noteRename(cosmos.SessionFrom(ctx), u.UserID)
		return s.writeUser(ctx, op, u, to, former)
	}
	if username.Key(to.Username) == username.Key(u.Username) {
		return write(u.FormerUsernames)
	}
	return s.names.Rename(ctx, op, u, to.Username, write,
		func(changed *blog.User) error { return s.revertUser(ctx, op, u, *changed) })
}

// writeUser is changeUser without the reservation of the username.
func (s *userStore) writeUser(
	ctx context.Context, op string, u *blog.UserItem, to blog.User, former []string,
) (*blog.User, error) {
	p := patchUser(u.User, to)
	p.ReturnItem = true
	if !slices.Equal(former, u.FormerUsernames) {
		p.Set("/formerUsernames", former)
	}
	if to.Username != u.Username {
		p.Set("/renames", username.Renames(0).With(u.Renames, s.now()))
	}
	if to.DisplayName != u.DisplayName || to.AvatarURL != u.AvatarURL {
		p.Set("/changes", profileChanges.With(u.Changes, s.now()))
	}
	if to.Byline == u.Byline && u.Spread() {
		p.Set("/spreadRevision", u.Revision+1)
	}
	r, err := s.users.Patch(ctx, stored.Key(u.UserID, u.UserID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return nil, nil
	}
	if stored.Ambiguous(ctx, err) {
		if have, readErr := stored.ReadUser(ctx, op, s.users, u.UserID); readErr == nil && have != nil &&
			have.Byline == to.Byline && have.Bio == to.Bio && have.Revision == u.Revision+1 {
			return have, nil
		}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	return blog.DecodeUser(op, r.Value)
}

// patchUser returns the patch that gives a user the byline and the biography of another state.
func patchUser(from, to blog.User) (p cosmos.Patch) {
	p.Condition = fmt.Sprintf("from c where c.revision = %d", from.Revision)
	for property := range from.Byline.Changes(to.Byline) {
		stored.SetText(&p, "/"+property.InUser(), property.Value)
	}
	if from.Bio != to.Bio {
		stored.SetText(&p, "/bio", to.Bio)
	}
	p.Increment("/revision", 1)
	return p
}

// revertUser restores the previous state of a user who lost the new name. The attempt does not count as a change.
func (s *userStore) revertUser(ctx context.Context, op string, before *blog.UserItem, changed blog.User) error {
	p := patchUser(changed, before.User)
	p.Set("/formerUsernames", append([]string{}, before.FormerUsernames...))
	p.Set("/renames", append([]blog.Date{}, before.Renames...))
	if changed.DisplayName != before.DisplayName || changed.AvatarURL != before.AvatarURL {
		p.Set("/changes", append([]blog.Date{}, before.Changes...))
	}
	_, err := s.users.Patch(ctx, stored.Key(before.UserID, before.UserID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed) { // changed again
		return nil
	}
	return stored.Error(op, err)
}

// profileChanges is how often a user may change the display name and the avatar.
var profileChanges = blog.Quota{Most: 20, Period: 24 * time.Hour}

// checkChange refuses a reserved username, and changes beyond the quotas of the byline.
func (s *userStore) checkChange(op string, u *blog.UserItem, to blog.User) error {
	if to.Byline == u.Byline {
		return nil
	}
	if to.Username != u.Username {
		if err := s.reserved.Check(op, to.Username); err != nil {
			return err
		}
	}
	var errs []error
	check := func(field string, changes bool, q blog.Quota, made []blog.Date) {
		if until := q.Until(made, s.o.Clock()); changes && until != "" {
			errs = append(errs, tooManyChanges(op, field, q, until))
		}
	}
	check("username", to.Username != u.Username, username.Renames(s.o.RenameCooldown), u.Renames)
	check("displayName", to.DisplayName != u.DisplayName, profileChanges, u.Changes)
	check("avatarUrl", to.AvatarURL != u.AvatarURL, profileChanges, u.Changes)
	return errors.Join(errs...)
}

// tooManyChanges returns the LimitReached of a property that cannot be changed until a date.
func tooManyChanges(op, field string, q blog.Quota, until blog.Date) error {
	return &blog.Error{Code: blog.LimitReached, Op: op, Field: field, Reason: blog.ReasonLimit, Until: until,
		Message: fmt.Sprintf("can be changed %d times in %s, and again at %s", q.Most, inWords(q.Period),
			until.Time().Add(time.Minute-1).UTC().Format("15:04 on 2 January 2006 (UTC)"))}
}

// inWords returns a period as whole hours if it has no other part.
func inWords(d time.Duration) string {
	if d%time.Hour == 0 && d > time.Hour {
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return d.String()
}
