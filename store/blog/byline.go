package blog

import (
	"cmp"
	"iter"
	"reflect"
	"strings"
)

// Byline is what travels with a post, a comment or a like of the user who wrote it. The user's own item has it, too,
// and there it is changed: every other item has a copy, which a job of the projections brings up to date. For another
// property of items, add it to the struct and to properties.
type Byline struct {
	UserID   string `json:"userId"`
	Username string `json:"userUsername"` // of the user's own item: username

	// Absent from the items of users without a profile, for which they cost nothing.
	DisplayName string `json:"userDisplayName,omitempty"` // "": the username
	AvatarURL   string `json:"userAvatarUrl,omitempty"`   // "": none
}

// properties returns the properties of the byline, in the order of the fields.
func (b *Byline) properties() [4]*string {
	return [...]*string{&b.UserID, &b.Username, &b.DisplayName, &b.AvatarURL}
}

// Shown returns the name to show: the display name, or the username for want of one.
func (b Byline) Shown() string { return cmp.Or(b.DisplayName, b.Username) }

// bylineNames are the names of the properties in items, in the same order.
var bylineNames = func() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Byline]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

// BylineProperty is a property of a byline as an item has it. Its value is "" if the item does not have it.
type BylineProperty struct{ Name, Value string }

// Properties returns what can change of the byline: everything but the user's id.
func (b Byline) Properties() iter.Seq[BylineProperty] {
	return func(yield func(BylineProperty) bool) {
		for i, value := range b.properties() {
			if i > 0 && !yield(BylineProperty{bylineNames[i], *value}) {
				return
			}
		}
	}
}

// Changes returns the properties that differ from those of another byline of the user, as they are there.
func (b Byline) Changes(to Byline) iter.Seq[BylineProperty] {
	return func(yield func(BylineProperty) bool) {
		have := b.properties()
		for i, want := range to.properties() {
			if *have[i] != *want && !yield(BylineProperty{bylineNames[i], *want}) {
				return
			}
		}
	}
}

// InUser returns the name of the property in the user's own item.
func (p BylineProperty) InUser() string {
	if p.Name == copiedUsername {
		return "username"
	}
	return p.Name
}

const copiedUsername = "userUsername"

// BylineFields are the fields of a byline in a SELECT clause.
var BylineFields = "c." + strings.Join(bylineNames, ", c.")

// readByline reads a byline that was selected by BylineFields.
func readByline(r *fastReader, b *Byline) {
	for i, to := range b.properties() {
		if r.has(bylineNames[i]) {
			*to = r.stringValue()
		}
	}
}

// readBylineProperty reads a property of an item, and reports whether it is one of the byline. It is not called
// readProperty: that would make an item that embeds a byline and nothing else fastReadable.
func (b *Byline) readBylineProperty(r *fastReader, name string) bool {
	for i, to := range b.properties() {
		if name == bylineNames[i] {
			*to = r.stringValue()
			return true
		}
	}
	return false
}
