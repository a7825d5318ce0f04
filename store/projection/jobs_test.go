package projection_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// While a rename job runs, other changes are projected. The job survives the end of its instance, and a rename
// during a rename ends with the newest name.
func TestProjection_RenameDoesNotBlockPages(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		post := w.AddPost(ada, "post")
		others := []*blog.Post{w.AddPost(grace, "one"), w.AddPost(grace, "two")}
		w.AddComment(grace, post, "mine")
		const comments = 500
		for i := range comments {
			w.AddComment(ada, others[i%2], fmt.Sprint("comment ", i))
		}
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/colls/posts/docs/") {
				<-time.After(80 * time.Millisecond) // 5 s for the job
			}
			return nil
		})
		rename := func(id, name string) {
			t.Helper()
			if _, err := w.UpdateUser(t.Context(), id, store.UserEdit{Username: new(name)}); err != nil {
				t.Fatal(err)
			}
		}
		named := func(id, name string) int {
			n := 0
			for _, other := range others {
				for _, c := range w.AllComments(other) {
					if c.UserID == id && c.Username == name {
						n++
					}
				}
			}
			return n
		}
		rename(ada.UserID, "lovelace")
		testkit.Until(t, func() error {
			if named(ada.UserID, "lovelace") == 0 {
				return errors.New("the job has not begun")
			}
			return nil
		})
		began := time.Now()
		rename(grace.UserID, "hopper")
		testkit.Until(t, func() error {
			if c := w.AllComments(post)[0]; c.Username != "hopper" {
				return fmt.Errorf("the comment is by %s", c.Username)
			}
			return nil
		})
		took := time.Since(began)
		t.Logf("after %v, with %d of %d comments renamed", took, named(ada.UserID, "lovelace"), comments)
		if took > 1500*time.Millisecond || named(ada.UserID, "lovelace") == comments {
			t.Errorf("the other user's rename took %v", took)
		}
		stop()
		if n := named(ada.UserID, "lovelace"); n == comments {
			t.Fatal("the job has ended: nothing is left for the next instance")
		}
		w.Start()
		rename(ada.UserID, "byron")
		testkit.Advance(30 * time.Second)
		if n := named(ada.UserID, "byron"); n != comments {
			t.Errorf("%d of %d comments have the newest name", n, comments)
		}
	})
}

// renameOf reports whether a request is the query of a rename job for a user's items with another name.
func renameOf(t testing.TB, r *http.Request, userID string) bool {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/colls/posts/docs") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.Contains(body, []byte("c.userUsername != @name")) && bytes.Contains(body, []byte(userID))
}

// wait delays a request, like a slow service. It returns at once if the request is canceled.
func wait(r *http.Request, d time.Duration) error {
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-time.After(d):
		return nil
	}
}

// A rename whose query takes longer than a slice makes progress and ends. It tries a write that Cosmos DB refuses
// once in each pass.
func TestJobs_SlowQuery(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		post := w.AddPost(grace, "post")
		const comments = 250
		for i := range comments {
			w.AddComment(ada, post, fmt.Sprint("comment ", i))
		}
		w.Upsert("posts", "poison",
			fmt.Sprintf(
				`{"id":"poison","postId":"poison","type":"post","userId":%q,"userUsername":"ada","title":"x","content":"x","creationDate":"2026-01-01T00:00:00.000Z","revision":"many"}`, ada.UserID))
		w.Start()
		testkit.Until(t, w.CaughtUp)
		var refused, queries atomic.Int64
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/docs/poison") {
				refused.Add(1)
			}
			if renameOf(t, r, ada.UserID) {
				queries.Add(1)
				return wait(r, 700*time.Millisecond)
			}
			return nil
		})
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("lovelace")}); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(30 * time.Second)
		named := 0
		for _, c := range w.AllComments(post) {
			if c.Username == "lovelace" {
				named++
			}
		}
		t.Logf("%d queries, %d attempts of the refused write", queries.Load(), refused.Load())
		if named != comments {
			t.Errorf("%d of %d comments have the new name", named, comments)
		}
		if n := refused.Load(); n > 2 {
			t.Errorf("got %d attempts of the refused write, want at most 2", n)
		}
		before := queries.Load()
		testkit.Advance(time.Minute)
		if n := queries.Load() - before; n > 0 {
			t.Errorf("got %d queries after the job, want 0", n)
		}
	})
}

