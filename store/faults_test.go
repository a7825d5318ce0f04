package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/live"
	"byline/store/username"
)

// faultWorld is a world whose requests can fail.
type faultWorld struct {
	*world
	wire *faulttest.Transport
}

func newFaultWorld(t testing.TB) *faultWorld {
	w := &faultWorld{world: newWorld(t)}
	w.wire = &faulttest.Transport{To: w.Wire.To}
	w.Wire.To = w.wire
	return w
}

// scene is what an operation works on.
type scene struct {
	*faultWorld
	name       string
	ada, bob   *blog.User
	post, long *blog.Post    // by ada
	comment    *blog.Comment // by bob, who follows ada, likes post, and has bookmarked long; on post
	grown      *blog.Post    // by ada, has become long by an edit, so that its id does not tell; nil except for reads
	draft      *blog.Post    // of ada
	lost, torn *blog.Post    // by ada, without their texts, as if edits had come between reads; nil except for reads
	made       *blog.Post    // by a write
}

// newScene returns the scene of a name, which must be unique in the world.
func (w *faultWorld) newScene(name string) *scene {
	w.T.Helper()
	s := &scene{faultWorld: w, name: name, ada: w.AddUser("ada-" + name), bob: w.AddUser("bob-" + name)}
	s.post, s.long = w.AddPost(s.ada, "post "+name), w.addLong(s.ada, 11_000, "")
	s.comment = w.AddComment(s.bob, s.post, "by bob")
	w.AddLike(s.bob, s.post)
	if _, err := w.FollowUser(w.T.Context(), s.bob.UserID, s.ada.UserID); err != nil {
		w.T.Fatal(err)
	}
	if _, err := w.BookmarkPost(w.T.Context(), s.bob.UserID, s.long.ID); err != nil {
		w.T.Fatal(err)
	}
	like := blog.Like{PostID: s.post.ID, Byline: s.bob.Byline, CreatedAt: s.post.CreatedAt}
	w.Upsert("users", s.bob.UserID, string(blog.Encode(like.Liked())))
	s.draft = w.addDraft(s.ada, "draft "+name, "c")
	return s
}

// TestFaults_Complete: each method of a Store is in one of the tables.
func TestFaults_Complete(t *testing.T) {
	covered := map[string]bool{"Run": true} // TestFaults_Run
	for _, names := range []any{readOperations, writeOperations, localOperations, streamOperations} {
		for _, name := range reflect.ValueOf(names).MapKeys() {
			method, _, _ := strings.Cut(name.String(), "/")
			covered[method] = true
		}
	}
	of := reflect.TypeFor[*store.Store]()
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; !covered[name] {
			t.Errorf("%s is in none of the tables of operations whose requests fail", name)
		}
		delete(covered, of.Method(i).Name)
	}
	for name := range covered {
		t.Errorf("a Store has no method %s", name)
	}
}

// checkCode checks the code of an error after a fault.
func checkCode(c faulttest.Case, err error) error {
	if err == nil || c.N > 0 && slices.Contains(c.Codes, blog.CodeOf(err)) {
		return nil
	}
	return fmt.Errorf("code %s, want %q or no error: %w", blog.CodeOf(err), c.Codes, err)
}

func faulty(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		cosmostest.NeedsEngine(t, "it runs on the fake clock")
		cosmostest.Run(t, test)
	})
}

// If a request of a read fails, the read returns an error or the same result. It finds nothing only if Cosmos DB
// says so.
func TestFaults_Reads(t *testing.T) {
	for name, read := range readOperations {
		faulty(t, name, func(t *testing.T) {
			s := newFaultWorld(t).newScene("0")
			s.addLongPosts()
			var want any
			faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
				if name == "Ready" { // does not repeat its request
					c.Codes = append(c.Codes, blog.Throttled)
				}
				s.wire.Begin(c, nil)
				got, err := read(t.Context(), s)
				requests := s.wire.End()
				if c.N == 0 {
					want = got
				}
				missing := c.Misleads && (got == nil || reflect.ValueOf(got).IsZero())
				if wrong := checkCode(c, err); wrong != nil {
					t.Errorf("%v (%s): %v", c, requests.Failed, wrong)
				} else if err == nil && !missing && gocmp.Diff(want, got) != "" {
					t.Errorf("%v (%s): %s", c, requests.Failed, gocmp.Diff(want, got))
				}
				if got, err := read(t.Context(), s); err != nil || gocmp.Diff(want, got) != "" {
					t.Errorf("after %v: %v, %s", c, err, gocmp.Diff(want, got))
				}
				return requests
			})
		})
	}
}

