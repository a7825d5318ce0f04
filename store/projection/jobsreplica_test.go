package projection_test

import (
	"testing"
	"time"

	"byline/internal/waittest"
	"byline/store/internal/cosmostest"
	"byline/store/jobs"
)

// An instance that takes over a rename has no session token, and its replica still has the old name. Neither
// ends the job, or sets the old name.
func TestRename_TakenOverOnAStaleReplica(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas lag")
	for _, fresh := range []bool{true, false} { // whether the replica has the user at all
		cosmostest.Run(t, func(t *testing.T) {
			a, b := newLaggingWorlds(t, 8*time.Second)
			ada, grace := a.AddUser("ada"), a.AddUser("grace")
			p := a.AddPost(grace, "post")
			a.AddComment(ada, p, "one")
			if !fresh {
				waittest.Advance(9 * time.Second)
			}
			a.rename(ada, "lovelace")
			job := jobs.Job{Kind: "rename", Subject: ada.ID, Generation: 2}
			step, err := b.Views().Rename(t.Context(), job)
			if step.Done || err != nil {
				t.Errorf("the first unit is %+v, %v", step, err)
			}
			job.Position = step.Position
			a.do(b.Views().Rename, job)
			waittest.Advance(9 * time.Second)
			for _, c := range b.AllComments(p) {
				if c.AuthorUsername != "lovelace" && !fresh { // its own change finds a fresh one
					t.Errorf("the comment is by %s", c.AuthorUsername)
				}
			}
			if step, err := b.Views().Rename(t.Context(), jobs.Job{Kind: "rename", Subject: "nobody", Generation: 2}); !step.Done || err != nil {
				t.Errorf("of nobody: %+v, %v", step, err)
			}
		})
	}
}

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
	w.T.Fatal("it does not end")
}