// A failing job does not stop other changes. It is retried with backoff.
func TestJobs_FailingSubject(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		post := w.AddPost(grace, "post")
		w.AddComment(ada, post, "by ada")
		w.Start()
		testkit.Until(t, w.CaughtUp)
		w.Wire.Intercept(func(r *http.Request) error {
			if renameOf(t, r, ada.UserID) {
				return errors.New("no connection")
			}
			return nil
		})
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("lovelace")}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, w.CaughtUp)
		w.Wire.Intercept(nil)
		testkit.Advance(time.Minute)
		if c := w.AllComments(post)[0]; c.Username != "lovelace" {
			t.Errorf("the comment is by %s, want lovelace", c.Username)
		}
	})
}

// A failing job is retried with backoff beside one that makes progress, and a malformed one stops neither.
func TestJobs_BackOff(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		post := w.AddPost(grace, "post")
		w.AddComment(ada, post, "by ada")
		const comments = 400
		for i := range comments {
			w.AddComment(grace, post, fmt.Sprint("comment ", i))
		}
		w.Start()
		testkit.Until(t, w.CaughtUp)
		w.Upsert("leases", "rename.malformed",
			`{"id":"rename.malformed","kind":"rename","subject":"malformed","generation":"many"}`)
		var failing, listings atomic.Int64
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/leases/docs") {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte("IS_DEFINED(c.kind)")) {
					listings.Add(1)
				}
			}
			switch {
			case renameOf(t, r, ada.UserID):
				failing.Add(1)
				return errors.New("no connection")
			case renameOf(t, r, grace.UserID):
				return wait(r, 3*time.Second)
			}
			return nil
		})
		for id, name := range map[string]string{ada.UserID: "lovelace", grace.UserID: "hopper"} {
			if _, err := w.UpdateUser(t.Context(), id, store.UserEdit{Username: new(name)}); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Advance(30 * time.Second)
		t.Logf("%d attempts, %d listings", failing.Load(), listings.Load())
		for _, c := range w.AllComments(post) {
			if c.UserID == grace.UserID && c.Username != "hopper" {
				t.Fatalf("a comment is by %s, want hopper", c.Username)
			}
		}
		if n := failing.Load(); n > 10 {
			t.Errorf("got %d attempts of the failing job, want at most 10", n)
		}
		if n := listings.Load(); n > 15 {
			t.Errorf("got %d listings in 30 s, want at most 15", n)
		}
	})
}

// The claim of a dead instance expires, although new changes enqueue the job again.
func TestJobs_DeadOwner(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		id := "rename." + ada.UserID
		w.Upsert("leases", id,
			fmt.Sprintf(`{"id":%q,"kind":"rename","subject":%q,"owner":"dead","generation":1,"renewals":1}`, id,
				ada.UserID))
		var done atomic.Bool
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/docs/"+id) {
				done.Store(true)
			}
			return nil
		})
		w.Start()
		for i := range 12 {
			w.pass(5 * time.Second)
			if done.Load() {
				return
			}
			w.Corrupt("leases", id, id, "/generation", i+2)
		}
		t.Error("the dead instance keeps the job")
	})
}

// The job of a killed instance is done within 10 s, the time in which views must match their sources.
func TestJobs_KilledOwner(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		leases, err := w.Client.NewContainer(w.Database, blog.LeasesContainer)
		if err != nil {
			t.Fatal(err)
		}
		id := "rename." + ada.UserID
		w.Upsert(blog.LeasesContainer, id,
			fmt.Sprintf(`{"id":%q,"kind":"rename","subject":%q,"owner":"killed"}`, id, ada.UserID))
		w.Start()
		w.pass(10 * time.Second)
		var response *azcore.ResponseError
		if _, err := leases.ReadItem(t.Context(), azcosmos.NewPartitionKeyString(id), id, nil); !errors.As(err,
			&response) || response.StatusCode != http.StatusNotFound {
			t.Errorf("the job is not done: %v", err)
		}
	})
}
