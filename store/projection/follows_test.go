package projection_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
)

// unfollow ends a follow.
func (w *world) unfollow(user, author *blog.User) {
	w.T.Helper()
	if _, err := w.UnfollowUser(w.T.Context(), user.UserID, author.UserID); err != nil {
		w.T.Fatal(err)
	}
}

// wantCounts checks the numbers of followers and of followed authors of a user.
func (w *world) wantCounts(u *blog.User, followers, following int) {
	w.T.Helper()
	got, err := w.User(w.T.Context(), u.UserID)
	if err != nil || int(got.FollowerCount) != followers || int(got.FollowingCount) != following {
		w.T.Errorf("%s has %d followers and follows %d, %v; want %d and %d", u.Username, got.FollowerCount,
			got.FollowingCount, err, followers, following)
	}
}

// wantNoDifferences verifies the views.
func (w *world) wantNoDifferences() {
	w.T.Helper()
	for _, d := range w.Differences(0) {
		w.T.Errorf("%+v", d)
	}
}

// Follows, their ends and renames, whose changes are handled late, in any order and repeatedly, by requests some of
// which fail, or take effect and fail: in the end the views and counts are those of the follows.
func TestFollows_Model(t *testing.T) {
	cosmostest.NeedsEngine(t, "it injects faults")
	for range testkit.Pick(5, 100) {
		seed := rand.Uint64()
		cosmostest.Run(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			w := newFaultWorld(t, store.Options{})
			var users []*blog.User
			for i := range 4 {
				users = append(users, w.AddUser(fmt.Sprint("user", i)))
			}
			handlers, _ := w.Views().Handlers()
			handle := handlers["projections-users"]
			var pages [][][]byte // what late handlers have read
			follows := map[[2]int]bool{}
			w.Wire.Intercept(func(req *http.Request) error {
				if req.Method != http.MethodGet && req.Header.Get("x-ms-cosmos-priority-level") == "Low" && rand.IntN(20) == 0 {
					return errors.New("gone")
				}
				return nil
			})
			for range 150 {
				user, author := r.IntN(len(users)), r.IntN(len(users))
				switch n := r.IntN(12); {
				case n < 5:
					if user != author {
						w.follow(users[user], users[author])
						follows[[2]int{user, author}] = true
					}
				case n < 8:
					w.unfollow(users[user], users[author])
					delete(follows, [2]int{user, author})
				case n < 9:
					name := store.Optional{Set: true, Value: fmt.Sprint("name ", r.IntN(100))}
					if _, err := w.UpdateUser(t.Context(), users[user].UserID,
						store.UserEdit{DisplayName: name}); err != nil &&
						blog.CodeOf(err) != blog.LimitReached {
						t.Fatal(err)
					}
				case n < 10:
					pages = append(pages, w.items("users"))
				case len(pages) > 0:
					_ = handle(t.Context(), pages[r.IntN(len(pages))])
				}
			}
			w.Wire.Intercept(nil)
			w.settle()
			for i, u := range users {
				followers, following := 0, 0
				for f := range follows {
					if f[1] == i {
						followers++
					}
					if f[0] == i {
						following++
					}
				}
				w.wantCounts(u, followers, following)
			}
			w.wantNoDifferences()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}

// A process that was paused with a change of a follow that has ended since does not restore it.
func TestFollows_LateChange(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		w.follow(ada, grace)
		late := w.rawItem("users", grace.UserID, blog.FollowerID(ada.UserID))
		w.unfollow(ada, grace)
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		other, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		handlers, _ := other.Views().Handlers()
		if err := handlers["projections-users"](t.Context(), [][]byte{late}); err != nil {
			t.Fatal(err)
		}
		w.wantCounts(ada, 0, 0)
		w.wantNoDifferences()
	})
}

// The process that writes a follow writes its view at once, although others own the ranges of the change feed.
func TestFollows_AtOnce(t *testing.T) {
	cosmostest.NeedsEngine(t, "it stops the change feed")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		w.Start()
		testkit.Until(t, w.CaughtUp)
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("A-Im") != "" {
				return errors.New("no change feed")
			}
			return nil
		})
		w.follow(ada, grace)
		untilFollows := func(want int32) {
			testkit.Until(t, func() error { // the count is written with the view
				if u, err := w.User(t.Context(), ada.UserID); err != nil || u.FollowingCount != want {
					return errors.New("not yet")
				}
				return nil
			})
		}
		untilFollows(1)
		w.unfollow(ada, grace)
		untilFollows(0)
	})
}

