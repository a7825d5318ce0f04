package projection_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/jobs"
)

// jobItems returns the number of items of the jobs in these tests.
func jobItems() int { return testkit.Pick(2000, 20_000) }

// jobWorld is a world in which a user, ada, has written many comments on the posts of another, grace.
type jobWorld struct {
	*world
	ada, grace *blog.User
	posts      []*blog.Post
	stop       func()          // the last instance
	wire       *storetest.Wire // of the last instance
	starts     int

	mu      sync.Mutex
	ru      float64 // guarded by mu; charge of jobs
	written int     // guarded by mu; items that jobs have written
	first   int     // guarded by mu; queries of jobs without a continuation
	until   int     // guarded by mu; number of written items after which all requests fail; 0: unlimited
}

func newJobWorld(t *testing.T, posts, items int) *jobWorld {
	w := &jobWorld{world: newWorld(t)}
	w.ada, w.grace = w.AddUser("ada"), w.AddUser("grace")
	for i := range posts {
		w.posts = append(w.posts, w.AddPost(w.grace, fmt.Sprint("post ", i)))
	}
	w.insert("posts", items, func(i int) (string, map[string]any) {
		post := w.posts[i%posts].ID
		return post,
			map[string]any{"id": fmt.Sprint("comment-", i), "postId": post, "type": "comment", "userId": w.ada.UserID,
				"userUsername": "ada",
				"content":      "x", "creationDate": "2026-01-01T00:00:00.000Z"}
	})
	w.Wire.Intercept(w.before)
	w.Wire.After(w.after)
	w.start(0)
	testkit.Until(t, w.CaughtUp)
	return w
}

// start starts another instance.
func (w *jobWorld) start(backgroundRU int) *prometheus.Registry {
	w.T.Helper()
	metrics := prometheus.NewRegistry()
	w.starts++
	var err error
	w.wire = &storetest.Wire{To: w.Wire}
	if w.Store, err = store.New(w.NewAccount(cosmos.Options{Metrics: metrics, Transport: w.wire}),
		store.Options{Database: w.Database, Clock: w.Clock.Now,
			Instance: fmt.Sprint("instance-", w.starts), PollInterval: 10 * time.Millisecond,
			BackgroundRU: backgroundRU}); err != nil {
		w.T.Fatal(err)
	}
	w.stop = w.Start()
	return metrics
}

// writesItem returns the number of items that a request of a job writes, and its simulated duration: 20 ms, or
// 100 ms for a batch.
func writesItem(r *http.Request) (n int, took time.Duration) {
	switch {
	case !strings.Contains(r.URL.Path, "/colls/posts/docs") || r.Header.Get("x-ms-cosmos-priority-level") != "Low":
	case r.Method == http.MethodPatch:
		return 1, 20 * time.Millisecond
	case r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "":
		return 100, 100 * time.Millisecond
	}
	return 0, 0
}

func (w *jobWorld) before(r *http.Request) error {
	n, took := writesItem(r)
	if err := wait(r, took); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until > 0 && w.written >= w.until {
		return errors.New("killed")
	}
	w.written += n
	if r.Header.Get("x-ms-continuation") == "" && renameOf(w.T, r, w.ada.UserID) {
		w.first++
	}
	return nil
}

