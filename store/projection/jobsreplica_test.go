package projection_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/jobs"
)

// An instance that takes over a rename has no session token, and its replica still has the old name. It neither
// ends the job nor sets the old name.
func TestRename_StaleReplica(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas lag")
	for _, fresh := range []bool{true, false} { // whether the replica has the user at all
		cosmostest.Run(t, func(t *testing.T) {
			a, b := newLaggingWorlds(t, 8*time.Second)
			ada, grace := a.AddUser("ada"), a.AddUser("grace")
			p := a.AddPost(grace, "post")
			a.AddComment(ada, p, "one")
			if !fresh {
				testkit.Advance(9 * time.Second)
			}
			a.rename(ada, "lovelace")
			job := jobs.Job{Kind: "rename", Subject: ada.UserID, Generation: 2}
			step, err := b.Views().Rename(t.Context(), job)
			if step.Done || err != nil {
				t.Errorf("the first unit is %+v, %v", step, err)
			}
			job.Position = step.Position
			a.do(b.Views().Rename, job)
			testkit.Advance(9 * time.Second)
			for _, c := range b.AllComments(p) {
				if c.Username != "lovelace" && !fresh { // a fresh comment is corrected by its own change
					t.Errorf("the comment is by %s, want lovelace", c.Username)
				}
			}
			if step, err := b.Views().Rename(t.Context(),
				jobs.Job{Kind: "rename", Subject: "unknown", Generation: 2}); !step.Done || err != nil {
				t.Errorf("rename of an unknown user: got %+v, %v, want done", step, err)
			}
		})
	}
}

// An instance that takes over the deletion of a post's comments and likes does not end it because its replica
// does not have them yet.
func TestDeletePost_StaleReplica(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas lag")
	cosmostest.Run(t, func(t *testing.T) {
		a, b := newLaggingWorlds(t, 8*time.Second)
		ada := a.AddUser("ada")
		p := a.AddPost(ada, "post")
		a.AddComment(ada, p, "one")
		a.AddLike(ada, p)
		a.Corrupt("posts", p.ID, p.ID, "/deleted", true)
		a.do(b.Views().DeletePost, jobs.Job{Kind: "deletePost", Subject: p.ID, Generation: 2})
		testkit.Advance(9 * time.Second)
		if comments, likes := len(b.AllComments(p)), len(b.AllLikes(p)); comments+likes > 0 {
			t.Errorf("%d comments and %d likes are left", comments, likes)
		}
	})
}

// An item of a deleted post that Cosmos DB refuses to delete is skipped, and the others are deleted.
func TestDeletePost_Refused(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "post")
		kept := w.AddComment(ada, p, "kept")
		for range 3 {
			w.AddComment(ada, p, "deleted")
		}
		w.Corrupt("posts", p.ID, p.ID, "/deleted", true)
		var err error
		if w.Store, err = store.New(
			w.NewAccount(cosmos.Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/docs/"+kept.ID) ||
					r.Method == http.MethodPost && strings.Contains(body(t, r), `"id":"`+kept.ID) {
					return &http.Response{StatusCode: http.StatusBadRequest, Status: "400 Bad Request",
						Body: http.NoBody, Header: http.Header{}, Request: r}, nil
				}
				return w.Wire.Do(r)
			})}), store.Options{Database: w.Database}); err != nil {
			t.Fatal(err)
		}
		w.do(w.Views().DeletePost, jobs.Job{Kind: "deletePost", Subject: p.ID, Generation: 2})
		if all := w.AllComments(p); len(all) != 1 || all[0].ID != kept.ID {
			t.Errorf("%d comments are left, want only %s", len(all), kept.ID)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

// Do implements policy.Transporter.
func (f transport) Do(r *http.Request) (*http.Response, error) { return f(r) }

// do does all units of a job.
func (w *world) do(work jobs.Work, j jobs.Job) {
	w.T.Helper()
	for range 100 {
		step, err := work(w.T.Context(), j)
		if err != nil {
			w.T.Fatal(err)
		}
		if step.Done {
			return
		}
		j.Position = step.Position
		w.pass(max(step.Wait, time.Millisecond))
	}
	w.T.Fatal("the job does not end")
}
