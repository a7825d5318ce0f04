package deletion

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

const poll = time.Second // interval of the tail

// world has the containers of a Tracker, in a bubble of synctest.
type world struct {
	*Tracker
	t             *testing.T
	account       *cosmostest.Account
	users, leases *cosmos.Container
	hidden        []string // in the order in which they were
}

// run runs a test with a Tracker that does not run yet.
func run(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		a := cosmostest.Open(t, emulator.Options{Clock: time.Now})
		a.CreateContainer(t, "users", "/userId")
		a.CreateContainer(t, "leases", "/id")
		account, err := cosmos.Open(cosmos.Options{Endpoint: a.Endpoint, Key: a.Key, Transport: a.Transport,
			CacheBytes: 1 << 20, Logger: testkit.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, account: a}
		for name, c := range map[string]**cosmos.Container{"users": &w.users, "leases": &w.leases} {
			if *c, err = account.Container(a.Database, name); err != nil {
				t.Fatal(err)
			}
		}
		w.Tracker = New(Options{
			Tail: func(handle changefeed.Handler) *itemcache.Tail {
				return w.users.Tail("userId", handle, changefeed.Options{PollInterval: poll, IdleInterval: 20 * poll,
					Logger: testkit.Logger()})
			},
			WaitsForTail: true, Lag: 2 * poll, Logger: testkit.Logger(),
			Hidden: func(id string) { w.hidden = append(w.hidden, id) },
			Users:  w.users, Leases: w.leases,
		})
		test(t, w)
	})
}

// start runs the Tracker until the returned function is called.
func (w *world) start() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
}

// put writes a user: a tombstone if deleted is not zero.
func (w *world) put(id string, created, deleted time.Time) {
	w.t.Helper()
	users, err := w.account.Client(w.t, nil).NewContainer(w.account.Database, "users")
	if err != nil {
		w.t.Fatal(err)
	}
	key := azcosmos.NewPartitionKeyString(id)
	if _, err := users.UpsertItem(w.t.Context(), key, userItem(id, created, deleted), nil); err != nil {
		w.t.Fatal(err)
	}
}

func userItem(id string, created, deleted time.Time) []byte {
	u := blog.UserItem{Envelope: blog.Envelope{Type: blog.TypeUser, Deleted: !deleted.IsZero()}, ItemID: id}
	u.UserID, u.Username, u.CreatedAt, u.Revision = id, id, blog.NewDate(created), 1
	if !deleted.IsZero() {
		u.DeletedAt = blog.NewDate(deleted)
	}
	return blog.Encode(&u)
}

// job writes a job that deletes a user.
func (w *world) job(id, kind string, subject any) {
	w.t.Helper()
	raw, err := json.Marshal(map[string]any{"id": id, "kind": kind, "subject": subject})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.leases.Create(w.t.Context(), id, raw); err != nil {
		w.t.Fatal(err)
	}
}

// await returns how long a read waits.
func (w *world) await() time.Duration {
	began := time.Now()
	w.Await(w.t.Context())
	return time.Since(began)
}

// fail makes the requests of a kind to a container fail; all succeed if the container is "".
func (w *world) fail(kind faulttest.Kind, container string) {
	w.account.Inject(func(o faulttest.Operation) faulttest.Response {
		if o.Kind == kind && o.Container == container {
			return faulttest.Response{Status: http.StatusServiceUnavailable}
		}
		return faulttest.Response{}
	})
}

