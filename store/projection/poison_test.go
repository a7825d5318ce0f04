package projection_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

func TestPoisonItems_Skipped(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		posts, err := w.Client.NewContainer(w.Database, "posts")
		if err != nil {
			t.Fatal(err)
		}
		for id, item := range map[string]string{
			"poison-1": `{"id":"poison-1","postId":"poison-1","type":"post","userId":"u","likeCount":"many"}`,
			"poison-2": `{"id":"poison-2","postId":"poison-2","type":17}`,
			"poison-3": `{"id":"poison-3","postId":"poison-3"}`,
			"poison-4": `{"id":"poison-4","postId":"poison-4","type":"post","userId":"u","creationDate":"yesterday"}`,
			"poison-7": `{"id":"poison-7","postId":"poison-7","type":"post","userId":"u","creationDate":"1999-13-99"}`,
			"poison-9": `{"id":"poison-9","postId":"poison-9","type":"post","userId":"u"}`,
			"poison-8": `{"id":"poison-8","postId":"poison-8","type":"post","userId":"u","creationDate":"1999-01-01T00:00:00.000Z","likeCount":"many"}`,
		} {
			if _, err := posts.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(id), []byte(item),
				nil); err != nil {
				t.Fatal(err)
			}
		}
		users, err := w.Client.NewContainer(w.Database, "users")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range []string{`{"id":"poison-5","userId":"poison"}`,
			`{"id":"poison-6","userId":"poison","type":"user","revision":"two"}`} {
			if _, err := users.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("poison"), []byte(item),
				nil); err != nil {
				t.Fatal(err)
			}
		}
		grace, mallory := w.AddUser("grace"), w.AddUser("mallory")
		strange := w.AddPost(mallory, "by a user that cannot be read")
		w.Corrupt("users", mallory.UserID, mallory.UserID, "/revision", "two")
		w.AddLike(ada, strange)
		p := w.AddPost(ada, "after the poison")
		w.AddLike(ada, p)
		defer w.Start()()
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Countess")}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error {
			if got := w.AllFeed(); len(got) == 2 && got[0].Username != "Countess" {
				return errors.New("the renames are stuck")
			}
			if got := w.AllFeed(); len(got) != 2 || got[0].LikeCount != 1 || got[1].LikeCount != 1 {
				return fmt.Errorf("the projections are stuck: %v", storetest.Titles(got))
			}
			return nil
		})
		// The feed is refilled from posts of which some are malformed.
		if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
		w.AddLike(grace, strange)
		testkit.Until(t, func() error {
			if got := w.AllFeed(); len(got) != 1 || got[0].LikeCount != 2 {
				return fmt.Errorf("the projections are stuck: %v", storetest.Titles(got))
			}
			return w.CaughtUp()
		})
	})
}

// Items that cannot be renamed do not stop the rename of other items, neither of their user nor of others.
func TestRename_PoisonItems(t *testing.T) {
	const form = `{"id":"poison","postId":%s,"type":%q,"userId":%q,"userUsername":"ada","title":"x","content":"x","creationDate":"2026-01-01T00:00:00.000Z","revision":"many"}`
	for name, test := range map[string]struct {
		key    azcosmos.PartitionKey
		postID string
		typ    string
	}{
		"revision is not a number": {azcosmos.NewPartitionKeyString("poison"), `"poison"`, "comment"},
		"malformed post":           {azcosmos.NewPartitionKeyString("poison"), `"poison"`, "post"},
		"no postId":                {azcosmos.NewPartitionKey().AppendNull(), "null", "comment"},
	} {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorld(t)
				ada, grace := w.AddUser("ada"), w.AddUser("grace")
				w.AddPost(ada, "by ada")
				w.AddPost(grace, "by grace")
				posts, err := w.Client.NewContainer(w.Database, "posts")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := posts.CreateItem(t.Context(), test.key,
					fmt.Appendf(nil, form, test.postID, test.typ, ada.UserID), nil); err != nil {
					t.Fatal(err)
				}
				defer w.Start()()
				for _, rename := range []struct{ id, name string }{{ada.UserID, "Countess"},
					{grace.UserID, "Admiral"}} {
					if _, err := w.UpdateUser(t.Context(), rename.id,
						store.UserEdit{Username: new(rename.name)}); err != nil {
						t.Fatal(err)
					}
				}
				testkit.Until(t, func() error {
					if got := w.AllFeed(); got[0].Username != "Admiral" || got[1].Username != "Countess" {
						return fmt.Errorf("by %s and %s", got[0].Username, got[1].Username)
					}
					return w.CaughtUp()
				})
			})
		})
	}
}

// A post that cannot be renamed does not stop the projections.
func TestPoisonItems_UnrenamablePost(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Upsert("posts", "poison",
			fmt.Sprintf(
				`{"id":"poison","postId":"poison","type":"post","userId":%q,"userUsername":"bob","title":"x","content":"x","commentCount":0,"likeCount":0,"version":1,"creationDate":"2026-01-01T00:00:00.000Z","revision":null}`, ada.UserID))
		p := w.AddPost(ada, "after the poison")
		w.AddLike(ada, p)
		defer w.Start()()
		testkit.Until(t, func() error {
			if got := w.AllFeed(); got[0].LikeCount != 1 {
				return errors.New("the projections are stuck")
			}
			return w.CaughtUp()
		})
	})
}

