package projection_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/projection"
)

// finds fails the test unless a search finds exactly the posts.
func (w *world) finds(query string, posts ...*blog.Post) {
	w.T.Helper()
	if err := w.findsBy(w.Store, query, posts...); err != nil {
		w.T.Error(err)
	}
}

// findsBy returns an error unless a search by a store finds exactly the posts.
func (w *world) findsBy(s *store.Store, query string, posts ...*blog.Post) error {
	page, err := s.Search(w.T.Context(), store.Search{Query: query, Order: store.ByDate}, store.Paging{First: 100})
	if err != nil {
		return err
	}
	var want, got []string
	for _, p := range posts {
		want = append(want, p.ID)
	}
	for _, f := range page.Items {
		got = append(got, f.Post.ID)
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		return errors.New("search for " + query + ": " + d)
	}
	return nil
}

// searchWrites counts the writes of the container search during do.
func (w *world) searchWrites(do func()) (n int) {
	w.Wire.Intercept(func(r *http.Request) error {
		if strings.Contains(r.URL.Path, "/colls/search/docs") && r.Method != http.MethodGet &&
			r.Header.Get("Content-Type") != "application/query+json" {
			n++
		}
		return nil
	})
	defer w.Wire.Intercept(nil)
	do()
	return n
}

func (w *world) writePost(author *blog.User, title, content string, tags ...string) *blog.Post {
	w.T.Helper()
	p, err := w.CreatePost(w.T.Context(),
		store.NewPost{AuthorID: author.UserID, Title: title, Content: content, Tags: tags})
	if err != nil {
		w.T.Fatal(err)
	}
	return p
}

func (w *world) edit(p *blog.Post, e store.PostEdit) *blog.Post {
	w.T.Helper()
	p, err := w.EditPost(w.T.Context(), p.UserID, p.ID, e)
	if err != nil {
		w.T.Fatal(err)
	}
	return p
}

// The writer of a post finds it at once, without projections: new, edited and deleted. Edits of other texts, likes,
// comments and renames write nothing.
func TestSearchItems_OwnWrites(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.writePost(ada, "Engines", "about *steam*", "trains")
	w.finds("steam", p)
	w.finds("engine trains", p)
	for name, tt := range map[string]struct {
		do   func()
		want int
	}{
		"cover": {func() { w.edit(p, store.PostEdit{CoverURL: new("https://a.example/b.png")}) }, 0},
		"like, comment and rename": {func() {
			w.AddLike(ada, p)
			w.AddComment(ada, p, "comment")
			if _, err := w.UpdateUser(t.Context(), ada.UserID,
				store.UserEdit{DisplayName: store.Optional{Set: true, Value: "Countess"}}); err != nil {
				t.Fatal(err)
			}
		}, 0},
		"title": {func() { w.edit(p, store.PostEdit{Title: new("Machines")}) }, 1},
		"text":  {func() { w.edit(p, store.PostEdit{Content: new("about water")}) }, 1},
		"tags":  {func() { w.edit(p, store.PostEdit{Tags: &[]string{"boats"}}) }, 1},
	} {
		if got := w.searchWrites(tt.do); got != tt.want {
			t.Errorf("%s: %d writes, want %d", name, got, tt.want)
		}
	}
	w.finds("machines water boats", p)
	for _, former := range []string{"engines", "steam", "trains"} {
		w.finds(former)
	}
	w.Start()
	testkit.Until(t, w.CaughtUp)
	if n := w.searchWrites(func() { w.AddLike(w.AddUser("bob"), p); testkit.Until(t, w.CaughtUp) }); n != 0 {
		t.Errorf("a like: %d writes", n)
	}
	w.deletePost(p)
	w.finds("machines")
	w.matches()
}

// matches fails the test if a view does not match its source.
func (w *world) matches() {
	w.T.Helper()
	if found := w.Differences(5 * time.Second); found != nil {
		w.T.Errorf("differences: %+v", found)
	}
}

// A long post is found by its edited title and by its text, also if the projection writes the item, which does not have
// the text.
func TestSearchItems_LongPost(t *testing.T) {
	for name, killed := range map[string]bool{"written": false, "projected": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ada := w.AddUser("ada")
			p := w.writePost(ada, "Long", strings.Repeat("many words ", 2000)+"finally")
			if killed {
				w.killSearchWrites()
			}
			w.edit(p, store.PostEdit{Title: new("Longer")})
			if killed {
				w.finds("longer")
				w.Wire.Intercept(nil)
				w.Start()
				testkit.Until(t, func() error { return w.findsBy(w.Store, "longer finally", p) })
			}
			w.finds(`longer finally "many words many"`, p)
			w.matches()
		})
	}
}

// killSearchWrites makes the requests of the container search fail.
func (w *world) killSearchWrites() {
	w.Wire.Intercept(func(r *http.Request) error {
		if strings.Contains(r.URL.Path, "/colls/search/docs") && r.Header.Get("Content-Type") != "application/query+json" {
			return errors.New("killed")
		}
		return nil
	})
}