func TestHide(t *testing.T) {
	var hidden []string
	d := New(Options{Hidden: func(id string) { hidden = append(hidden, id) }})
	deleted := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if d.Any() || d.Hides("ada", "") {
		t.Error("a user is hidden")
	}
	d.Hide("ada", deleted)
	until := deleted.Add(blog.DeletionGrace)
	if !d.Any() || d.HiddenUntil("ada") != blog.NewDate(until) {
		t.Errorf("hidden until %s, want %s", d.HiddenUntil("ada"), until)
	}
	for created, want := range map[time.Time]bool{
		deleted.Add(-time.Hour): true, deleted: true, until.Add(-time.Millisecond): true, until: false,
		until.Add(time.Hour): false,
	} {
		if got := d.Hides("ada", blog.NewDate(created)); got != want {
			t.Errorf("an item of %s is hidden: %t, want %t", created, got, want)
		}
	}
	if d.Hides("grace", blog.NewDate(deleted)) {
		t.Error("another user is hidden")
	}
	d.Hide("ada", deleted)                   // known already
	d.Hide("ada", deleted.Add(-time.Minute)) // an earlier one
	d.Hide("ada", deleted.Add(time.Hour))    // created and deleted again
	if d := cmp.Diff([]string{"ada", "ada"}, hidden); d != "" {
		t.Errorf("calls of Hidden: -want +got\n%s", d)
	}
}

// Of a page of changes the deletions are learned, whatever else is in it.
func TestLearn(t *testing.T) {
	created := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	deleted := created.Add(time.Hour)
	var hidden []string
	d := New(Options{Hidden: func(id string) { hidden = append(hidden, id) }})
	undated := blog.UserItem{Envelope: blog.Envelope{Type: blog.TypeUser, Deleted: true}, ItemID: "undated"}
	undated.UserID, undated.CreatedAt = "undated", blog.NewDate(created)
	err := d.learn(t.Context(), [][]byte{
		[]byte(`{`),
		[]byte(`{"type":"user","deleted":true,"id":"malformed","userId":"malformed","deletionDate":"never"}`),
		[]byte(`{"type":"post","deleted":true,"id":"post","userId":"author",` +
			`"creationDate":"2026-03-01T00:00:00.000Z","deletionDate":"2026-03-01T00:00:00.000Z"}`),
		userItem("lives", created, time.Time{}),
		blog.Encode(&undated),
		userItem("ada", created, deleted),
		userItem("grace", created, deleted),
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"ada", "grace"}, hidden); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if want := blog.NewDate(deleted.Add(blog.DeletionGrace)); d.HiddenUntil("ada") != want {
		t.Errorf("hidden until %s, want %s", d.HiddenUntil("ada"), want)
	}
}

// Deletions that began before Run are known once the jobs have been listed, for which reads wait.
func TestRun_ListsJobs(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		now := time.Now()
		w.put("ada", now, now.Add(time.Second))
		w.put("again", now, time.Time{})
		w.put("other", now, now.Add(time.Second))
		for id, subject := range map[string]any{"1": "ada", "2": "again", "3": "absent", "4": 5} {
			w.job(id, "deleteUser", subject)
		}
		w.job("5", "byline", "other")
		if !w.Known() || w.await() != 0 {
			t.Error("a read waits although nothing follows the deletions")
		}
		w.account.Inject(func(o faulttest.Operation) faulttest.Response {
			if o.Kind == faulttest.Query && o.Container == "leases" {
				<-time.After(200 * time.Millisecond)
			}
			return faulttest.Response{}
		})
		stop := w.start()
		synctest.Wait()
		if w.Known() {
			t.Error("known before the jobs are listed")
		}
		if took := w.await(); took != 200*time.Millisecond || !w.Known() {
			t.Errorf("a read has waited %s, known: %t", took, w.Known())
		}
		if took := w.await(); took != 0 {
			t.Errorf("the next has waited %s", took)
		}
		if d := cmp.Diff([]string{"ada"}, w.hidden); d != "" {
			t.Errorf("hidden: -want +got\n%s", d)
		}
		stop()
		if !w.Known() || w.await() != 0 || w.HiddenUntil("ada") == "" {
			t.Error("after the end a read waits, or the deletion is forgotten")
		}
	})
}