// The summaries of an author whose partition is full do not stop those of others.
func TestProjection_FullPartition(t *testing.T) {
	cosmostest.NeedsEngine(t, "a full logical partition")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		summaries := `users ["` + ada.UserID + `"]`
		refused := w.refuseWrites(summaries)
		for i := range 20 {
			w.AddPost(ada, fmt.Sprint("post ", i))
		}
		other := w.AddPost(grace, "of another")
		w.AddLike(grace, other)
		defer w.Start()()
		testkit.Until(t, func() error {
			if got := w.AllUserPosts(grace); got[0].LikeCount != 1 {
				return errors.New("the projections are stuck")
			}
			return w.CaughtUp()
		})
		// Nor do they stop a rebuild; nor does a full partition of the feed stop its refill.
		for _, p := range w.AllFeed() {
			w.Remove("feed", "post", p.ID)
		}
		ofFeed := w.refuseWrites(summaries, `feed ["post"]`)
		if err := w.Views().RefillFeed(t.Context()); err != nil {
			t.Error(err)
		}
		if refused.Load() == 0 || ofFeed.Load() == 0 {
			t.Errorf("%d writes of summaries and %d of the feed were refused", refused.Load(), ofFeed.Load())
		}
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Rebuilt()
	})
}

// refuseWrites refuses writes to full logical partitions, each named by its container and its key as JSON, as Cosmos DB
// does (403, substatus 1014). It returns how many it has refused.
func (w *world) refuseWrites(full ...string) *atomic.Int64 {
	var refused atomic.Int64
	w.Inject(func(o faulttest.Operation) (f faulttest.Response) {
		if !slices.Contains(full, o.Container+" "+o.Partition) {
			return f
		}
		switch o.Kind {
		case faulttest.Batch, faulttest.Create, faulttest.Upsert, faulttest.Replace, faulttest.Patch:
			refused.Add(1)
			return faulttest.Response{Status: http.StatusForbidden, Substatus: 1014, InBatch: o.Kind == faulttest.Batch}
		}
		return f
	})
	return &refused
}

// Foreign items with ids and names that requests cannot use do not stop the projections.
func TestPoisonItems_Unaddressable(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.AddPost(ada, "one")
		stray := func(container, partition, id, postID, typ string) {
			w.Upsert(container, partition,
				fmt.Sprintf(
					`{"id":%q,"userId":%q,"postId":%q,"type":%q,"title":"stray","content":"x","truncated":false,"userUsername":"ada","commentCount":0,"likeCount":0,"creationDate":"2020-01-01T00:00:00.000Z","version":1,"revision":1}`,
					id, ada.UserID, postID, typ))
		}
		stray("feed", "post", "a#b", "a#b", "post")
		stray("feed", "\u00e9", "a", "a", "\u00e9")
		stray("posts", "a#b", "a#b", "a#b", "post")
		stray("posts", "ab", "a#b", "ab", "comment")
		stray("posts", "", "a", "", "post")
		for _, id := range []string{".", "..", "a.", ":"} {
			stray("feed", "post", id, id, "post")
			stray("posts", id, id, id, "post")
			stray("users", ada.UserID, id, id, "post")
			w.Upsert("users", id,
				fmt.Sprintf(
					`{"id":%q,"userId":%[1]q,"type":"username","ownerId":"nobody","creationDate":"2026-01-01T00:00:00.000Z"}`, id))
		}
		stray("users", ada.UserID, "a#b", "a#b", "post")
		for i, name := range []string{"", "a/b", "a#b", "a\\b", "bob ", "\u00e9mil", "\U0001f600", "a?b", "50%20"} {
			u, p := fmt.Sprint("u", i), fmt.Sprint("p", i)
			w.Upsert("users", u,
				fmt.Sprintf(
					`{"id":%q,"userId":%[1]q,"type":"user","username":%q,"creationDate":"2026-01-01T00:00:00.000Z","revision":2}`, u, name))
			w.Upsert("users", p,
				fmt.Sprintf(
					`{"id":%q,"userId":%q,"type":"username","ownerId":"nobody","creationDate":"2026-01-01T00:00:00.000Z"}`, "x"+name, p))
		}
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Countess")}); err != nil {
			t.Fatal(err)
		}
		w.Clock.Millis.Add(time.Minute.Milliseconds() + 1) // the grace of reservations is over
		defer w.Start()()
		testkit.Until(t, func() error {
			if err := w.CaughtUp(); err != nil {
				return err
			}
			status, err := w.Views().Status(t.Context())
			for _, r := range status {
				if r.Lag > 0 {
					err = fmt.Errorf("%s of %s is %d changes behind", r.Processor, r.Container, r.Lag)
				}
			}
			return err
		})
		for _, d := range w.Differences(0) {
			if err := w.Views().Repair(t.Context(), d); err != nil && blog.CodeOf(err) != blog.Conflict {
				t.Errorf("%+v: %v", d, err)
			}
		}
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Rebuilt()
		for _, p := range w.AllUserPosts(ada) {
			if p.Title == "one" && p.Username != "Countess" {
				t.Errorf("the post is by %s, want Countess", p.Username)
			}
		}
	})
}

// Entries with ids that requests cannot use do not stop the trim of the feed.
func TestPoisonItems_TrimSkipsUnaddressable(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		for _, id := range []string{"a#b", ".", ".."} {
			w.Upsert("feed", "post",
				fmt.Sprintf(
					`{"id":%q,"type":"post","userId":"u","title":"stray","content":"x","creationDate":"2020-01-01T00:00:00.000Z","revision":1}`, id))
		}
		for i := range blog.FeedKept + 2 {
			w.AddPost(ada, fmt.Sprint(i))
		}
		defer w.Start()()
		testkit.Until(t, w.CaughtUp)
		if n := len(w.FeedTitles("post")); n != blog.FeedKept+3 {
			t.Errorf("got %d entries, want %d", n, blog.FeedKept+3)
		}
	})
}
