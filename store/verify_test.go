package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/store"
)

// verify returns what is different and stays so.
func (w *world) verify(settle time.Duration) []store.Difference {
	w.t.Helper()
	var found []store.Difference
	if err := w.Verify(w.t.Context(), settle, nil, func(d store.Difference) { found = append(found, d) }); err != nil {
		w.t.Fatal(err)
	}
	return found
}

// corrupt patches an item behind the store's back.
func (w *world) corrupt(container, partition, id, path string, value any) {
	w.t.Helper()
	c, err := w.client.NewContainer("blog", container)
	if err != nil {
		w.t.Fatal(err)
	}
	var p azcosmos.PatchOperations
	p.AppendSet(path, value)
	if _, err := c.PatchItem(w.t.Context(), azcosmos.NewPartitionKeyString(partition), id, p, nil); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(container, partition, id string) {
	w.t.Helper()
	c, err := w.client.NewContainer("blog", container)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.DeleteItem(w.t.Context(), azcosmos.NewPartitionKeyString(partition), id, nil); err != nil {
		w.t.Fatal(err)
	}
}

func TestVerifyAndRepair(t *testing.T) {
	w := newWorld(t)
	stop := w.run()
	ada, grace := w.user("ada"), w.user("grace")
	var posts []*store.Post
	for i := range 12 {
		p := w.post(ada, fmt.Sprintf("post %d", i))
		posts = append(posts, p)
		w.like(grace, p)
	}
	c := w.comment(grace, posts[0], "a comment")
	if err := w.DeletePost(t.Context(), ada.ID, posts[11].ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if found := w.verify(0); found != nil {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
	stop() // from here on nobody mends anything
	w.clock.ms.Add(61_000)

	w.corrupt("users", ada.ID, posts[1].ID, "/title", "not the title")
	w.corrupt("feed", "post", posts[2].ID, "/likeCount", 99)
	w.corrupt("feed", "post", posts[3].ID, "/revision", 1_000)
	w.corrupt("posts", posts[4].ID, posts[4].ID, "/likeCount", 7)
	w.corrupt("posts", posts[0].ID, c.ID, "/userUsername", "somebody")
	w.upsert("posts", posts[11].ID, `{"id":"left","postId":"`+posts[11].ID+`","type":"comment","userId":"`+grace.ID+`","userUsername":"grace","content":"x","creationDate":"2026-01-01T00:00:00.000Z"}`)
	w.remove("users", ada.ID, posts[5].ID)
	w.remove("feed", "post", posts[6].ID)
	w.remove("users", "username:grace", "username:grace")
	users, err := w.client.NewContainer("blog", "users")
	if err != nil {
		t.Fatal(err)
	}
	for partition, item := range map[string]string{
		"username:left": `{"id":"username:left","userId":"username:left","type":"username","ownerId":"` + ada.ID + `","creationDate":"2026-01-01T00:00:00.000Z"}`,
		grace.ID: `{"id":"` + posts[7].ID + `","userId":"` + grace.ID + `","postId":"` + posts[7].ID +
			`","type":"post","title":"stray","content":"x","truncated":false,"userUsername":"grace","commentCount":0,"likeCount":0,"creationDate":"2026-01-01T00:00:00.000Z","version":1,"revision":1}`,
	} {
		if _, err := users.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(partition), []byte(item), nil); err != nil {
			t.Fatal(err)
		}
	}

	var kinds []string
	found := w.verify(100 * time.Millisecond)
	for _, d := range found {
		kinds = append(kinds, string(d.Kind))
		t.Logf("%+v", d)
	}
	want := []string{"copy of post", "copy of post", "copy of post", "copy of post", "count", "count",
		"feed entry", "feed entry", "feed entry", "feed entry", "name", "username", "username"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Fatal(diff)
	}
	for _, d := range found {
		if err := w.Repair(t.Context(), d); err != nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
	w.run() // the mended count has a new revision
	eventually(t, func() error {
		if found := w.verify(0); found != nil {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
	if u, err := w.UserByUsername(t.Context(), "grace"); err != nil || u == nil {
		t.Errorf("grace is not found: %v", err)
	}
}

// What is missing behind the entries that are served is found, too: they will be. Entries that
// deletes have left too few of are not missing yet.
func TestVerifyBehindWhatIsServed(t *testing.T) {
	w := newWorld(t)
	ada := w.user("ada")
	var posts []*store.Post
	for i := range 160 {
		posts = append(posts, w.post(ada, fmt.Sprint(i)))
	}
	defer w.run()()
	eventually(t, w.caughtUp)
	for _, p := range posts[140:] {
		if err := w.DeletePost(t.Context(), ada.ID, p.ID); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, w.caughtUp)
	if got := w.verify(0); len(w.inPartition("post")) != 130 || len(got) != 0 {
		t.Fatalf("%d in the feed: %v", len(w.inPartition("post")), got)
	}
	w.remove("feed", "post", posts[20].ID) // the 120th
	got := w.verify(0)
	if len(got) != 1 || got[0].Kind != store.FeedEntry || got[0].ID != posts[20].ID {
		t.Fatalf("%+v", got)
	}
	if err := w.Repair(t.Context(), got[0]); err != nil {
		t.Fatal(err)
	}
	if got := w.verify(0); len(got) != 0 || len(w.inPartition("post")) != 130 {
		t.Errorf("repaired, %d in the feed: %+v", len(w.inPartition("post")), got)
	}
}

// A copy of a deleted post is mended into a tombstone, so that a change that arrives
// late cannot bring it back.
func TestRepairedDeleteStaysDeleted(t *testing.T) {
	w := newWorld(t)
	ada := w.user("ada")
	p := w.post(ada, "one")
	if err := w.DeletePost(t.Context(), ada.ID, p.ID); err != nil {
		t.Fatal(err)
	}
	live := `{"id":"` + p.ID + `","userId":"` + ada.ID + `","postId":"` + p.ID +
		`","type":"post","title":"one","content":"x","truncated":false,"userUsername":"ada","commentCount":0,"likeCount":0,"creationDate":"` + string(p.CreatedAt) + `","version":1,"revision":1}`
	w.upsert("users", ada.ID, live)
	w.upsert("feed", "post", live)
	found := w.verify(0)
	if len(found) != 2 {
		t.Fatalf("found %+v", found)
	}
	for _, d := range found {
		if err := w.Repair(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	if err := w.ProjectCopies(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if posts, feed := w.userPosts(ada), w.feed(); len(posts) != 0 || len(feed) != 0 {
		t.Errorf("it is back: %v, %v", titles(posts), titles(feed))
	}
}

// Copies and reservations that nobody can read are mended like others. What is
// derived from a post that nobody can read is shown, and cannot be.
func TestVerifyAndRepairOfWhatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	stop := w.run()
	ada, grace, mallory := w.user("ada"), w.user("grace"), w.user("mallory")
	var posts []*store.Post
	for i := range 6 {
		posts = append(posts, w.post(ada, fmt.Sprintf("post %d", i)))
	}
	eventually(t, w.caughtUp)
	stop()
	w.clock.ms.Add(61_000)
	w.corrupt("users", ada.ID, posts[0].ID, "/title", 5)
	w.corrupt("feed", "post", posts[1].ID, "/likeCount", "many")
	w.corrupt("feed", "post", posts[2].ID, "/creationDate", "yesterday")
	w.corrupt("feed", "post", posts[3].ID, "/creationDate", 7)
	w.corrupt("users", "username:grace", "username:grace", "/creationDate", 5)
	found := w.verify(0)
	if len(found) != 5 {
		t.Fatalf("found %+v", found)
	}
	for _, d := range found {
		t.Logf("%+v", d)
		if err := w.Repair(t.Context(), d); err != nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if found := w.verify(0); found != nil {
		t.Errorf("still %+v", found)
	}
	if u, err := w.UserByUsername(t.Context(), "grace"); err != nil || u == nil || u.ID != grace.ID {
		t.Errorf("grace is not found: %v", err)
	}

	w.corrupt("posts", posts[4].ID, posts[4].ID, "/likeCount", "many")
	w.corrupt("users", mallory.ID, mallory.ID, "/revision", "two")
	found = w.verify(0)
	if len(found) != 3 { // two copies of the post, and the reservation of the user
		t.Fatalf("found %+v", found)
	}
	for _, d := range found {
		t.Logf("%+v", d)
		wantCode(t, w.Repair(t.Context(), d), store.Conflict, "")
	}
	if err := w.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.rebuilt()
	if name := w.reservations()["mallory"]; name != mallory.ID {
		t.Errorf("the name of a user that cannot be read is reserved for %q", name)
	}
}

// How much there is to read is told by what was read first.
func TestVerifyTellsHowFarItHasCome(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.user("ada"), w.user("grace")
	for i := range 3 {
		p := w.post(ada, fmt.Sprintf("post %d", i))
		w.like(grace, p)
		w.comment(grace, p, "a comment")
	}
	defer w.run()()
	eventually(t, w.caughtUp)
	type step struct{ done, total int }
	var steps []step
	err := w.Verify(t.Context(), 0, func(done, total int) { steps = append(steps, step{done, total}) }, func(store.Difference) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(steps)
	const users, all = 2 + 2 + 3, 2 + 2 + 3 + 9
	if n := len(steps); n < 4 || steps[0].total != 0 || steps[n-1] != (step{all, all}) || !slices.Contains(steps, step{users, all + 1}) {
		t.Errorf("the steps are %v", steps)
	}
}

func TestVerifyBesideWrites(t *testing.T) {
	w := newWorld(t)
	defer w.run()()
	ada := w.user("ada")
	p := w.post(ada, "one")
	done := make(chan error, 1)
	go func() {
		for i := range 60 {
			if err := w.writeLate(fmt.Sprintf("writer%d", i), ada, p); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		if found := w.verify(time.Minute); found != nil {
			t.Fatalf("%+v", found)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// The copies of a post that is liked all the time are never as new as the post.
func TestVerifyBesideAPostThatNeverStandsStill(t *testing.T) {
	w := newWorld(t)
	ada := w.user("ada")
	p := w.post(ada, "one")
	w.corrupt("users", ada.ID, p.ID, "/title", "not the title")
	w.corrupt("feed", "post", p.ID, "/revision", 1_000_000)
	type mover struct{}
	ctx := context.WithValue(context.Background(), mover{}, true)
	var mu sync.Mutex // one move at a time
	likes := 0
	w.wire.intercept(func(r *http.Request) error {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/docs/"+p.ID) || r.Context().Value(mover{}) != nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(r.URL.Path, "/colls/posts/") { // a copy becomes as new as the post,
			now, err := w.Post(ctx, p.ID)
			if err != nil {
				return err
			}
			return w.ProjectCopies(ctx, now)
		}
		var err error // which then becomes newer
		if likes++; likes%2 == 1 {
			_, _, err = w.LikePost(ctx, ada.ID, p.ID)
		} else {
			_, err = w.UnlikePost(ctx, ada.ID, p.ID)
		}
		return err
	})
	found := w.verify(200 * time.Millisecond)
	if len(found) != 1 || found[0].Kind != store.FeedEntry {
		t.Fatalf("found %+v", found)
	}
	if err := w.Repair(t.Context(), found[0]); err != nil {
		t.Error(err)
	}
	if found := w.verify(10 * time.Second); found != nil {
		t.Errorf("still %+v", found)
	}
}

func TestRepairOfWhatIsWellDoesNothing(t *testing.T) {
	w := newWorld(t)
	ada := w.user("ada")
	p := w.post(ada, "one")
	for _, d := range []store.Difference{
		{Kind: store.CopyOfPost, Partition: ada.ID, ID: p.ID}, {Kind: store.FeedEntry, Partition: "post", ID: p.ID},
		{Kind: store.Count, Partition: p.ID, ID: p.ID}, {Kind: store.Name, Partition: p.ID, ID: p.ID},
		{Kind: store.Username, Partition: "username:ada", ID: ada.ID},
	} {
		if err := w.Repair(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	if got, err := w.Post(t.Context(), p.ID); err != nil || got.Revision != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := w.Repair(t.Context(), store.Difference{Kind: "nonsense", Partition: p.ID, ID: p.ID}); store.CodeOf(err) != store.Internal {
		t.Error(errors.New("an unknown kind is accepted"))
	}
}

// A name is reserved while it is looked at: whatever Repair has seen before, the
// reservation stays as it was made.
func TestRepairLeavesAReservationThatIsMadeMeanwhile(t *testing.T) {
	w := newWorld(t)
	ada := w.user("ada")
	item := `{"id":"username:ada","userId":"username:ada","type":"username","ownerId":"` + ada.ID + `","creationDate":"2025-01-01T00:00:00.000Z"}`
	moments := 0
	for ; ; moments++ {
		w.remove("users", "username:ada", "username:ada")
		var requests atomic.Int64
		w.wire.intercept(func(*http.Request) error {
			if requests.Add(1) == int64(moments+1) {
				w.upsert("users", "username:ada", item)
			}
			return nil
		})
		if err := w.Repair(t.Context(), store.Difference{Kind: store.Username, Partition: "username:ada", ID: ada.ID}); err != nil {
			t.Fatal(err)
		}
		w.wire.intercept(nil)
		if requests.Load() <= int64(moments) {
			break // the repair was over before
		}
		users, err := w.client.NewContainer("blog", "users")
		if err != nil {
			t.Fatal(err)
		}
		r, err := users.ReadItem(t.Context(), azcosmos.NewPartitionKeyString("username:ada"), "username:ada", nil)
		if err != nil || !strings.Contains(string(r.Value), "2025-01-01") {
			t.Errorf("made before request %d, the reservation is now %s, %v", moments+1, r.Value, err)
		}
	}
	if moments < 5 { // two reads to compare, two to repair, one write
		t.Errorf("only %d moments", moments)
	}
}