// The writer is killed before it writes the item. The projection of another instance, whose replicas lag, writes it
// within two seconds, and deletes it likewise.
func TestSearchItems_Projected(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas lag")
	cosmostest.Run(t, func(t *testing.T) {
		a, b := newLaggingWorlds(t, 100*time.Millisecond)
		ada := a.AddUser("ada")
		b.Start()
		within := func(what string, done func() error) {
			t.Helper()
			began := time.Now()
			testkit.Until(t, done)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: found after %v, want 2 s", what, took)
			}
		}
		a.killSearchWrites()
		p := a.writePost(ada, "Engines", "about steam")
		within("new", func() error { return b.findsBy(b.Store, "steam", p) })
		p = a.edit(p, store.PostEdit{Content: new("about water")})
		within("edited", func() error { return b.findsBy(b.Store, "water", p) })
		a.deletePost(p)
		within("deleted", func() error { return b.findsBy(b.Store, "water") })
		a.Wire.Intercept(nil)
		b.matches()
	})
}

// A process that was paused handles old versions of posts: it brings back neither a former text nor a deleted post.
func TestSearchItems_LateHandler(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	deleted, edited := w.writePost(ada, "Engines", "about steam"), w.writePost(ada, "Engines", "about steam")
	w.deletePost(deleted)
	now := w.edit(edited, store.PostEdit{Content: new("about water")})
	paused, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, handle := range []func(context.Context, ...*blog.Post) error{
		paused.Views().ProjectSearchItems, paused.Views().ProjectSearch} {
		if err := handle(t.Context(), deleted, edited); err != nil {
			t.Fatal(err)
		}
		w.finds("steam")
		w.finds("water", now)
		w.matches()
	}
}

// An edit is undone, and the projection writes neither, as the item has the text. A process that was paused before then
// handles the edit: it does not bring back the undone text.
func TestSearchItems_Undone(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.writePost(ada, "Engines", "about steam")
	w.killSearchWrites()
	edited := w.edit(p, store.PostEdit{Content: new("about water")})
	undone := w.edit(p, store.PostEdit{Content: new("about steam")})
	w.Wire.Intercept(nil)
	paused, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now})
	if err == nil {
		err = w.Views().ProjectSearchItems(t.Context(), undone)
	}
	if err == nil {
		err = paused.Views().ProjectSearchItems(t.Context(), edited)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.finds("steam", undone)
	w.finds("water")
	w.matches()
}

// The projection reads the item from a replica that lacks an edit, so that the item seems to have the text of the post,
// which has undone the edit.
func TestSearchItems_UndoneBehindReplica(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas lag")
	cosmostest.Run(t, func(t *testing.T) {
		a, b := newLaggingWorlds(t, time.Second)
		p := a.writePost(a.AddUser("ada"), "Engines", "about steam")
		testkit.Until(t, func() error { return b.findsBy(b.Store, "steam", p) })
		a.edit(p, store.PostEdit{Content: new("about water")})
		a.killSearchWrites()
		undone := a.edit(p, store.PostEdit{Content: new("about steam")})
		a.Wire.Intercept(nil)
		if err := b.Views().ProjectSearchItems(t.Context(), undone); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error { return b.findsBy(b.Store, "steam", undone) })
		b.matches()
	})
}

// A damaged item does not stop the projection. It gets the text of the post, or is left to verify.
func TestSearchItems_DamagedVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		damage  string // properties of the item
		written bool
	}{
		"no version":      {damage: "", written: true},
		"null version":    {damage: `, "version": null`, written: true},
		"version a text":  {damage: `, "version": "one"`, written: true},
		"fraction":        {damage: `, "version": 9.5`},
		"deleted is null": {damage: `, "version": 1, "deleted": null`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ada := w.AddUser("ada")
			p := w.writePost(ada, "Engines", "about steam")
			w.killSearchWrites()
			p = w.edit(p, store.PostEdit{Content: new("about water")})
			w.Wire.Intercept(nil)
			w.Upsert("search", "2020s", `{"id":"`+p.ID+`","decade":"2020s","type":"post","userId":"`+ada.UserID+
				`","creationDate":"`+string(p.CreatedAt)+`","text":"about steam\n\nEngines\n"`+tt.damage+`}`)
			if err := w.Views().ProjectSearchItems(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if tt.written {
				w.finds("water", p)
				w.matches()
			} else if found := w.Differences(0); len(found) != 1 {
				t.Errorf("differences: %+v", found)
			}
		})
	}
}

// A deletion ends, also if each response contradicts the one before it.
func TestSearchItems_ContradictoryResponses(t *testing.T) {
	w := newWorld(t)
	cosmostest.NeedsEngine(t, "it injects faults")
	p := w.writePost(w.AddUser("ada"), "Engines", "about steam")
	w.Remove("search", "2020s", p.ID)
	w.Inject(func(o faulttest.Operation) faulttest.Response {
		if o.Container == blog.SearchContainer && o.Kind == faulttest.Create {
			return faulttest.Response{Status: http.StatusConflict}
		}
		return faulttest.Response{}
	})
	deleted := *p
	deleted.Tombstone = true
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	storetest.WantCode(t, w.Views().ProjectSearchItems(ctx, &deleted), blog.Conflict, "")
}

