package projection_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/jobs"
	"byline/store/projection"
)

// tag creates a post with a tag, and its entries.
func (w *world) tag(u *blog.User, tag string) *blog.Post {
	w.T.Helper()
	p, err := w.CreatePost(w.T.Context(),
		store.NewPost{AuthorID: u.UserID, Title: "t", Content: "c", Tags: []string{tag}})
	if err != nil {
		w.T.Fatal(err)
	}
	w.begin(p)
	return p
}

// deletePost deletes a post and does its job.
func (w *world) deletePost(p *blog.Post) {
	w.T.Helper()
	if err := w.DeletePost(w.T.Context(), p.UserID, p.ID); err != nil {
		w.T.Fatal(err)
	}
	for done := false; !done; {
		step, err := w.Views().DeletePost(w.T.Context(),
			jobs.Job{ID: "deletePost." + p.ID, Kind: "deletePost", Subject: p.ID})
		if err != nil {
			w.T.Fatal(err)
		}
		done = step.Done
	}
}

// timelinesMatch fails unless the timelines match the posts.
func (w *world) timelinesMatch() {
	w.T.Helper()
	for _, d := range w.Differences(0) {
		if strings.HasPrefix(string(d.Kind), "timeline") {
			w.T.Errorf("%+v", d)
		}
	}
}

// A process that was paused handles an old version of a post after another has handled its deletion, or edits of its
// tags. It leaves no entry, and deletes none that the post has again.
func TestTimelines_LateHandler(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	deleted, edited := w.tag(ada, "go"), w.tag(ada, "go")
	w.deletePost(deleted)
	now, err := w.EditPost(t.Context(), ada.UserID, edited.ID, store.PostEdit{Tags: &[]string{"rust"}})
	if err != nil {
		t.Fatal(err)
	}
	w.begin(now)
	untagged, err := w.EditPost(t.Context(), ada.UserID, edited.ID, store.PostEdit{Tags: &[]string{}})
	if err != nil {
		t.Fatal(err)
	}
	if now, err = w.EditPost(t.Context(), ada.UserID, edited.ID, store.PostEdit{Tags: &[]string{"rust"}}); err != nil {
		t.Fatal(err)
	}
	w.begin(now)
	w.timelinesMatch()
	paused, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []*blog.Post{deleted, edited, untagged} {
		if err := paused.Views().ProjectTimelines(t.Context(), version); err != nil {
			t.Fatal(err)
		}
		w.timelinesMatch()
	}
}

// A process that handles an old version of a post is killed after it has created an entry that an edit has deleted
// meanwhile. The process that made the edit, and has cached its version, takes over, and deletes the entry.
func TestTimelines_KilledHandler(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	old := w.tag(ada, "go")
	if _, err := w.EditPost(t.Context(), ada.UserID, old.ID, store.PostEdit{Tags: &[]string{"rust"}}); err != nil {
		t.Fatal(err)
	}
	w.timelinesMatch()
	wire := &storetest.Wire{To: w.Wire}
	wire.Intercept(func(r *http.Request) error {
		if strings.Contains(r.URL.Path, "/colls/posts/docs") {
			return errors.New("killed")
		}
		return nil
	})
	killed, err := store.New(w.NewAccount(cosmos.Options{Transport: wire}),
		store.Options{Database: w.Database, Clock: w.Clock.Now, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Views().ProjectTimelines(t.Context(), old); err == nil {
		t.Fatal("the process is not killed")
	}
	w.Start()
	testkit.Until(t, w.CaughtUp)
	w.timelinesMatch()
}

// The writer of an edit is killed before it deletes an entry. The handler of the edit deletes it, although its replica
// does not have the entry yet.
func TestTimelines_StaleReplica(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas lag")
	cosmostest.Run(t, func(t *testing.T) {
		a, b := newLaggingWorlds(t, 8*time.Second)
		ada := a.AddUser("ada")
		p := a.tag(ada, "go")
		a.Wire.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/colls/feed/docs") {
				return errors.New("killed")
			}
			return nil
		})
		edited, err := a.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Tags: &[]string{"rust"}})
		if err != nil {
			t.Fatal(err)
		}
		a.Wire.Intercept(nil)
		b.begin(edited)
		testkit.Advance(9 * time.Second)
		b.timelinesMatch()
	})
}

