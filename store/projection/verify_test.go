package projection_test

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

	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/projection"
)

func TestVerifyAndRepair(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.Start()
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		var posts []*blog.Post
		for i := range 12 {
			p := w.AddPost(ada, fmt.Sprintf("post %d", i))
			posts = append(posts, p)
			w.AddLike(grace, p)
		}
		c := w.AddComment(grace, posts[0], "a comment")
		if err := w.DeletePost(t.Context(), ada.UserID, posts[11].ID); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error {
			if found := w.Differences(0); found != nil {
				return fmt.Errorf("%+v", found)
			}
			if err := w.CaughtUp(); err != nil {
				return err
			}
			return w.jobsLeft()
		})
		stop() // from here on nothing updates the views
		w.Clock.Millis.Add(61_000)

		w.Corrupt("users", ada.UserID, posts[1].ID, "/title", "not the title")
		w.Corrupt("feed", "post", posts[2].ID, "/likeCount", 99)
		w.Corrupt("feed", "post", posts[3].ID, "/revision", 1_000)
		w.Corrupt("posts", posts[4].ID, posts[4].ID, "/likeCount", 7)
		w.Corrupt("posts", posts[0].ID, c.ID, "/userUsername", "other")
		w.Upsert("posts", posts[11].ID,
			`{"id":"left","postId":"`+posts[11].ID+`","type":"comment","userId":"`+grace.UserID+
				`","userUsername":"grace","content":"x","creationDate":"2026-01-01T00:00:00.000Z"}`)
		w.Remove("users", ada.UserID, posts[5].ID)
		w.Remove("feed", "post", posts[6].ID)
		w.Remove("users", "username:grace", "username:grace")
		users, err := w.Client.NewContainer(w.Database, "users")
		if err != nil {
			t.Fatal(err)
		}
		for partition, item := range map[string]string{
			"username:left": `{"id":"username:left","userId":"username:left","type":"username","ownerId":"` +
				ada.UserID + `","creationDate":"2026-01-01T00:00:00.000Z"}`,
			grace.UserID: `{"id":"` + posts[7].ID + `","userId":"` + grace.UserID + `","postId":"` + posts[7].ID +
				`","type":"post","title":"stray","content":"x","truncated":false,"userUsername":"grace","commentCount":0,"likeCount":0,"creationDate":"2026-01-01T00:00:00.000Z","version":1,"revision":1}`,
		} {
			if _, err := users.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(partition), []byte(item),
				nil); err != nil {
				t.Fatal(err)
			}
		}

		var kinds []string
		found := w.Differences(100 * time.Millisecond)
		for _, d := range found {
			kinds = append(kinds, string(d.Kind))
			t.Logf("%+v", d)
		}
		want := []string{"byline", "count", "count", "feed entry", "feed entry", "feed entry", "feed entry",
			"summary", "summary", "summary", "summary", "username", "username"}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Fatal(diff)
		}
		for _, d := range found {
			if err := w.Views().Repair(t.Context(), d); err != nil {
				t.Errorf("%+v: %v", d, err)
			}
		}
		w.Start() // the repaired count has a new revision
		testkit.Until(t, func() error {
			if found := w.Differences(0); found != nil {
				return fmt.Errorf("%+v", found)
			}
			return nil
		})
		if u, err := w.UserByUsername(t.Context(), "grace"); err != nil || u == nil {
			t.Errorf("grace is not found: %v", err)
		}
	})
}

