package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

// Posts keep the spelling of their tags, and are found in any other.
func TestTags_Spellings(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.Start()
	for spelling, others := range map[string][]string{
		"d_123":              {"D-123", "d 123"},
		"node.js":            {"Node.JS"},
		"c++":                {"C++", "ｃ＋＋"},
		"c#":                 {"C#"},
		"c":                  {"C"},
		"Web Dev":            {"web-dev", " WEB\u00a0 dev", "web_dev"},
		"نرم\u200cافزار":     {"نرم\u200cافزار"},
		"क्\u200dष":          {"क्\u200dष"},
		"col·lecció":         {"COL·LECCIÓ", "colŀlecció"[:3] + "·leccio\u0301"},
		"l’été":              {"l'été"},
		"Gro\u0308\u00dfe":   {"GRÖSSE"},
		".NET":               {".net"},
		"ジョン・レノン":            {"ジョン・レノン"},
		"Ⅷ":                  {"viii"},
		"GraphQL \U00020000": {"graphql_\U00020000"},
	} {
		p, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c",
			Tags: append([]string{spelling}, others...)})
		if err != nil || len(p.Tags) != 1 {
			t.Fatalf("%q: %+v, %v", spelling, p, err)
		}
		read, err := w.Post(t.Context(), p.ID)
		if err != nil || !slices.Equal(read.Tags, p.Tags) || strings.Trim(p.Tags[0], spelling+"ö") != "" {
			t.Errorf("%q: stored as %q, %v", spelling, read.Tags, err)
		}
		for _, other := range append(others, spelling) {
			testkit.Until(t, func() error {
				tag, err := w.Tag(t.Context(), other)
				if err != nil || tag == nil {
					t.Fatalf("%q: %v, %v", other, tag, err)
				}
				page, err := w.TagPosts(t.Context(), tag, store.Paging{First: 10})
				if err == nil && (len(page.Items) != 1 || page.Items[0].ID != p.ID) {
					err = errors.New(other + " does not find the post")
				}
				return err
			})
		}
	}
	w.noDifferences(t)
}