// A process creates an entry of a month while another, which has deleted the last one, removes the month from the list.
// The entry stays listed and counted, at whichever request of the other it is created: of the writer, before any job
// counts again, or of the writer and the job.
func TestTimelines_EmptiedMonth(t *testing.T) {
	for name, remove := range map[string]func(*world, *blog.Post){
		"writer": func(w *world, p *blog.Post) {
			if err := w.DeletePost(w.T.Context(), p.UserID, p.ID); err != nil {
				w.T.Fatal(err)
			}
		},
		"writer and job": func(w *world, p *blog.Post) { w.deletePost(p) },
	} {
		t.Run(name, func(t *testing.T) { testEmptiedMonth(t, remove) })
	}
}

func testEmptiedMonth(t *testing.T, remove func(*world, *blog.Post)) {
	for at := int32(1); ; at++ {
		w := newWorld(t)
		ada := w.AddUser("ada")
		first := w.tag(ada, "go")
		other, err := store.New(w.NewAccount(cosmos.Options{Transport: w.Transport}),
			store.Options{Database: w.Database, Clock: w.Clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		create := func() error {
			_, err := other.CreatePost(t.Context(),
				store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", Tags: []string{"go"}})
			return err
		}
		var requests atomic.Int32
		w.Wire.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/colls/feed/docs") && requests.Add(1) == at {
				return create()
			}
			return nil
		})
		remove(w, first)
		w.Wire.Intercept(nil)
		if at > requests.Load() {
			if err := create(); err != nil {
				t.Fatal(err)
			}
		}
		w.timelinesMatch()
		if tag, err := w.Tag(t.Context(), "go"); err != nil || tag.PostCount != 1 {
			t.Errorf("%+v, %v", tag, err)
		}
		if t.Failed() {
			t.Fatalf("created before request %d", at)
		}
		if at > requests.Load() {
			t.Logf("%d requests", at-1)
			return
		}
	}
}

// Entries are created and counted while the item of one of their timelines is malformed, which the counters then set
// anew, its other months too.
func TestTimelines_MalformedItem(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.tag(ada, "go")
	w.Clock.Millis.Add((40 * 24 * time.Hour).Milliseconds())
	w.tag(ada, "go")
	w.Corrupt("feed", blog.TimelinesKey, "tag.go", "/posts", "seven")
	w.tag(ada, "rust")
	w.tag(ada, "go")
	w.tag(ada, "rust")
	w.timelinesMatch()
	for name, want := range map[string]int32{"go": 3, "rust": 2} {
		if tag, err := w.Tag(t.Context(), name); err != nil || tag.PostCount != want {
			t.Errorf("%s: %+v, %v", name, tag, err)
		}
	}
}

// A post that is created over a malformed counter has its entry, and a repair counts it.
func TestTimelines_MalformedCounter(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	first := w.tag(ada, "go")
	partition := blog.AllPosts.Partition(first.CreatedAt.Month())
	w.Corrupt("feed", partition, blog.CounterID, "/posts", "seven")
	second := w.tag(ada, "go")
	for _, d := range w.Differences(0) {
		if d.Kind == projection.TimelineEntry {
			t.Errorf("%s has no entry: %+v", second.ID, d)
		}
		if err := w.Views().Repair(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	w.timelinesMatch()
	if n, err := w.FeedCount(t.Context()); n != 2 || err != nil {
		t.Errorf("%d posts, %v", n, err)
	}
}

// A post of the month before is counted although another process begins a month meanwhile.
func TestCounters_MonthBegins(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.AddPost(ada, "first of a month")
	other, err := store.New(w.NewAccount(cosmos.Options{Transport: w.Wire.To}),
		store.Options{Database: "blog", Clock: w.Clock.Now, Instance: "other", Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	before := w.Clock.Millis.Load()
	w.Clock.Millis.Store(before + (31 * 24 * time.Hour).Milliseconds())
	batches, done := 0, false
	w.Wire.Intercept(func(r *http.Request) error {
		if done || r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") == "" ||
			!strings.Contains(r.Header.Get("X-Ms-Documentdb-Partitionkey"), blog.TimelinesKey) {
			return nil
		}
		if batches++; batches == 2 { // after the read, before the write
			done = true
			now := w.Clock.Millis.Load()
			w.Clock.Millis.Store(before)
			if _, err := other.CreatePost(t.Context(),
				store.NewPost{AuthorID: ada.UserID, Title: "last of a month", Content: "c"}); err != nil {
				t.Error(err)
			}
			w.Clock.Millis.Store(now)
		}
		return nil
	})
	w.AddPost(ada, "first of the next month")
	w.Wire.Intercept(nil)
	if n, err := w.FeedCount(t.Context()); !done || n != 3 || err != nil {
		t.Errorf("%d posts, %v; want 3; the other has written: %t", n, err, done)
	}
	w.timelinesMatch()
}