// Verify also finds missing entries beyond those that are served, as they may be served later. Entries missing
// because of deletes, before the next refill, are no difference.
func TestVerify_ReplicaLag(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		var posts []*blog.Post
		for i := range 160 {
			posts = append(posts, w.AddPost(ada, fmt.Sprint(i)))
		}
		defer w.Start()()
		testkit.Until(t, w.CaughtUp)
		for _, p := range posts[140:] {
			if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Until(t, w.CaughtUp)
		if got := w.Differences(0); len(w.FeedTitles("post")) != 130 || len(got) != 0 {
			t.Fatalf("%d in the feed: %v", len(w.FeedTitles("post")), got)
		}
		w.Remove("feed", "post", posts[20].ID) // the 120th
		got := w.Differences(0)
		if len(got) != 1 || got[0].Kind != projection.FeedEntry || got[0].ID != posts[20].ID {
			t.Fatalf("%+v", got)
		}
		if err := w.Views().Repair(t.Context(), got[0]); err != nil {
			t.Fatal(err)
		}
		if got := w.Differences(0); len(got) != 0 || len(w.FeedTitles("post")) != 130 {
			t.Errorf("repaired, %d in the feed: %+v", len(w.FeedTitles("post")), got)
		}
	})
}

// Repair makes the summary of a deleted post a tombstone, so that a late change cannot restore it.
func TestRepair_DeletedStaysDeleted(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "one")
	if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
		t.Fatal(err)
	}
	live := `{"id":"` + p.ID + `","userId":"` + ada.UserID + `","postId":"` + p.ID +
		`","type":"post","title":"one","content":"x","truncated":false,"userUsername":"ada","commentCount":0,"likeCount":0,"creationDate":"` + string(p.CreatedAt) + `","version":1,"revision":1}`
	w.Upsert("users", ada.UserID, live)
	w.Upsert("feed", "post", live)
	found := w.Differences(0)
	if len(found) != 2 {
		t.Fatalf("found %+v", found)
	}
	for _, d := range found {
		if err := w.Views().Repair(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	if err := w.Views().ProjectSummaries(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if posts, feed := w.AllUserPosts(ada), w.AllFeed(); len(posts) != 0 || len(feed) != 0 {
		t.Errorf("the deleted post was restored: %v, %v", storetest.Titles(posts), storetest.Titles(feed))
	}
}

// Malformed summaries and reservations are repaired like others. The views of a malformed post or user are
// reported, but cannot be repaired.
func TestVerifyAndRepair_MalformedItems(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.Start()
		ada, grace, mallory := w.AddUser("ada"), w.AddUser("grace"), w.AddUser("mallory")
		var posts []*blog.Post
		for i := range 6 {
			posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		testkit.Until(t, w.CaughtUp)
		stop()
		w.Clock.Millis.Add(61_000)
		w.Corrupt("users", ada.UserID, posts[0].ID, "/title", 5)
		w.Corrupt("feed", "post", posts[1].ID, "/likeCount", "many")
		w.Corrupt("feed", "post", posts[2].ID, "/creationDate", "yesterday")
		w.Corrupt("feed", "post", posts[3].ID, "/creationDate", 7)
		w.Corrupt("users", "username:grace", "username:grace", "/creationDate", 5)
		found := w.Differences(0)
		if len(found) != 5 {
			t.Fatalf("found %+v", found)
		}
		for _, d := range found {
			t.Logf("%+v", d)
			if err := w.Views().Repair(t.Context(), d); err != nil {
				t.Errorf("%+v: %v", d, err)
			}
		}
		if found := w.Differences(0); found != nil {
			t.Errorf("still %+v", found)
		}
		if u, err := w.UserByUsername(t.Context(), "grace"); err != nil || u == nil || u.UserID != grace.UserID {
			t.Errorf("grace is not found: %v", err)
		}

		w.Corrupt("posts", posts[4].ID, posts[4].ID, "/likeCount", "many")
		w.Corrupt("users", mallory.UserID, mallory.UserID, "/revision", "two")
		found = w.Differences(0)
		if len(found) != 5 { // two summaries, the entry and search item of the post, and the reservation of the user
			t.Fatalf("found %+v", found)
		}
		for _, d := range found {
			t.Logf("%+v", d)
			storetest.WantCode(t, w.Views().Repair(t.Context(), d), blog.Conflict, "")
		}
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Start()
		w.Rebuilt()
		if name := w.Reservations()["mallory"]; name != mallory.UserID {
			t.Errorf("the name of the malformed user is reserved for %q, want %q", name, mallory.UserID)
		}
	})
}

// The total is estimated after the users container has been read.
func TestVerify_Progress(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		for i := range 3 {
			p := w.AddPost(ada, fmt.Sprintf("post %d", i))
			w.AddLike(grace, p)
			w.AddComment(grace, p, "a comment")
		}
		defer w.Start()()
		testkit.Until(t, w.CaughtUp)
		type step struct{ done, total int }
		var steps []step
		err := w.Views().Verify(t.Context(), 0, func(done, total int) {
			steps = append(steps, step{done, total})
		}, func(projection.Difference) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(steps)
		const users, all = 2 + 2 + 3 + 3, 2 + 2 + 3 + 3 + 9 // with the views of the likes
		if n := len(steps); n < 4 || steps[0].total != 0 || steps[n-1] != (step{all, all}) ||
			!slices.Contains(steps, step{users, all + 1}) {
			t.Errorf("got steps %v", steps)
		}
	})
}

