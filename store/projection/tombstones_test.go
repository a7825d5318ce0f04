package projection_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

// Tombstones have another type than what was deleted, so that lists do not read them, and expire.
func TestTombstones(t *testing.T) {
	w := newWorld(t)
	stop := w.Start()
	ada := w.AddUser("ada")
	p, gone := w.AddPost(ada, "post"), w.AddPost(ada, "deleted")
	c := w.AddComment(ada, p, "deleted")
	if _, err := w.DeleteComment(t.Context(), ada.UserID, p.ID, c.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.DeletePost(t.Context(), ada.UserID, gone.ID); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, func() error {
		if found := w.Differences(0); found != nil {
			return fmt.Errorf("%+v", found)
		}
		return w.CaughtUp()
	})
	stop()
	w.Clock.Millis.Add(61_000)
	stored := func(container, partition, id string) string {
		of, err := w.Account.Container(w.Database, container)
		if err != nil {
			t.Fatal(err)
		}
		r, err := of.Read(t.Context(), cosmos.Key{Partition: partition, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Value)
	}
	const day = 24 * 60 * 60
	tombstones := []struct {
		container, partition, id, typ string
		ttl                           int
	}{
		{"posts", p.ID, c.ID, blog.TypeDeletedComment, 30 * day},
		{"posts", gone.ID, gone.ID, blog.TypeDeletedPost, 30 * day},
		{"users", ada.UserID, gone.ID, blog.TypeDeletedPost, day}, {"feed", "post", gone.ID, "post", day},
	}
	for _, at := range tombstones {
		if item := stored(at.container, at.partition, at.id); !strings.Contains(item, `"type":"`+at.typ+`"`) ||
			strings.Contains(item, "creationDate") == (at.container == "feed") ||
			!strings.Contains(item, fmt.Sprintf(`"ttl":%d,`, at.ttl)) {
			t.Errorf("%s: %s", at.container, item)
		}
	}
}

// A deletion whose summary could not be updated at first, while the job that deletes what belonged to the post was
// done.
func TestTombstones_JobBeforeSummary(t *testing.T) {
	w := newFaultWorld(t, store.Options{})
	w.begin()
	ada := w.AddUser("ada")
	p := w.add(ada, "gone", "short")
	w.settle()
	w.World.Wire.Intercept(func(r *http.Request) error {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/colls/users/docs/"+p.ID) {
			return errors.New("no connection")
		}
		return nil
	})
	w.must(w.DeletePost(t.Context(), ada.UserID, p.ID))
	handlers, _ := w.Views().Handlers()
	if err := handlers["projections-posts"](t.Context(), w.items("posts")); err == nil {
		t.Fatal("the summary has been updated")
	}
	w.World.Wire.Intercept(nil)
	jobs, err := w.Views().Jobs(t.Context())
	w.must(err)
	for _, j := range jobs {
		w.must(w.work(t.Context(), j))
	}
	w.handle("projections-posts")
	if found := w.Differences(0); found != nil {
		t.Errorf("%+v", found)
	}
}