// If a request of a write fails, the write takes effect once, or returns an error and takes effect once when it is
// repeated. Then the views are as their sources.
func TestFaults_Writes(t *testing.T) {
	for name, write := range writeOperations {
		faulty(t, name, func(t *testing.T) {
			w := newFaultWorld(t)
			cases := 0
			faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
				if c.Misleads && write.alone {
					return faulttest.Requests{}
				}
				cases++
				s := w.newScene(fmt.Sprint(cases))
				s.wire.Begin(c, nil)
				err := write.do(t.Context(), s)
				requests := s.wire.End()
				misled := c.Misleads && requests.Failed != ""
				if wrong := checkCode(c, err); wrong != nil {
					t.Errorf("%v (%s): %v", c, requests.Failed, wrong)
				}
				if err != nil || misled {
					if err := write.do(t.Context(), s); err != nil &&
						!slices.Contains(write.repeated, blog.CodeOf(err)) {
						t.Errorf("repetition after %v (%s): %v", c, requests.Failed, err)
					}
				}
				if err := write.done(t.Context(), s); err != nil {
					t.Errorf("after %v (%s): %v", c, requests.Failed, err)
				}
				return requests
			})
			w.settled()
		})
	}
}

// settled runs the projections until they have handled all changes and done all jobs, and checks the views.
func (w *faultWorld) settled() {
	w.T.Helper()
	stop := w.Start()
	testkit.Until(w.T, w.CaughtUp)
	for waits := 0; ; waits++ {
		all, err := w.Views().Jobs(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		if len(all) == 0 {
			break
		}
		if waits > 100 {
			w.T.Fatalf("jobs are left: %+v", all)
		}
		w.Clock.Millis.Add(1000)
		storetest.Pass(time.Second)
	}
	storetest.Pass(5 * time.Second) // the views of likes that have ended are deleted
	testkit.Until(w.T, w.CaughtUp)
	stop()
	for _, d := range w.Differences(0) {
		w.T.Errorf("%+v", d)
	}
}

// Local operations send no request.
func TestFaults_LocalOperations(t *testing.T) {
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		s := newFaultWorld(t).newScene("0")
		for name, do := range localOperations {
			s.wire.Begin(faulttest.Case{}, nil)
			do(s)
			if n := s.wire.End().Count(); n > 0 {
				t.Errorf("%s has sent %d requests", name, n)
			}
		}
	})
}

// Until the projections have caught up, one of their requests fails, or one of the tails. They repeat their work:
// nothing is lost, and the views are as their sources.
func TestFaults_Run(t *testing.T) {
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t)
		cases := 0
		run := func(c faulttest.Case) faulttest.Requests {
			cases++
			s := w.newScene(fmt.Sprint(cases))
			for _, err := range []error{
				writeOperations["UpdateUser"].do(t.Context(), s),
				writeOperations["DeletePost"].do(t.Context(), s),
				s.DeleteUser(t.Context(), s.bob.UserID, s.bob.Username),
				s.Views().Rebuild(t.Context()),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			w.wire.Begin(c, nil)
			stop := w.Start()
			testkit.Until(t, w.CaughtUp)
			stop()
			return w.wire.End()
		}
		faulttest.Sample(run, 10)
		w.settled()
	})
}

// A stream whose first requests fail, among them those of the tail, is opened later, or returns an error. An open
// stream delivers what is written from then on.
func TestFaults_Streams(t *testing.T) {
	for name, stream := range streamOperations {
		faulty(t, name, func(t *testing.T) {
			w := newFaultWorld(t)
			w.Start()
			cases := 0
			faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
				cases++
				s := w.newScene(fmt.Sprint(cases))
				storetest.Pass(3 * time.Second) // the tail of the last stream ends
				open, write := stream(t.Context(), s)
				w.wire.Begin(c, isForeground)
				next, err := open()
				requests := w.wire.End()
				if wrong := checkCode(c, err); wrong != nil {
					t.Errorf("%v (%s): %v", c, requests.Failed, wrong)
				}
				if err != nil {
					if next, err = open(); err != nil {
						t.Errorf("repetition after %v (%s): %v", c, requests.Failed, err)
						return requests
					}
				}
				if err := write(); err != nil {
					t.Fatal(err)
				}
				if !next() {
					t.Errorf("after %v (%s): no event", c, requests.Failed)
				}
				return requests
			})
		})
	}
}