func TestVerify_ConcurrentWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Start()()
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "one")
		done := make(chan error, 1)
		go func() {
			for i := range 60 {
				if err := w.WriteLate(fmt.Sprintf("writer%d", i), ada, p); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for {
			if found := w.Differences(time.Minute); found != nil {
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
	})
}

// The summaries of a post that is liked constantly are always older than the post.
func TestVerify_ConstantlyChangingPost(t *testing.T) { cosmostest.Run(t, testConstantlyChangingPost) }

func testConstantlyChangingPost(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "one")
	w.begin(p)
	w.Corrupt("users", ada.UserID, p.ID, "/title", "not the title")
	w.Corrupt("feed", "post", p.ID, "/revision", 1_000_000)
	type mover struct{}
	ctx := context.WithValue(context.Background(), mover{}, true)
	var mu sync.Mutex // one change at a time
	likes := 0
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/docs/"+p.ID) ||
			r.Context().Value(mover{}) != nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(r.URL.Path, "/colls/posts/") { // a summary becomes as new as the post,
			now, err := w.Post(ctx, p.ID)
			if err != nil {
				return err
			}
			return w.Views().ProjectSummaries(ctx, now)
		}
		var err error // which then becomes newer
		if likes++; likes%2 == 1 {
			_, _, err = w.LikePost(ctx, ada.UserID, p.ID)
		} else {
			_, err = w.UnlikePost(ctx, ada.UserID, p.ID)
		}
		return err
	})
	found := w.Differences(2 * time.Second) // longer than replicas lag
	if len(found) != 1 || found[0].Kind != projection.FeedEntry {
		t.Fatalf("found %+v", found)
	}
	if err := w.Views().Repair(t.Context(), found[0]); err != nil {
		t.Error(err)
	}
	if found := w.Differences(10 * time.Second); found != nil {
		t.Errorf("still %+v", found)
	}
}

