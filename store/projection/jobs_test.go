package projection_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"byline/internal/waittest"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
)

// While everything that one user wrote gets a new name, the changes of others are projected. The
// sweep survives the end of its instance, and a rename during a rename ends with the newest name.
func TestProjection_SweepDoesNotBlockAPage(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		post := w.AddPost(ada, "post")
		others := []*blog.Post{w.AddPost(grace, "one"), w.AddPost(grace, "two")}
		w.AddComment(grace, post, "mine")
		const comments = 2000
		for i := range comments {
			w.AddComment(ada, others[i%2], fmt.Sprint("comment ", i))
		}
		stop := w.Start()
		waittest.Until(t, w.CaughtUp)
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/colls/posts/docs/") {
				<-time.After(20 * time.Millisecond) // 5 s for the sweep
			}
			return nil
		})
		rename := func(id, name string) {
			t.Helper()
			if _, err := w.RenameUser(t.Context(), id, name); err != nil {
				t.Fatal(err)
			}
		}
		named := func(id, name string) int {
			n := 0
			for _, other := range others {
				for _, c := range w.AllComments(other) {
					if c.AuthorID == id && c.AuthorUsername == name {
						n++
					}
				}
			}
			return n
		}
		rename(ada.ID, "lovelace")
		waittest.Until(t, func() error {
			if named(ada.ID, "lovelace") == 0 {
				return errors.New("the sweep has not begun")
			}
			return nil
		})
		began := time.Now()
		rename(grace.ID, "hopper")
		waittest.Until(t, func() error {
			if c := w.AllComments(post)[0]; c.AuthorUsername != "hopper" {
				return fmt.Errorf("named %s", c.AuthorUsername)
			}
			return nil
		})
		took := time.Since(began)
		t.Logf("after %v, with %d of %d comments swept", took, named(ada.ID, "lovelace"), comments)
		if took > 1500*time.Millisecond || named(ada.ID, "lovelace") == comments {
			t.Errorf("the other user's rename took %v", took)
		}
		stop()
		if n := named(ada.ID, "lovelace"); n == comments {
			t.Fatal("the sweep has ended: nothing is left for the next instance")
		}
		w.Start()
		rename(ada.ID, "byron")
		waittest.Advance(30 * time.Second)
		if n := named(ada.ID, "byron"); n != comments {
			t.Errorf("%d of %d comments have the newest name", n, comments)
		}
	})
}