// isForeground reports whether a request is not of background work.
func isForeground(r *http.Request) bool { return r.Header.Get("X-Ms-Cosmos-Priority-Level") == "" }

// If the change feed cannot be followed, a stream is not opened: the caller gets Unavailable after 10 s.
func TestStreams_TailDoesNotStart(t *testing.T) {
	for name, cacheBytes := range map[string]int{"with a cache": 1 << 20, "without a cache": 0} {
		faulty(t, name, func(t *testing.T) {
			account := cosmostest.Open(t, emulator.Options{})
			fail := func(o faulttest.Operation) faulttest.Response {
				if o.Kind == faulttest.ChangeFeed {
					return faulttest.Response{Status: http.StatusServiceUnavailable}
				}
				return faulttest.Response{}
			}
			account.Inject(fail)
			a := newCachedStore(t, account, cacheBytes)
			for range 2 {
				began := time.Now()
				type opened struct {
					*live.Stream[*blog.Post]
					error
				}
				done := make(chan opened, 1)
				go func() {
					s, err := a.PublishedPosts(t.Context())
					done <- opened{s, err}
				}()
				select {
				case got := <-done:
					storetest.WantCode(t, got.error, blog.Unavailable, "")
				case <-time.After(time.Minute):
					t.Fatal("still waiting for the tail after a minute")
				}
				if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
					t.Errorf("took %v, want 10 s", took)
				}
			}
			account.Inject(nil)
			testkit.Until(t, func() error {
				s, err := a.PublishedPosts(t.Context())
				if err == nil {
					s.Close()
				}
				return err
			})
		})
	}
}

// While the tail of users does not get a response, one read waits for it in ten seconds, and only half a second.
func TestReads_StuckTail(t *testing.T) {
	cosmostest.NeedsEngine(t, "its requests hang")
	cosmostest.Run(t, func(t *testing.T) {
		_, a, _, ada, post := newCachedBlog(t)
		hangs, ends := context.WithCancel(t.Context())
		defer ends()
		a.wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("A-Im") != "" && strings.HasSuffix(r.URL.Path, "/colls/users/docs") {
				select {
				case <-hangs.Done():
				case <-r.Context().Done():
				}
				return errors.New("no response")
			}
			return nil
		})
		storetest.Pass(20 * time.Second) // the tail is stuck, and no longer caught up
		var waited []time.Duration
		for range 21 { // 10 s and a half
			began := time.Now()
			if p, err := a.Post(t.Context(), post.ID); p == nil || p.UserID != ada.UserID || err != nil {
				t.Fatal(p, err)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				waited = append(waited, took)
			}
			storetest.Pass(500 * time.Millisecond)
		}
		// The second read to wait finds the tail failing, and does not, if the tail's request has just timed out.
		each := 500 * time.Millisecond
		if !slices.Equal(waited, []time.Duration{each, each}) && !slices.Equal(waited, []time.Duration{each}) {
			t.Errorf("reads waited %v, want one or two times %v", waited, each)
		}
	})
}

// Another user takes the name while a user is created: if the reservation cannot be read then, the creation does not
// succeed.
func TestCreateUser_NameLostUnread(t *testing.T) {
	cosmostest.NeedsEngine(t, "it injects faults")
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t)
		cases := 0
		faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
			cases++
			id, name := fmt.Sprint("id-", cases), fmt.Sprint("name-", cases)
			thief := w.AddUser(fmt.Sprint("thief-", cases))
			w.Wire.After(func(r *http.Response) {
				if r.StatusCode == http.StatusCreated &&
					r.Request.Header.Get("X-Ms-Documentdb-Partitionkey") == fmt.Sprintf("[%q]", id) {
					w.Wire.After(nil)
					key := username.Key(name)
					w.Upsert("users", key,
						string(blog.Encode(username.New(thief.UserID, name, blog.NewDate(w.Clock.Now())))))
				}
			})
			// not the thief's
			w.wire.Begin(c, func(r *http.Request) bool { return r.Header.Get("X-Ms-Documentdb-Is-Upsert") == "" })
			u, err := w.CreateUser(t.Context(), store.NewUser{ID: id, Username: name})
			requests := w.wire.End()
			w.Wire.After(nil)
			lostBefore := requests.Failed != "" && c.N < 4 // before the name was taken
			if err == nil && !lostBefore && !c.Misleads {
				t.Errorf("%v (%s): created %+v", c, requests.Failed, u)
			}
			return requests
		})
	})
}
