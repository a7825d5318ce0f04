package article

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newSuite returns a suite with a small data set, loaded in some versions, on several
// partitions.
func newSuite(t *testing.T, o Options, versions ...string) *Suite {
	t.Helper()
	account := enginetest.Open(t, emulator.Options{Partitions: 3}, cosmos.Options{})
	s, err := New(account, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		if err := s.Seed(t.Context(), version, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.models[slices.Index(Versions(), version)].begin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestArticle measures the article's table, and compares the RU of each request with those of the other
// versions and of the article.
func TestArticle(t *testing.T) {
	testkit.Heavy(t)
	s := newSuite(t, Options{Seed: 1, Users: 5, Runs: 2}, Versions()...)
	last := 0
	report, err := s.Measure(t.Context(), func(done int) {
		if done != last+1 || done > s.Requests() {
			t.Errorf("%d of %d after %d", done, s.Requests(), last)
		}
		last = done
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Cells) != 30 {
		t.Errorf("%d cells", len(report.Cells))
	}
	for i, c := range report.Cells {
		if want := requests[i/3]; c.Request != want.id || c.Version != Versions()[i%3] ||
			c.ArticleRU != want.figures[i%3].ru {
			t.Errorf("cell %d is %+v", i, c)
		}
		if c.RU < 1 || c.P50 <= 0 || c.P99 < c.P50 {
			t.Errorf("%s of %s: %+v", c.Request, c.Version, c)
		}
		if c.Version == V3 && strings.HasPrefix(c.Request, "Q") && c.RU > c.ArticleRU {
			t.Errorf("%s of V3 costs %v RU, in the article %v", c.Request, c.RU, c.ArticleRU)
		}
		if beside := c.BesideRU > 0; beside != (c.Version == V3 && (c.Request == "C1" || c.Request == "C2")) {
			t.Errorf("%s of %s is charged %v RU for other operations", c.Request, c.Version, c.BesideRU)
		}
	}
	if err := report.Check(); err != nil {
		t.Error(err)
	}
	for _, f := range []Format{Text, Markdown, JSON} {
		var out bytes.Buffer
		if err := report.Write(&out, f); err != nil || !strings.Contains(out.String(), "2063.54") {
			t.Errorf("%s: %v: %s", f, err, &out)
		}
		t.Log(out.String())
	}
}

// TestModels_SameResults compares the results of each request on the three versions.
func TestModels_SameResults(t *testing.T) {
	testkit.Heavy(t)
	s := newSuite(t, Options{Seed: 2, Users: 2}, Versions()...)
	user, thread := s.blog.User(1), s.blog.Thread(1, 2)
	same := cmp.Options{
		cmpopts.IgnoreUnexported(blog.Post{}),
		cmpopts.IgnoreFields(blog.Post{}, "Version", "Revision", "Truncated", "ReadingMinutes"), // V3's own
		cmpopts.IgnoreFields(blog.User{}, "CreatedAt", "Revision"),
		cmpopts.SortSlices(func(a, b *blog.Comment) bool { return a.ID < b.ID }),
		cmpopts.SortSlices(func(a, b *blog.Like) bool { return a.UserID < b.UserID }),
	}
	ctx := t.Context()
	var results [][]any
	for _, m := range s.models {
		for _, err := range []error{
			m.createUser(ctx, &blog.User{Byline: blog.Byline{UserID: "new", Username: "new"}}),
			m.createComment(ctx,
				&blog.Comment{ID: "comment", PostID: thread.Post.ID,
					Byline: blog.Byline{UserID: "new", Username: "new"}, Content: "!",
					CreatedAt: blog.NewDate(measuredAt)}),
			m.like(ctx, &blog.Like{PostID: thread.Post.ID, Byline: blog.Byline{UserID: "new", Username: "new"},
				CreatedAt: blog.NewDate(measuredAt)}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		u, err1 := m.user(ctx, user.UserID)
		p, err2 := m.post(ctx, thread.Post.ID)
		posts, err3 := m.userPosts(ctx, user.UserID)
		comments, err4 := m.comments(ctx, thread.Post.ID)
		likes, err5 := m.likes(ctx, thread.Post.ID)
		feed, err6 := m.feed(ctx)
		for _, err := range []error{err1, err2, err3, err4, err5, err6} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range comments {
			if c.Content == "!" {
				c.ID = "" // V3 generates the id
			}
		}
		i := slices.IndexFunc(posts, func(x *blog.Post) bool { return x.ID == p.ID })
		if i < 0 {
			t.Fatalf("%s is not among its author's posts", p.ID)
		}
		posts[i].CommentCount, posts[i].LikeCount = p.CommentCount, p.LikeCount // V3 updates the view later
		if len(posts) != s.blog.PostCount(1) || len(comments) != len(thread.Comments)+1 ||
			len(likes) != len(thread.Likes)+1 || len(feed) != min(100, s.blog.TotalPosts()) {
			t.Errorf("%d posts, %d comments, %d likes, %d in the feed", len(posts), len(comments), len(likes),
				len(feed))
		}
		if int(p.CommentCount) != len(comments) || int(p.LikeCount) != len(likes) {
			t.Errorf("%d comments and %d likes; the post counts %d and %d", len(comments), len(likes), p.CommentCount,
				p.LikeCount)
		}
		for _, x := range feed {
			if x.ID == p.ID {
				x.CommentCount, x.LikeCount = p.CommentCount, p.LikeCount
			}
		}
		results = append(results, []any{u, p, posts, comments, likes, feed})
	}
	for i, version := range Versions()[:2] {
		if diff := cmp.Diff(results[2], results[i], same); diff != "" {
			t.Errorf("V3 against %s: %s", version, diff)
		}
	}
}

// TestCompare compares the reads of two data sets; the lists of their users have the same lengths.
func TestCompare(t *testing.T) {
	testkit.Heavy(t)
	small, large := newSuite(t, Options{Seed: 1, Users: 2, Runs: 3}, V3),
		newSuite(t, Options{Seed: 1, Users: 6, Runs: 3}, V3)
	last := 0
	l, err := Compare(t.Context(), small, large, func(done int) { last = done })
	if err != nil {
		t.Fatal(err)
	}
	if last != Reads(3) || l.Runs != 3 || l.Posts != [2]int{small.blog.TotalPosts(), large.blog.TotalPosts()} {
		t.Errorf("%d steps; %+v", last, l)
	}
	var ids []string
	for _, r := range l.Reads {
		ids = append(ids, r.Request)
		for n := range 2 {
			if r.RU[n] < 1 || r.P50[n] <= 0 || r.P99[n] < r.P50[n] {
				t.Errorf("%+v", r)
			}
		}
	}
	if want := []string{"Q1", "Q2", "Q3", "Q4", "Q5", "Q6"}; !slices.Equal(ids, want) {
		t.Errorf("requests %v, want %v", ids, want)
	}
	few := small.workload(20, nil)
	if many := large.workload(20, few); !slices.Equal(few.wrote, many.wrote) ||
		slices.Equal(few.authors, many.authors) {
		t.Errorf("%v have %v posts, %v have %v", few.authors, few.wrote, many.authors, many.wrote)
	}
}

func TestRemove(t *testing.T) {
	s := newSuite(t, Options{Seed: 1, Users: 1}, V1)
	for range 2 { // a missing database is not an error
		if err := s.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.models[0].user(t.Context(), s.blog.User(0).UserID); !hasStatus(err, 404) {
		t.Errorf("after Remove: %v", err)
	}
}