func TestRepair_NoDifference(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "one")
	for _, d := range []projection.Difference{
		{Kind: projection.Summary, Partition: ada.UserID, ID: p.ID},
		{Kind: projection.FeedEntry, Partition: "post", ID: p.ID},
		{Kind: projection.Count, Partition: p.ID, ID: p.ID}, {Kind: projection.Byline, Partition: p.ID, ID: p.ID},
		{Kind: projection.Username, Partition: "username:ada", ID: ada.UserID},
	} {
		if err := w.Views().Repair(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	if got, err := w.Post(t.Context(), p.ID); err != nil || got.Revision != 1 {
		t.Errorf("got %+v, %v, want revision 1", got, err)
	}
	if err := w.Views().Repair(t.Context(),
		projection.Difference{Kind: "nonsense", Partition: p.ID, ID: p.ID}); blog.CodeOf(err) != blog.Internal {
		t.Error(errors.New("an unknown kind is accepted"))
	}
}

// A name is reserved concurrently, before any request of Repair: the reservation does not change.
func TestRepair_ConcurrentReservation(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	item := `{"id":"username:ada","userId":"username:ada","type":"username","ownerId":"` + ada.UserID +
		`","creationDate":"2025-01-01T00:00:00.000Z"}`
	moments := 0
	for ; ; moments++ {
		w.Remove("users", "username:ada", "username:ada")
		var requests atomic.Int64
		w.Wire.Intercept(func(*http.Request) error {
			if requests.Add(1) == int64(moments+1) {
				w.Upsert("users", "username:ada", item)
			}
			return nil
		})
		if err := w.Views().Repair(t.Context(),
			projection.Difference{Kind: projection.Username, Partition: "username:ada", ID: ada.UserID}); err != nil {
			t.Fatal(err)
		}
		w.Wire.Intercept(nil)
		if requests.Load() <= int64(moments) {
			break // the repair has fewer requests
		}
		users, err := w.Client.NewContainer(w.Database, "users")
		if err != nil {
			t.Fatal(err)
		}
		r, err := users.ReadItem(t.Context(), azcosmos.NewPartitionKeyString("username:ada"), "username:ada", nil)
		if err != nil || !strings.Contains(string(r.Value), "2025-01-01") {
			t.Errorf("reserved before request %d: got %s, %v, want it unchanged", moments+1, r.Value, err)
		}
	}
	if moments < 5 { // two reads to compare, two to repair, one write
		t.Errorf("got %d requests, want at least 5", moments)
	}
}

// Two users have the same name: Verify reports the one without the reservation, and Repair gives that user a free
// name, which the projections set on the user's items.
func TestRepair_DuplicateUsername(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		taken := w.AddUser("ada-" + grace.UserID[:4])
		w.Clock.Millis.Add(time.Hour.Milliseconds())
		w.Corrupt("users", grace.UserID, grace.UserID, "/username", "Ada")
		p := w.AddPost(grace, "by grace")
		want := "Ada-" + grace.UserID[4:8]
		repaired := false
		for range 3 { // a repair may reveal further differences
			for _, d := range w.Differences(0) {
				repaired = repaired || d.Kind == projection.Username && d.ID == grace.UserID && d.Have == ada.UserID
				if err := w.Views().Repair(t.Context(), d); err != nil {
					t.Error(d, err)
				}
			}
		}
		if !repaired {
			t.Error("verify has not reported the name")
		}
		for id, name := range map[string]string{ada.UserID: "ada", grace.UserID: want, taken.UserID: taken.Username} {
			u, err := w.UserByUsername(t.Context(), name)
			if err != nil || u == nil || u.UserID != id || u.Username != name {
				t.Errorf("by %s: %+v, %v", name, u, err)
			}
		}
		if got, err := w.Post(t.Context(), p.ID); err != nil || got.Username != want {
			t.Errorf("on the post: %q, %v", got.Username, err)
		}
		if found := w.Differences(0); found != nil {
			t.Errorf("verify still finds %v", found)
		}
	})
}

// The repair of a text without a post does not delete a text that is written concurrently, with its post.
func TestRepair_ConcurrentText(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		long := strings.Repeat("x", blog.InlineText+1)
		orphan := `{"id":"text","postId":"p1","type":"text","userId":"u1","content":"` + long + `","textDigest":%q}`
		w.Upsert("posts", "p1", fmt.Sprintf(orphan, "old"))
		var deletes atomic.Int64
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/docs/text") && deletes.Add(1) == 1 {
				w.Upsert("posts", "p1", fmt.Sprintf(orphan, "new"))
				w.Upsert("posts", "p1",
					`{"id":"p1","postId":"p1","type":"post","userId":"u1","userUsername":"ada","title":"x","content":"x","textDigest":"new","commentCount":0,"likeCount":0,"version":1,"creationDate":"2026-01-01T00:00:00.000Z","revision":1}`)
			}
			return nil
		})
		if err := w.Views().Repair(t.Context(),
			projection.Difference{Kind: projection.Text, Partition: "p1", ID: "p1"}); err != nil {
			t.Error(err)
		}
		w.Corrupt("posts", "p1", "text", "/checked", true) // fails if it is gone
		if deletes.Load() != 1 {
			t.Errorf("got %d deletes, want 1", deletes.Load())
		}
	})
}