// after adds up the charges of jobs: of their items, and of the job items.
func (w *jobWorld) after(r *http.Response) {
	path := r.Request.URL.Path
	n, _ := writesItem(r.Request)
	query := strings.HasSuffix(path, "/colls/posts/docs") && r.Request.Header.Get("x-ms-documentdb-query") != ""
	if n == 0 && !query && !strings.Contains(path, "/docs/rename.") && !strings.Contains(path, "/docs/deletePost.") {
		return
	}
	ru, _ := strconv.ParseFloat(r.Header.Get("x-ms-request-charge"), 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ru += ru
}

// finish waits until all jobs are done. It kills the instance at each of the moments, given as numbers of written
// items. It returns the cost of the jobs, and the number of queries without a continuation.
func (w *jobWorld) finish(moments ...int) (ru float64, first int) {
	w.T.Helper()
	for i, moment := range moments {
		w.mu.Lock()
		w.until = moment
		w.mu.Unlock()
		for range time.Tick(10 * time.Millisecond) {
			w.mu.Lock()
			killed := w.written >= moment
			w.mu.Unlock()
			if killed {
				break
			}
		}
		if i%2 == 1 { // on SIGTERM it releases its jobs
			w.mu.Lock()
			w.until = 0
			w.mu.Unlock()
		}
		w.stop()
		w.mu.Lock()
		w.until = 0
		w.mu.Unlock()
		w.start(0)
	}
	for began := time.Now(); w.open() > 0; w.pass(time.Second) {
		if time.Since(began) > 10*time.Minute {
			w.T.Fatal("the job does not end")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ru, w.first
}

// open counts the jobs.
func (w *jobWorld) open() int { return len(w.jobs()) }

// jobs lists the jobs, without the injected faults.
func (w *jobWorld) jobs() []jobs.Job {
	w.T.Helper()
	inner := *w.World
	aside := &inner
	aside.Use(w.NewAccount(cosmos.Options{Transport: w.Transport}))
	s, err := store.New(aside.Account, store.Options{Database: w.Database})
	if err != nil {
		w.T.Fatal(err)
	}
	all, err := s.Views().Jobs(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return all
}

// reset resets the counters.
func (w *jobWorld) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ru, w.written, w.first = 0, 0, 0
}

// A job whose instance is repeatedly killed or stopped costs within 5% of an undisturbed one, and does not
// query again from the beginning.
func TestJobs_CostWhenKilled(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	items := jobItems()
	for _, tt := range []struct {
		name  string
		posts int
		begin func(w *jobWorld) error
		left  func(w *jobWorld) int
		first int // queries without a continuation: a rename has two passes
	}{
		{"rename", 50, func(w *jobWorld) error {
			_, err := w.UpdateUser(w.T.Context(), w.ada.UserID, store.UserEdit{Username: new("lovelace")})
			return err
		}, func(w *jobWorld) int { return len(w.misnamed("lovelace", w.ada.UserID)) }, 2},
		{"delete of a post", 1, func(w *jobWorld) error {
			return w.DeletePost(w.T.Context(), w.grace.UserID, w.posts[0].ID)
		}, func(w *jobWorld) int { return len(w.misnamed("", w.ada.UserID)) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cost := func(moments ...int) (ru float64) {
				cosmostest.Run(t, func(t *testing.T) {
					w := newJobWorld(t, tt.posts, items)
					w.reset()
					if err := tt.begin(w); err != nil {
						t.Fatal(err)
					}
					testkit.Until(t, func() error {
						if w.open() == 0 {
							return errors.New("no job")
						}
						return nil
					})
					var first int
					ru, first = w.finish(moments...)
					if n := tt.left(w); n > 0 {
						t.Errorf("%d items are left", n)
					}
					if first > tt.first {
						t.Errorf("got %d queries without a continuation, want at most %d", first, tt.first)
					}
				})
				return ru
			}
			undisturbed := cost()
			killed := cost(items*3/10, items/2, items*7/10, items*9/10)
			t.Logf("%d items: %.0f RU, %.0f RU if killed and stopped (%+.1f%%)", items, undisturbed, killed,
				100*(killed/undisturbed-1))
			if killed > 1.05*undisturbed || killed < .95*undisturbed {
				t.Errorf("got %.0f RU if killed, want within 5%% of %.0f RU", killed, undisturbed)
			}
		})
	}
}

// While a job has thousands of items to write, other changes are projected within a second, and the metrics
// show the job.
func TestJobs_DoNotDelayProjections(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		items := jobItems()
		w := newJobWorld(t, 50, items)
		w.stop()
		metrics := w.start(0)
		if _, err := w.UpdateUser(t.Context(), w.ada.UserID, store.UserEdit{Username: new("lovelace")}); err != nil {
			t.Fatal(err)
		}
		w.reset()
		var longest time.Duration
		samples := 0
		for ; ; samples++ {
			testkit.Advance(300 * time.Millisecond)
			p := w.posts[samples%len(w.posts)]
			began := time.Now()
			w.AddLike(w.AddUser(fmt.Sprint("reader-", samples)), p)
			testkit.Until(t, func() error {
				for _, shown := range w.AllUserPosts(w.grace) {
					if shown.ID == p.ID && int(shown.LikeCount) == 1+samples/len(w.posts) {
						return nil
					}
				}
				return errors.New("the like is not shown")
			})
			w.mu.Lock()
			written := w.written
			w.mu.Unlock()
			if written >= items {
				break
			}
			longest = max(longest, time.Since(began))
			if n := metric(t, metrics, "byline_jobs", "rename"); n != 1 {
				t.Fatalf("got byline_jobs %v, want 1", n)
			}
		}
		t.Logf("%d likes meanwhile, shown after %v at most", samples, longest)
		if samples < 5 || longest > time.Second {
			t.Errorf("%d likes were shown after up to %v, want at least 5, within 1 s", samples, longest)
		}
		w.pass(30 * time.Second)
		for name, want := range map[string]float64{"byline_jobs": 0, "byline_job_age_seconds": 0,
			"byline_job_items_total": float64(items)} {
			if n := metric(t, metrics, name, "rename"); n != want {
				t.Errorf("%s is %v, want %v", name, n, want)
			}
		}
	})
}

// metric returns the value of a metric of a kind of jobs.
func metric(t testing.TB, from *prometheus.Registry, name, kind string) float64 {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetLabel()[0].GetValue() == kind {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s of %s", name, kind)
	return 0
}

// The jobs of an instance stay within its BackgroundRU.
func TestJobs_BackgroundRU(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		const rate = 100 // RU/s
		w := newJobWorld(t, 50, jobItems())
		w.stop()
		metrics := w.start(rate)
		for id, name := range map[string]string{w.ada.UserID: "lovelace", w.grace.UserID: "hopper"} {
			if _, err := w.UpdateUser(t.Context(), id, store.UserEdit{Username: new(name)}); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Advance(10 * time.Second)
		before := metric(t, metrics, "byline_job_request_charge_total", "rename")
		testkit.Advance(time.Minute)
		charged := metric(t, metrics, "byline_job_request_charge_total", "rename") - before
		t.Logf("%.0f RU in a minute at %d RU/s", charged, rate)
		if charged < .9*60*rate || charged > 1.1*60*rate {
			t.Errorf("got %.0f RU in a minute, want within 10%% of %d RU/s", charged, rate)
		}
		if w.open() == 0 {
			t.Error("the jobs have ended: the test is void")
		}
	})
}

// The job of an instance that stops or is killed is continued by another instance, as soon as that has taken
// over the ranges of the change feeds.
func TestJobs_OwnerStopped(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for _, tt := range []struct {
		name   string
		killed bool
		limit  time.Duration
	}{{"stopped", false, 5 * time.Second}, {"killed", true, 15 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newJobWorld(t, 50, 1000)
				stop, wires := map[string]func(){"instance-1": w.stop}, map[string]*storetest.Wire{"instance-1": w.wire}
				w.start(0)
				stop["instance-2"], wires["instance-2"] = w.stop, w.wire
				testkit.Advance(time.Minute)
				if _, err := w.UpdateUser(t.Context(), w.ada.UserID,
					store.UserEdit{Username: new("lovelace")}); err != nil {
					t.Fatal(err)
				}
				owner := func() string {
					all := w.jobs()
					if len(all) != 1 {
						t.Fatalf("%v", all)
					}
					return all[0].Owner
				}
				testkit.Advance(time.Second)
				first := owner()
				if tt.killed {
					wires[first].Intercept(func(*http.Request) error { return errors.New("killed") })
				}
				began := time.Now()
				stop[first]()
				for now := owner(); now == first || now == ""; now = owner() {
					if time.Since(began) > tt.limit {
						t.Fatalf("not continued after %v", tt.limit)
					}
					testkit.Advance(100 * time.Millisecond)
				}
				t.Logf("continued after %v", time.Since(began))
			})
		})
	}
}