// A follow whose byline was read before a rename, and that is written after the job of the rename, gets the new
// byline.
func TestFollows_RenamedMeanwhile(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		w.follow(ada, grace)
		stop := w.Start()
		w.rename(ada, "lovelace")
		testkit.Until(t, w.CaughtUp)
		for w.jobsLeft() != nil {
			w.pass(time.Second)
		}
		item := blog.NewFollow(grace.UserID, ada.Byline, ada.CreatedAt, 5)
		w.Upsert("users", grace.UserID, string(blog.Encode(item)))
		testkit.Until(t, w.CaughtUp)
		stop()
		page, err := w.Followers(t.Context(), grace.UserID, store.Paging{First: 1})
		if err != nil || len(page.Items) != 1 || page.Items[0].Username != "lovelace" {
			t.Errorf("got %+v, %v, want lovelace", page, err)
		}
		w.wantNoDifferences()
	})
}

// An author with many followers, who follows some, is deleted by processes of which ten are killed: nobody's list or
// count has a trace.
func TestFollows_DeletedAuthorKilledTenTimes(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		n := testkit.Pick(1000, 10_000)
		w := newWorld(t)
		ada := w.AddUser("ada")
		user := func(i int) string { return blog.UserID("follower", fmt.Sprint(i)) }
		w.each(8, n, func(i int) error {
			id := user(i)
			item := blog.UserItem{Envelope: blog.Envelope{Type: blog.TypeUser}, ItemID: id, User: blog.User{
				Byline: blog.Byline{UserID: id, Username: fmt.Sprint("follower", i)}, CreatedAt: ada.CreatedAt, Revision: 1,
				FollowingCount: 1}}
			follow := blog.NewFollow(ada.UserID, item.Byline, ada.CreatedAt, 1)
			w.Upsert("users", id, string(blog.Encode(item)))
			w.Upsert("users", ada.UserID, string(blog.Encode(follow)))
			w.Upsert("users", id, string(blog.Encode(follow.Following())))
			name := "username:" + item.Username
			w.Upsert("users", name, fmt.Sprintf(`{"id":%q,"userId":%[1]q,"type":"username","ownerId":%q,"creationDate":%q}`,
				name, id, ada.CreatedAt))
			return nil
		})
		w.Corrupt("users", ada.UserID, ada.UserID, "/followerCount", n)
		first := &blog.User{Byline: blog.Byline{UserID: user(0)}}
		w.follow(ada, first)
		w.markDeleted(ada)
		began := time.Now()
		for life := range 10 {
			var batches atomic.Int64
			most := int64(n / 20)
			w.Wire.Intercept(func(r *http.Request) error {
				if r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" && strings.Contains(r.URL.Path, "/colls/users/") &&
					batches.Add(1) > most {
					return errors.New("gone")
				}
				return nil
			})
			var err error
			if w.Store, err = store.New(w.NewAccount(cosmos.Options{}), store.Options{Database: w.Database,
				Clock: w.Clock.Now, Instance: fmt.Sprint("life ", life), PollInterval: 10 * time.Millisecond}); err != nil {
				t.Fatal(err)
			}
			stop := w.Start()
			testkit.Until(t, func() error {
				if batches.Load() <= most {
					return errors.New("the job has not begun")
				}
				return nil
			})
			stop()
		}
		w.Wire.Intercept(nil)
		defer w.Start()()
		for !w.isGone(ada) {
			w.pass(time.Second)
		}
		took := time.Since(began)
		t.Logf("%d followers: deleted in %s", n, took.Round(time.Second))
		if most := 10 * time.Minute; took > most {
			t.Errorf("took %s, want at most %s", took, most)
		}
		w.wantNothingOf(ada.UserID)
		w.wantCounts(&blog.User{Byline: blog.Byline{UserID: user(n - 1)}}, 0, 0)
		w.wantCounts(first, 0, 0)
		w.wantNoDifferences()
	})
}

// isGone reports whether a user's item does not exist.
func (w *world) isGone(u *blog.User) bool {
	w.T.Helper()
	return w.rawItem("users", u.UserID, u.UserID) == nil
}

