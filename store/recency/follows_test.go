package recency

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/store/blog"
)

func wrote(f *Follows, viewer, author string, revision int64, follows bool) bool {
	item := blog.NewFollow(author, blog.Byline{UserID: viewer}, "", revision)
	item.Deleted = !follows
	return f.Wrote(&item, f.clock())
}

func viewed(f *Follows, viewer, author string, revision int64, follows bool) {
	item := blog.NewFollow(author, blog.Byline{UserID: viewer}, "", revision).Following()
	item.Deleted = !follows
	f.Viewed(&item)
}

// states returns whether the viewer follows the authors of changes.
func states(changes map[string]Change) map[string]bool {
	follows := map[string]bool{}
	for author, c := range changes {
		follows[author] = c.Follows
	}
	return follows
}

func TestFollows_Fresh(t *testing.T) {
	now := time.Unix(0, 0)
	for name, tt := range map[string]struct {
		change func(f *Follows)
		want   map[string]bool
	}{
		"none":               {func(*Follows) {}, nil},
		"a follow":           {func(f *Follows) { wrote(f, "ada", "bob", 1, true) }, map[string]bool{"bob": true}},
		"that the view has":  {func(f *Follows) { wrote(f, "ada", "bob", 1, true); viewed(f, "ada", "bob", 1, true) }, nil},
		"of another viewer":  {func(f *Follows) { wrote(f, "eve", "bob", 1, true) }, nil},
		"the end of it":      {func(f *Follows) { wrote(f, "ada", "bob", 1, true); wrote(f, "ada", "bob", 2, false) }, map[string]bool{"bob": false}},
		"reported backwards": {func(f *Follows) { wrote(f, "ada", "bob", 2, false); wrote(f, "ada", "bob", 1, true) }, map[string]bool{"bob": false}},
		"of which the view has the beginning": {func(f *Follows) {
			wrote(f, "ada", "bob", 1, true)
			wrote(f, "ada", "bob", 2, false)
			viewed(f, "ada", "bob", 1, true)
		}, map[string]bool{"bob": false}},
		"after that of another process": {func(f *Follows) {
			wrote(f, "ada", "bob", 1, true)
			viewed(f, "ada", "bob", 2, false)
		}, nil},
		"a minute old": {func(f *Follows) {
			wrote(f, "ada", "bob", 1, true)
			now = now.Add(time.Minute)
			wrote(f, "ada", "eve", 1, true)
		}, map[string]bool{"bob": true, "eve": true}},
		"reported after the view": {func(f *Follows) {
			viewed(f, "ada", "bob", 2, false)
			wrote(f, "ada", "bob", 1, true)
		}, nil},
		"of a user who has registered again": {func(f *Follows) {
			viewed(f, "ada", "bob", 3, false)
			f.Wrote(&blog.FollowItem{UserID: "bob", OwnerID: "ada", FollowedAt: "2026-01-01", Revision: 1}, now)
			wrote(f, "ada", "bob", 2, false) // before
		}, map[string]bool{"bob": true}},
		"half a minute old when it was learned": {func(f *Follows) {
			f.Wrote(&blog.FollowItem{UserID: "bob", OwnerID: "ada", Revision: 1}, now.Add(-time.Minute/2))
			now = now.Add(time.Minute/2 + 1)
		}, nil},
		"a new one besides an old one": {func(f *Follows) {
			wrote(f, "ada", "bob", 1, true)
			now = now.Add(time.Minute + 1)
			wrote(f, "ada", "eve", 1, true)
		}, map[string]bool{"eve": true}},
		"an earlier revision than an old one": {func(f *Follows) {
			wrote(f, "ada", "bob", 3, false)
			now = now.Add(time.Minute + 1)
			wrote(f, "ada", "bob", 1, true)
		}, map[string]bool{"bob": true}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFollows(func() time.Time { return now })
			tt.change(f)
			if got := states(f.Fresh("ada")); !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Of one viewer the newest changes are kept.
func TestFollows_FreshAtMost(t *testing.T) {
	now := time.Unix(0, 0)
	f := NewFollows(func() time.Time { now = now.Add(1); return now })
	for i := range 2*blog.MaxFollowed + 2 {
		wrote(f, "ada", fmt.Sprint(i), 1, true)
	}
	wrote(f, "ada", "2", 2, false) // there is room
	fresh := states(f.Fresh("ada"))
	if follows, ok := fresh["2"]; len(fresh) != 2*blog.MaxFollowed || fresh["0"] || fresh["1"] || follows || !ok {
		t.Errorf("%d changes, of the first authors: %t %t %t", len(fresh), fresh["0"], fresh["1"], follows)
	}
}

func TestAuthors_With(t *testing.T) {
	a := NewAuthors([]string{"bob", "ada", "bob"})
	if got := a.With(nil); got != a {
		t.Error("a set without changes is another one")
	}
	b := a.With(map[string]Change{"ada": {}, "eve": {Follows: true}, "bob": {Follows: true}})
	if got := b.IDs(); !slices.Equal(got, []string{"bob", "eve"}) || b.Has("ada") || !b.Has("eve") || !a.Has("ada") {
		t.Errorf("got %v", got)
	}
}

func TestFollows_Waiting(t *testing.T) {
	f := NewFollows(time.Now)
	waiting := func(author string) string {
		viewers := f.Watchers(author)
		slices.Sort(viewers)
		return strings.Join(viewers, " ")
	}
	want := func(what, author, viewers string) {
		t.Helper()
		if got := waiting(author); got != viewers {
			t.Errorf("%s: %q wait for %s, want %q", what, got, author, viewers)
		}
	}
	w := f.Watch("ada")
	viewed(f, "ada", "eve", 1, true) // before the view is read
	viewed(f, "ada", "dan", 2, false)
	w.Load([]string{"bob", "dan"})
	want("loaded", "bob", "ada")
	want("changed before", "eve", "ada")
	want("ended before", "dan", "")
	if !wrote(f, "ada", "dan", 3, true) || wrote(f, "ada", "dan", 3, true) {
		t.Error("a change is not reported as new once")
	}
	want("follows again", "dan", "ada")
	viewed(f, "ada", "dan", 2, false)
	want("an older change of the view", "dan", "ada")
	viewed(f, "ada", "dan", 4, false)
	want("a newer change of the view", "dan", "")
	other, second := f.Watch("cyd"), f.Watch("ada")
	other.Load([]string{"bob"})
	want("two viewers", "bob", "ada cyd")
	w.Close()
	want("another stream of the viewer", "bob", "ada cyd")
	second.Close()
	want("without streams", "bob", "cyd")
}
