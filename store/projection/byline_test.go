package projection_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/jobs"
)

// bylineMatches returns an error unless every item of the user, of any type and in any container, has the byline.
func (w *world) bylineMatches(want blog.Byline) error {
	copies := map[string]int{}
	var wrong []string
	for page, err := range w.Export(w.T.Context(), want.UserID, "") {
		if err != nil {
			return err
		}
		for _, raw := range page.Items {
			var item map[string]any
			if err := json.Unmarshal(raw, &item); err != nil {
				return err
			}
			if follower, ok := item["follower"].(map[string]any); ok {
				follower["type"], follower["id"] = item["type"], item["id"]
				item = follower
			}
			if item["userUsername"] == nil {
				continue // no copy
			}
			copies[fmt.Sprint(page.Container, " ", item["type"])]++
			for p := range want.Properties() {
				if got, _ := item[p.Name].(string); got != p.Value {
					wrong = append(wrong, fmt.Sprintf("%s of %s %v is %q", p.Name, item["type"], item["id"], got))
				}
			}
		}
	}
	for _, kind := range []string{"users post", "posts post", "posts comment", "posts like", "feed post",
		"users follower"} {
		if copies[kind] == 0 {
			return fmt.Errorf("there is no %s", kind)
		}
	}
	if wrong != nil {
		return fmt.Errorf("%d properties are wrong: %s", len(wrong), strings.Join(wrong, ", "))
	}
	return nil
}

// fullByline is a byline with a text in every property.
func fullByline(t *testing.T, userID string) (b blog.Byline) {
	v := reflect.ValueOf(&b).Elem()
	for i := range v.NumField() {
		v.Field(i).SetString(fmt.Sprint("new-", i))
	}
	b.UserID = userID
	if n := len(properties(b)); n != v.NumField()-1 {
		t.Fatalf("a byline lists %d properties besides the id, want %d", n, v.NumField()-1)
	}
	return b
}

func properties(b blog.Byline) (all []blog.BylineProperty) {
	for p := range b.Properties() {
		all = append(all, p)
	}
	return all
}

// Every property of a byline, also one that is added, reaches every copy when it alone changes, and is removed from
// every copy.
func TestByline_ReachesEveryCopy(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.write()
		if err := w.bylineMatches(x.author.Byline); err != nil {
			t.Fatal(err)
		}
		defer w.Start()()
		b := x.author.Byline
		for i, p := range properties(fullByline(t, b.UserID)) {
			reflect.ValueOf(&b).Elem().Field(i + 1).SetString(p.Value)
			w.Corrupt("users", b.UserID, b.UserID, "/"+p.InUser(), p.Value)
			w.Corrupt("users", b.UserID, b.UserID, "/revision", i+2)
			testkit.Until(t, func() error { return w.bylineMatches(b) })
		}
		removed := store.Optional{Set: true}
		if _, err := w.UpdateUser(t.Context(), b.UserID,
			store.UserEdit{Username: new("ada"), DisplayName: removed, AvatarURL: removed}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error { return w.bylineMatches(x.author.Byline) })
		testkit.Until(t, func() error {
			if found := w.verified(); found != nil {
				return fmt.Errorf("verify finds %v", found)
			}
			return nil
		})
	})
}

// The job of a change is done by processes each of which is gone after a few items.
func TestByline_KilledTenTimes(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.write()
		to := x.author.Byline
		to.Username, to.DisplayName, to.AvatarURL = "Countess", "Ada King", "/avatars/countess.svg"
		edit := store.UserEdit{Username: &to.Username, DisplayName: store.Optional{Set: true, Value: to.DisplayName},
			AvatarURL: store.Optional{Set: true, Value: to.AvatarURL}}
		if _, err := w.UpdateUser(t.Context(), x.author.UserID, edit); err != nil {
			t.Fatal(err)
		}
		for life := range 10 {
			var patches atomic.Int32
			w.Wire.Intercept(func(r *http.Request) error {
				if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/colls/posts/") && patches.Add(1) > 2 {
					return errors.New("gone")
				}
				return nil
			})
			stop := w.Start()
			testkit.Until(t, func() error {
				if patches.Load() <= 2 {
					return errors.New("the job has not begun")
				}
				return nil
			})
			stop()
			if w.bylineMatches(to) == nil {
				t.Fatalf("the job had ended in life %d", life)
			}
		}
		w.Wire.Intercept(nil)
		defer w.Start()()
		testkit.Until(t, func() error { return w.bylineMatches(to) })
		w.Clock.Millis.Add(5_000) // the second pass
		testkit.Until(t, w.jobsLeft)
		if found := w.verified(); found != nil {
			t.Errorf("verify finds %v", found)
		}
	})
}

// A change of the biography enqueues no job, and one that follows a change of the byline does not hide that.
func TestByline_JobForChangesOfIt(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.write()
		change := func(e store.UserEdit) {
			t.Helper()
			if _, err := w.UpdateUser(t.Context(), x.author.UserID, e); err != nil {
				t.Fatal(err)
			}
		}
		bio := func(text string) store.UserEdit {
			return store.UserEdit{Bio: store.Optional{Set: true, Value: text}}
		}
		var enqueued atomic.Int32
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/leases/docs") &&
				r.Header.Get("x-ms-documentdb-partitionkey") == fmt.Sprintf(`["rename.%s"]`, x.author.UserID) {
				enqueued.Add(1)
			}
			return nil
		})
		change(bio("first"))
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		if n := enqueued.Load(); n != 0 {
			t.Errorf("%d jobs for a biography", n)
		}
		stop()
		change(store.UserEdit{Username: new("Countess")})
		change(bio("second"))
		defer w.Start()()
		to := x.author.Byline
		to.Username = "Countess"
		testkit.Until(t, func() error { return w.bylineMatches(to) })
		w.Clock.Millis.Add(5_000) // the second pass
		testkit.Until(t, w.jobsLeft)
		had := enqueued.Load()
		change(bio("third"))
		testkit.Until(t, w.CaughtUp)
		if n := enqueued.Load(); had == 0 || n != had {
			t.Errorf("%d jobs for a username, %d more for a biography", had, n-had)
		}
	})
}

// If the byline changes during the second pass of its job, the job begins again.
func TestByline_ChangedDuringJob(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.write()
		job := jobs.Job{Subject: x.author.UserID, Kind: "rename", Generation: 2}
		unit := func() bool {
			t.Helper()
			step, err := w.Views().Rename(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			job.Position = step.Position
			return step.Done
		}
		to := x.author.Byline
		for _, to.Username = range []string{"first", "second"} {
			if _, err := w.UpdateUser(t.Context(), to.UserID, store.UserEdit{Username: &to.Username}); err != nil {
				t.Fatal(err)
			}
			if unit() {
				t.Errorf("one pass for %s", to.Username)
			}
			w.Clock.Millis.Add(5_000) // the second pass
		}
		if !unit() {
			t.Error("the second pass does not end the job")
		}
	})
}

// A job for a user whose byline every copy has, enqueued twice, changes nothing.
func TestByline_JobWithoutAChange(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t, store.Options{})
		ada := w.AddUser("ada")
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		var patches atomic.Int32
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch {
				patches.Add(1)
			}
			return nil
		})
		w.must(w.work(t.Context(), jobs.Job{Kind: "rename", Subject: ada.UserID, Generation: 2}))
		if n := patches.Load(); n != 0 {
			t.Errorf("%d patches", n)
		}
	})
}
