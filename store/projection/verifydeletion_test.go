package projection_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
)

// verified returns the differences that Verify reports.
func (w *world) verified() (kinds []string) {
	w.T.Helper()
	for _, d := range w.Differences(0) {
		kinds = append(kinds, fmt.Sprintf("%s of %s: %s, not %s", d.Kind, d.ID, d.Have, d.Want))
	}
	return kinds
}

func (w *world) repairAll() {
	w.T.Helper()
	for _, d := range w.Differences(0) {
		if err := w.Views().Repair(w.T.Context(), d); err != nil {
			w.T.Errorf("%+v: %v", d, err)
		}
	}
}

// A deletion in progress is no difference, but a deleted user without the job is. Repair enqueues the job.
func TestVerify_DeletedUser(t *testing.T) {
	cosmostest.NeedsEngine(t, "its clock does not advance")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.addDeletee(1)
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		w.pass(10 * time.Second)
		stop()
		w.Clock.Millis.Add(61_000) // the sweep acts on old reservations
		w.markDeleted(d.User)
		want := []string{fmt.Sprintf("deletion of %s: no job, not a job that deletes the rest", d.UserID)}
		if diff := cmp.Diff(want, w.verified()); diff != "" {
			t.Error(diff)
		}
		w.repairAll()
		if got := w.verified(); got != nil {
			t.Errorf("after the repair: %v", got)
		}
		w.Start()
		for range 6 {
			w.pass(5 * time.Second)
			if got := w.verified(); got != nil {
				t.Errorf("while the user is being deleted: %v", got)
			}
		}
		w.pass(40 * time.Second)
		w.wantDeleted(d)

		w.Upsert("users", "username:left",
			fmt.Sprintf(
				`{"id":"username:left","userId":"username:left","type":"username","ownerId":%q,"creationDate":"2026-01-01T00:00:00.000Z","leaving":true,"ttl":1000000}`, d.UserID))
		w.Clock.Millis.Add(61_000)
		want = []string{fmt.Sprintf("username of %s: %[1]s, released, not nobody", d.UserID)}
		if diff := cmp.Diff(want, w.verified()); diff != "" {
			t.Error(diff)
		}
		w.repairAll()
		w.wantDeleted(d)
	})
}

// Likes of a deleted post are a difference unless a job deletes them. Repair enqueues the job.
func TestVerify_DeletedPost(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "one")
		stop := w.Start()
		if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, w.CaughtUp)
		testkit.Until(t, func() error { return w.jobsLeft() })
		stop()
		w.Upsert("posts", p.ID,
			fmt.Sprintf(
				`{"id":"left","postId":%q,"type":"like","userId":%q,"userUsername":"ada","creationDate":"2026-01-01T00:00:00.000Z"}`, p.ID, ada.UserID))
		want := []string{fmt.Sprintf("count of %s: 0 comments, 1 likes, not 0 comments, 0 likes", p.ID)}
		if diff := cmp.Diff(want, w.verified()); diff != "" {
			t.Error(diff)
		}
		w.repairAll()
		if got := w.verified(); got != nil {
			t.Errorf("with a job: %v", got)
		}
		w.Start()
		testkit.Until(t, func() error { return w.jobsLeft() })
		if got := w.verified(); got != nil {
			t.Errorf("after the job: %v", got)
		}
	})
}

func (w *world) jobsLeft() error {
	all, err := w.Views().Jobs(w.T.Context())
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("%+v", all)
	}
	return err
}

// An item whose author does not exist may have been imported: Verify does not report it. A tombstone of the author
// causes its deletion.
func TestVerify_AuthorDoesNotExist(t *testing.T) {
	cosmostest.NeedsEngine(t, "its clock does not advance")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.AddPost(w.AddUser("ada"), "one")
		ghost := blog.UserID("test", "ghost")
		for i := range 2 {
			w.Upsert("posts", p.ID,
				fmt.Sprintf(
					`{"id":"left-%d","postId":%q,"type":"comment","userId":%q,"userUsername":"ghost","content":"c","creationDate":"2026-01-01T00:00:00.000Z"}`, i, p.ID, ghost))
		}
		w.Corrupt("posts", p.ID, p.ID, "/commentCount", 2)
		w.Corrupt("posts", p.ID, p.ID, "/revision", 3)
		w.Start()
		testkit.Until(t, w.CaughtUp)
		if got := w.verified(); got != nil {
			t.Errorf("got differences %v, want none", got)
		}
		w.Upsert("users", ghost,
			fmt.Sprintf(`{"id":%q,"userId":%[1]q,"type":"user","deleted":true,"revision":1}`, ghost))
		w.pass(70 * time.Second)
		if n, got := len(w.AllComments(p)), w.verified(); n != 0 || got != nil {
			t.Errorf("%d comments are left: %v", n, got)
		}
		w.wantNothingOf(ghost, "ghost")
	})
}