// A rebuild repairs views and counts of follows.
func TestFollows_Rebuild(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		w.follow(ada, grace)
		w.follow(grace, ada)
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		w.Remove("users", ada.UserID, blog.FollowingID(grace.UserID))
		w.Corrupt("users", grace.UserID, grace.UserID, "/followerCount", 9)
		w.Corrupt("users", grace.UserID, blog.FollowerID(ada.UserID), "/follower/userUsername", "somebody")
		w.Corrupt("users", ada.UserID, ada.UserID, "/followingCount", 9)
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop = w.Start()
		w.Rebuilt()
		testkit.Until(t, w.CaughtUp)
		stop()
		w.wantCounts(ada, 1, 1)
		w.wantCounts(grace, 1, 1)
		w.wantNoDifferences()
	})
}

// Handlers whose replicas lag behind the follow, its end and the user neither miss a change nor count it twice.
func TestFollows_StaleReplica(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas lag")
	cosmostest.Run(t, func(t *testing.T) {
		a, b := newLaggingWorlds(t, 8*time.Second)
		ada, grace := a.AddUser("ada"), a.AddUser("grace")
		testkit.Advance(9 * time.Second)
		handle := func(w *world, items ...[]byte) {
			t.Helper()
			handlers, _ := w.Views().Handlers()
			if err := handlers["projections-users"](t.Context(), items); err != nil {
				t.Fatal(err)
			}
		}
		users, err := a.Account.Container(a.Database, "users")
		if err != nil {
			t.Fatal(err)
		}
		item := func() []byte {
			raw, err := users.ReadPrimary(t.Context(), cosmos.Key{Partition: grace.UserID,
				ID: blog.FollowerID(ada.UserID)})
			if raw == nil || err != nil {
				t.Fatal("no item of the follow", err)
			}
			return raw
		}
		a.follow(ada, grace)
		first := item()
		handle(a, first)
		handle(b, first) // its replica has no view
		a.unfollow(ada, grace)
		ended := item()
		handle(b, ended)
		handle(a, first)
		a.follow(ada, grace)
		again := item()
		handle(a, again)
		handle(b, ended)
		handle(b, again)
		testkit.Advance(9 * time.Second)
		b.wantCounts(ada, 0, 1)
		b.wantCounts(grace, 1, 0)
		b.wantNoDifferences()
	})
}

// A follow by a new user, whom the replica of the handler does not have, is not lost.
func TestFollows_NewFollower(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas lag")
	cosmostest.Run(t, func(t *testing.T) {
		a, b := newLaggingWorlds(t, 8*time.Second)
		grace := a.AddUser("grace")
		testkit.Advance(9 * time.Second)
		ada := a.AddUser("ada")
		a.follow(ada, grace)
		users, err := a.Account.Container(a.Database, "users")
		if err != nil {
			t.Fatal(err)
		}
		item, err := users.ReadPrimary(t.Context(), cosmos.Key{Partition: grace.UserID,
			ID: blog.FollowerID(ada.UserID)})
		if item == nil || err != nil {
			t.Fatal("no item of the follow", err)
		}
		handlers, _ := b.Views().Handlers()
		if err := handlers["projections-users"](t.Context(), [][]byte{item}); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(9 * time.Second)
		b.wantCounts(ada, 0, 1)
		b.wantNoDifferences()
	})
}

// A follow by a user who has registered again has the revision of an earlier one, whose view this process has seen.
func TestFollows_RevisionsBeginAgain(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		w.follow(ada, grace)
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		w.Remove("users", ada.UserID, blog.FollowingID(grace.UserID))
		w.Corrupt("users", ada.UserID, ada.UserID, "/followingCount", 0)
		item := blog.NewFollow(grace.UserID, ada.Byline, blog.NewDate(w.Clock.Now().Add(time.Minute)), 1)
		w.Upsert("users", grace.UserID, string(blog.Encode(item)))
		testkit.Until(t, w.CaughtUp)
		stop()
		w.wantCounts(ada, 0, 1)
		w.wantNoDifferences()
	})
}

// rawItem reads an item; nil if it does not exist.
func (w *world) rawItem(container, partition, id string) []byte {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, container)
	if err != nil {
		w.T.Fatal(err)
	}
	r, err := c.ReadItem(w.T.Context(), azcosmos.NewPartitionKeyString(partition), id, nil)
	if cosmos.HasStatus(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return r.Value
}