// While the jobs cannot be listed, one read waits for half a second, and the others do not for ten; then it is tried
// again.
func TestRun_ListFails(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		now := time.Now()
		w.put("ada", now, now)
		w.job("1", "deleteUser", "ada")
		w.fail(faulttest.Query, "leases")
		defer w.start()()
		synctest.Wait()
		if took := w.await(); took != 500*time.Millisecond {
			t.Errorf("a read has waited %s, want half a second", took)
		}
		if took := w.await(); took != 0 || w.Known() {
			t.Errorf("the next has waited %s, known: %t", took, w.Known())
		}
		<-time.After(9 * time.Second)
		if took := w.await(); took != 0 {
			t.Errorf("after 9 s a read has waited %s", took)
		}
		w.fail("", "")
		<-time.After(time.Second) // with that of the wait, more than 10
		if took := w.await(); took > poll || w.HiddenUntil("ada") == "" {
			t.Errorf("after the next list a read has waited %s, hidden until %q", took, w.HiddenUntil("ada"))
		}
	})
}

// A read that ends while it waits does not keep others from waiting.
func TestAwait_Canceled(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.fail(faulttest.Query, "leases")
		defer w.start()()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), wait/2)
		defer cancel()
		w.Await(ctx)
		if took := w.await(); took != 500*time.Millisecond {
			t.Errorf("the next has waited %s, want half a second", took)
		}
	})
}

// A deletion by another instance is learned from the tail, at most Options.Lag later: a read waits for it.
func TestRun_FollowsUsers(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		defer w.start()()
		synctest.Wait()
		<-time.After(time.Hour) // nobody reads, so the tail rests
		now := time.Now()
		w.put("ada", now.Add(-time.Hour), now)
		<-time.After(w.o.Lag)
		if took := w.await(); took > wait || !w.Known() || !w.Hides("ada", blog.NewDate(now)) {
			t.Errorf("a read has waited %s, known: %t, hidden until %q", took, w.Known(), w.HiddenUntil("ada"))
		}
	})
}

// Reads do not wait for a tail that fails, nor for one whose changes no cache needs.
func TestAwait_NotForTheTail(t *testing.T) {
	t.Run("failing", func(t *testing.T) {
		run(t, func(t *testing.T, w *world) {
			defer w.start()()
			synctest.Wait()
			w.fail(faulttest.ChangeFeed, "users")
			<-time.After(time.Hour)
			w.Known() // wakes the tail
			<-time.After(poll)
			if took := w.await(); took != 0 || w.Known() {
				t.Errorf("a read has waited %s, known: %t", took, w.Known())
			}
		})
	})
	t.Run("not needed", func(t *testing.T) {
		run(t, func(t *testing.T, w *world) {
			w.o.WaitsForTail = false
			defer w.start()()
			synctest.Wait()
			w.fail(faulttest.ChangeFeed, "users")
			<-time.After(time.Hour)
			if !w.Known() || w.await() != 0 {
				t.Error("a read waits")
			}
		})
	})
}

// A deletion is forgotten once it has ended: the user is gone, or was created again.
func TestRun_Forgets(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(w *world, until time.Time)
		want bool // forgotten
	}{
		"gone": {func(w *world, _ time.Time) {
			if err := w.users.Delete(w.t.Context(), cosmos.Key{Partition: "ada", ID: "ada"}, ""); err != nil {
				w.t.Fatal(err)
			}
		}, true},
		"created again": {func(w *world, until time.Time) { w.put("ada", until, time.Time{}) }, true},
		"not ended":     {func(*world, time.Time) {}, false},
		"an older state": {func(w *world, until time.Time) {
			w.put("ada", until.Add(-time.Millisecond), time.Time{})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				now := time.Now()
				w.put("ada", now, now)
				defer w.start()()
				w.Hide("ada", now)
				<-time.After(2 * time.Minute)
				if !w.Any() {
					t.Fatal("forgotten before the deletion has ended")
				}
				tt.end(w, now.Add(blog.DeletionGrace))
				w.fail(faulttest.Read, "users")
				<-time.After(2*time.Minute + 15*time.Second)
				w.fail("", "")
				if !w.Any() {
					t.Error("forgotten while users cannot be read")
				}
				<-time.After(10*time.Second + poll/2) // and not only after a minute
				if w.Any() == tt.want {
					t.Errorf("hidden: %t, want %t", w.Any(), !tt.want)
				}
			})
		})
	}
}
