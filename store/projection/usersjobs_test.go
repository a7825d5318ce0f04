package projection_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
)

// A rebuild compares the name on every item with the author's, so it enqueues renames only of users who were
// renamed recently.
func TestRebuild_EnqueuesNoOldRenames(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "its clock does not advance")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		p := w.AddPost(ada, "post")
		w.rename(ada, "lovelace")
		w.pass(25 * time.Hour)
		w.rename(grace, "hopper")
		w.Start()
		testkit.Until(t, w.CaughtUp)
		testkit.Advance(30 * time.Second)
		w.Corrupt("posts", p.ID, p.ID, "/userUsername", "ada")
		var old, recent atomic.Int64
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/leases/docs") {
				b := body(t, r)
				if strings.Contains(b, `"rename.`+ada.UserID) {
					old.Add(1)
				}
				if strings.Contains(b, `"rename.`+grace.UserID) {
					recent.Add(1)
				}
			}
			return nil
		})
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Rebuilt()
		if old.Load() > 0 || recent.Load() == 0 {
			t.Errorf("got %d jobs of an old rename and %d of a recent one, want 0 and some", old.Load(), recent.Load())
		}
		if got, err := w.Post(t.Context(), p.ID); err != nil || got.Username != "lovelace" {
			t.Errorf("got %+v, %v, want author lovelace", got, err)
		}
	})
}

// A job left over from the deletion of an earlier user with the same id, which had more revisions, starts over. A
// foreign tombstone whose id requests cannot use enqueues no job.
func TestDeleteUser_Enqueued(t *testing.T) {
	cosmostest.NeedsEngine(t, "its clock does not advance")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.AddUser("zuleika")
		id := "deleteUser." + d.UserID
		w.Upsert("leases", id,
			`{"id":"`+id+`","kind":"deleteUser","subject":"`+d.UserID+
				`","generation":9,"position":"2025-01-01T00:00:00.000Z names "}`)
		w.Upsert("users", "a/b",
			`{"id":"a/b","userId":"a/b","type":"user","username":"a","revision":2,"deleted":true,"deletionDate":"2026-01-01T00:00:00.000Z"}`)
		date := blog.Date(w.markDeleted(d)).Time()
		w.Start()
		testkit.Until(t, w.CaughtUp)
		all, err := w.Views().Jobs(t.Context())
		if err != nil || len(all) != 1 || all[0].ID != id || all[0].Generation != date.UnixMilli() {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