// A full partition stops neither writers nor the projection: the item is skipped, and verify reports it.
func TestSearchItems_FullPartition(t *testing.T) {
	w := newWorld(t)
	cosmostest.NeedsEngine(t, "it injects faults")
	ada := w.AddUser("ada")
	full := true
	w.Inject(func(o faulttest.Operation) faulttest.Response {
		if full && o.Container == blog.SearchContainer && o.Kind.Writes() {
			return faulttest.Response{Status: http.StatusForbidden, Substatus: 1014}
		}
		return faulttest.Response{}
	})
	p := w.writePost(ada, "Engines", "about steam")
	w.Start()
	testkit.Until(t, w.CaughtUp)
	w.finds("steam")
	found := w.Differences(0)
	if len(found) != 1 || found[0].Kind != projection.SearchItem || found[0].ID != p.ID {
		t.Fatalf("differences: %+v", found)
	}
	storetest.WantCode(t, w.Views().Repair(t.Context(), found[0]), blog.LimitReached, "")
	full = false
	if err := w.Views().Repair(t.Context(), found[0]); err != nil {
		t.Fatal(err)
	}
	w.finds("steam", p)
	w.matches()
}

// Without the container everything else works, and a rebuild fills it once it exists.
func TestSearchItems_NoContainer(t *testing.T) {
	w := newWorld(t)
	cosmostest.NeedsEngine(t, "it deletes a container")
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	old := w.writePost(ada, "Engines", "about steam")
	c, err := w.Client.NewContainer(w.Database, blog.SearchContainer)
	if err == nil {
		_, err = c.Delete(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Start()
	p := w.writePost(ada, "Engines", "about steam")
	w.edit(old, store.PostEdit{Content: new("about old steam")})
	gone := w.writePost(ada, "Gone", "with steam")
	w.deletePost(gone)
	w.writePost(bob, "Bob", "with steam")
	if err := w.DeleteUser(t.Context(), bob.UserID, "bob"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, w.CaughtUp)
	w.matches()
	if err := w.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := w.writePost(ada, "Engines", "about late steam")
	w.finds("steam", late)
	if err := w.Views().Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, func() error { return w.findsBy(w.Store, "steam", old, p, late) })
	testkit.Until(t, w.CaughtUp)
	w.matches()
}

// Verify finds damaged items, and repair fixes them: also of long posts, of another decade, and restored ones.
func TestSearchItems_Damaged(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	long := w.writePost(ada, "Long", strings.Repeat("many words ", 2000))
	p, gone := w.writePost(ada, "Engines", "about steam", "trains"), w.writePost(ada, "Gone", "with steam")
	w.Start()
	w.deletePost(gone)
	testkit.Until(t, w.CaughtUp)
	w.matches()
	const decade = "2020s"
	for name, damage := range map[string]func(){
		"text":      func() { w.Corrupt("search", decade, p.ID, "/text", "other words") },
		"tags":      func() { w.Corrupt("search", decade, p.ID, "/tags", []string{"boats"}) },
		"author":    func() { w.Corrupt("search", decade, p.ID, "/userId", "somebody") },
		"date":      func() { w.Corrupt("search", decade, p.ID, "/creationDate", "2021-01-01T00:00:00.000Z") },
		"malformed": func() { w.Corrupt("search", decade, p.ID, "/version", "one") },
		"missing":   func() { w.Remove("search", decade, p.ID) },
		"long text": func() { w.Corrupt("search", decade, long.ID, "/text", "few words") },
		"long post": func() { w.Remove("search", decade, long.ID) },
		"decade": func() {
			w.Upsert("search", "1990s", `{"id":"`+p.ID+`","decade":"1990s","type":"post","userId":"`+ada.UserID+
				`","creationDate":"1990-01-01T00:00:00.000Z","version":1,"text":"about steam"}`)
		},
		"decade of a long post": func() {
			w.Upsert("search", "1990s", `{"id":"`+long.ID+`","decade":"1990s","type":"post","userId":"`+ada.UserID+
				`","creationDate":"1990-01-01T00:00:00.000Z","version":1,"text":"many words"}`)
		},
		"restored": func() {
			w.Upsert("search", decade, `{"id":"`+gone.ID+`","decade":"`+decade+`","type":"post","userId":"`+ada.UserID+
				`","creationDate":"2026-01-01T00:00:00.000Z","version":1,"text":"with steam"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			damage()
			found := w.Differences(0)
			if len(found) != 1 || found[0].Kind != projection.SearchItem {
				t.Fatalf("differences: %+v", found)
			}
			if err := w.Views().Repair(t.Context(), found[0]); err != nil {
				t.Fatal(err)
			}
			if found := w.Differences(0); found != nil {
				t.Errorf("still %+v", found)
			}
		})
	}
	w.finds("steam", p)
	w.finds("many", long)
}