// A refused tag is named with its sign, beside the others that are refused.
func TestTags_Refused(t *testing.T) {
	n := store.NewPost{Title: "t", Content: "c", Tags: []string{"go", "a/b", "web\u200bdev", "go"}}
	var got []string
	for _, err := range n.Validate().(interface{ Unwrap() []error }).Unwrap() {
		for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
			var e *blog.Error
			if errors.As(err, &e) {
				got = append(got, e.Field+": "+e.Message)
			}
		}
	}
	want := []string{`tags[1]: "a/b" must not contain '/' (U+002F)`,
		`tags[2]: "web\u200bdev" must not contain the invisible character U+200B`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// topTags returns the most used tags and their counts.
func topTags(t *testing.T, ctx context.Context, s *store.Store) map[string]int32 {
	t.Helper()
	tags, err := s.TopTags(ctx, 100)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int32{}
	for _, tag := range tags {
		counts[tag.Name] = tag.PostCount
	}
	return counts
}

// The five tags of a post are in the list of the most used ones together, beside other writers on two instances: for
// their writer at once, on each instance with the session. The tags of a deleted post leave it likewise. No projections
// run.
func TestTags_Together(t *testing.T) {
	_, a, b, ada, _ := newCachedBlog(t)
	instances := []*store.Store{a.Store, b.Store}
	for _, s := range instances {
		s.Views().ViewsWait = time.Minute // a busy machine is slow
	}
	stop := make(chan struct{})
	var watching, writing sync.WaitGroup
	watching.Go(func() {
		for {
			for _, s := range instances {
				posts := map[string]int{}
				for tag := range topTags(t, t.Context(), s) {
					post, _, ok := strings.Cut(tag, ".")
					if ok {
						posts[post]++
					}
				}
				for post, n := range posts {
					if n != 5 {
						t.Errorf("%d of the tags of %s", n, post)
					}
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range testkit.Pick(3, 20) {
		var deletions []func()
		var mu sync.Mutex
		for writer := range 4 {
			writing.Go(func() {
				mine, other := instances[writer%2], instances[1-writer%2]
				session := mine.NewSession("")
				ctx := cosmos.WithSession(t.Context(), session)
				var tags []string
				for n := range 5 {
					tags = append(tags, fmt.Sprintf("w%dp%d.%d", writer, i, n))
				}
				p, err := mine.CreatePost(ctx, store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", Tags: tags})
				if err != nil {
					t.Error(err)
					return
				}
				check := func(want int32) {
					t.Helper()
					for name, s := range map[string]*store.Store{"the same": mine, "the other": other} {
						counts := topTags(t, cosmos.WithSession(t.Context(), s.NewSession(session.Token())), s)
						for _, tag := range tags {
							if counts[tag] != want {
								t.Errorf("on %s instance %s has %d posts, want %d", name, tag, counts[tag], want)
							}
						}
					}
				}
				check(1)
				mu.Lock()
				defer mu.Unlock()
				deletions = append(deletions, func() {
					if err := mine.DeletePost(ctx, ada.UserID, p.ID); err != nil {
						t.Error(err)
						return
					}
					check(0)
				})
			})
		}
		writing.Wait()
		// A handler that is late would create entries of a deleted post, and delete them again.
		testkit.Until(t, func() error {
			status, err := a.Views().Status(t.Context())
			for _, r := range status {
				if r.Container == blog.PostsContainer && r.Lag > 0 {
					return fmt.Errorf("the projections are %d changes behind", r.Lag)
				}
			}
			return err
		})
		for _, f := range deletions {
			writing.Go(f)
		}
		writing.Wait()
	}
	close(stop)
	watching.Wait()
}

// The most used tags are right after 200 others were used more and their posts deleted, without repair.
func TestTags_ComeAndGo(t *testing.T) {
	w := newWorld(t)
	ada, mallory := w.AddUser("ada"), w.AddUser("mallory")
	create := func(author *blog.User, tags ...string) *blog.Post {
		t.Helper()
		p, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: author.UserID, Title: "t", Content: "c", Tags: tags})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	create(ada, "go", "rust")
	create(ada, "go")
	var posts []*blog.Post
	for i := range 80 { // each of the 200 tags twice
		var tags []string
		for n := range 5 {
			tags = append(tags, fmt.Sprint("spam", (5*i+n)%200))
		}
		posts = append(posts, create(mallory, tags...))
	}
	if counts := topTags(t, t.Context(), w.Store); len(counts) != 100 || counts["go"] != 0 && counts["spam0"] == 0 {
		t.Errorf("got %d tags", len(counts))
	}
	for _, p := range posts[:40] {
		if err := w.DeletePost(t.Context(), mallory.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
	}
	if counts := topTags(t, t.Context(), w.Store); counts["go"] != 2 {
		t.Errorf("go has %d posts, want 2", counts["go"])
	}
	w.Start()
	if err := w.DeleteUser(t.Context(), mallory.UserID, "mallory"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, func() error {
		w.Clock.Millis.Add(time.Minute.Milliseconds())
		if counts := topTags(t, t.Context(), w.Store); !maps.Equal(counts, map[string]int32{"go": 2, "rust": 1}) {
			return fmt.Errorf("got %v", counts)
		}
		return nil
	})
	w.noDifferences(t)
}

// A count that was made wrong by hand, in a counter or in the sum, is right in the list after one repair.
func TestTags_RepairedOnce(t *testing.T) {
	for name, damage := range map[string]func(*world){
		"counter":            func(w *world) { w.Corrupt("feed", "tag.go.2026-03", blog.CounterID, "/posts", 7) },
		"malformed counter":  func(w *world) { w.Corrupt("feed", "tag.go.2026-03", blog.CounterID, "/posts", "seven") },
		"no counter":         func(w *world) { w.Remove("feed", "tag.go.2026-03", blog.CounterID) },
		"sum":                func(w *world) { w.Corrupt("feed", blog.TimelinesKey, "tag.go", "/posts", 7) },
		"malformed sum":      func(w *world) { w.Corrupt("feed", blog.TimelinesKey, "tag.go", "/posts", "seven") },
		"copy":               func(w *world) { w.Corrupt("feed", blog.TimelinesKey, "tag.go", "/months/2026-03", 7) },
		"no timeline":        func(w *world) { w.Remove("feed", blog.TimelinesKey, "tag.go") },
		"count of all posts": func(w *world) { w.Corrupt("feed", blog.TimelinesKey, "all", "/posts", 7) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ada := w.AddUser("ada")
			for range 2 {
				if _, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c",
					Tags: []string{"go"}}); err != nil {
					t.Fatal(err)
				}
			}
			w.noDifferences(t)
			damage(w)
			all := w.Differences(0)
			if len(all) == 0 {
				t.Error("verify finds nothing")
			}
			for _, d := range all {
				if err := w.Views().Repair(t.Context(), d); err != nil {
					t.Error(err)
				}
			}
			w.Account.Invalidate()
			total, err := w.FeedCount(t.Context())
			if counts := topTags(t, t.Context(), w.Store); counts["go"] != 2 || total != 2 || err != nil {
				t.Errorf("got %v and %d posts, %v", counts, total, err)
			}
			w.noDifferences(t)
		})
	}
}

// Each list of the most used tags begins a longer one, also where tags have the same count.
func TestTags_TiesAreOrdered(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	if _, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c",
		Tags: []string{"b", "d", "a", "c"}}); err != nil {
		t.Fatal(err)
	}
	var before []string
	for first := 1; first <= 4; first++ {
		tags, err := w.TopTags(t.Context(), first)
		if err != nil || len(tags) != first {
			t.Fatalf("%d tags, %v", len(tags), err)
		}
		var names []string
		for _, tag := range tags {
			names = append(names, tag.Name)
		}
		if !slices.Equal(names[:first-1], before) {
			t.Errorf("%q does not begin with %q", names, before)
		}
		before = names
	}
}
