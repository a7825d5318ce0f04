package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

func TestCreatePost(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	for _, c := range []struct {
		name  string
		in    store.NewPost
		code  blog.Code
		field string
	}{
		{"empty title", store.NewPost{Content: "x"}, blog.Invalid, "title"},
		{"blank title", store.NewPost{Title: " \u00a0", Content: "x"}, blog.Invalid, "title"},
		{"invisible title", store.NewPost{Title: "\u200b\u202e", Content: "x"}, blog.Invalid, "title"},
		{"long title", store.NewPost{Title: strings.Repeat("é", 201), Content: "x"}, blog.Invalid, "title"},
		{"newline in title", store.NewPost{Title: "a\nb", Content: "x"}, blog.Invalid, "title"},
		{"U+2028 in title", store.NewPost{Title: "a\u2028b", Content: "x"}, blog.Invalid, "title"},
		{"empty content", store.NewPost{Title: "x"}, blog.Invalid, "content"},
		{"long content", store.NewPost{Title: "x", Content: strings.Repeat("x", 100_001)}, blog.Invalid, "content"},
		{"NUL in content", store.NewPost{Title: "x", Content: "a\x00b"}, blog.Invalid, "content"},
		{"C1 control in content", store.NewPost{Title: "x", Content: "a\u0080b"}, blog.Invalid, "content"},
		{"invalid UTF-8", store.NewPost{Title: "x", Content: "a\xffb"}, blog.Invalid, "content"},
		{"author without a user", store.NewPost{AuthorID: "unknown", Title: "x", Content: "x"}, blog.Forbidden, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.in.AuthorID == "" {
				c.in.AuthorID = ada.UserID
			}
			_, err := w.CreatePost(t.Context(), c.in)
			storetest.WantCode(t, err, c.code, c.field)
		})
	}
	if n := len(w.AllUserPosts(ada)); n != 0 {
		t.Fatalf("%d posts were written by rejected creates", n)
	}
	t.Run("texts at the limits -> stored unchanged", func(t *testing.T) {
		in := store.NewPost{AuthorID: ada.UserID, Title: strings.Repeat("é", 200),
			Content: "tab\tnewline\n'; DROP TABLE c -- \" \\ 🦉" + strings.Repeat("x", 99_000)}
		p, err := w.CreatePost(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.Post(t.Context(), p.ID)
		if err != nil || got.Title != in.Title || got.Content != in.Content {
			t.Fatalf("title or content has changed: %v", err)
		}
	})
	t.Run("same key", func(t *testing.T) {
		in := store.NewPost{AuthorID: ada.UserID, Title: "once", Content: "only", Key: "k"}
		first, err := w.CreatePost(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.CreatePost(t.Context(), in)
		if err != nil || again.ID != first.ID {
			t.Fatalf("got %v, %v", again, err)
		}
		in.Title = "twice"
		_, err = w.CreatePost(t.Context(), in)
		storetest.WantCode(t, err, blog.Conflict, "idempotencyKey")
		in.AuthorID = w.AddUser("grace").UserID
		if other, err := w.CreatePost(t.Context(), in); err != nil || other.ID == first.ID {
			t.Fatalf("same key of another user: %v, %v", other, err)
		}
	})
	t.Run("visible at once, without the projections", func(t *testing.T) {
		p := w.AddPost(ada, "fresh")
		if got := w.AllFeed()[0]; got.ID != p.ID {
			t.Errorf("feed begins with %s", got.Title)
		}
		if got := w.AllUserPosts(ada)[0]; got.ID != p.ID {
			t.Errorf("the author's posts begin with %s", got.Title)
		}
		if _, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Title: new("edited")}); err != nil {
			t.Fatal(err)
		}
		if w.AllFeed()[0].Title != "edited" || w.AllUserPosts(ada)[0].Title != "edited" {
			t.Error("the edit is not visible at once")
		}
	})
	t.Run("failed write of the summaries -> post created", func(t *testing.T) {
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/colls/posts/") {
				return errors.New("no")
			}
			return nil
		})
		p, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "late", Content: "summaries"})
		w.Wire.Intercept(nil)
		if err != nil {
			t.Fatal(err)
		}
		if w.AllFeed()[0].ID == p.ID {
			t.Fatal("the summary was written")
		}
		defer w.Start()()
		testkit.Until(t, func() error {
			if w.AllFeed()[0].ID != p.ID || w.AllUserPosts(ada)[0].ID != p.ID {
				return errors.New("the projections have not written the summaries")
			}
			return nil
		})
	})
}

func TestEditPost(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	p := w.AddPost(ada, "first")
	edit := func(user, post string, e store.PostEdit) error {
		_, err := w.EditPost(t.Context(), user, post, e)
		return err
	}
	storetest.WantCode(t, edit(grace.UserID, p.ID, store.PostEdit{Title: new("x")}), blog.Forbidden, "")
	storetest.WantCode(t, edit(ada.UserID, "absent", store.PostEdit{Title: new("x")}), blog.NotFound, "")
	storetest.WantCode(t, edit(ada.UserID, "not/an id", store.PostEdit{Title: new("x")}), blog.NotFound, "")
	storetest.WantCode(t, edit(ada.UserID, p.ID, store.PostEdit{Title: new("")}), blog.Invalid, "title")
	storetest.WantCode(t, edit(ada.UserID, p.ID, store.PostEdit{Content: new("\x01")}), blog.Invalid, "content")
	storetest.WantCode(t, edit(ada.UserID, p.ID, store.PostEdit{Title: new("x"), Version: new(int32(2))}),
		blog.Conflict, "version")
	c := w.AddComment(grace, p, "not a post")
	storetest.WantCode(t, edit(grace.UserID, c.ID, store.PostEdit{Title: new("x")}), blog.NotFound, "")
	if got, err := w.Post(t.Context(), p.ID); err != nil || got.Title != "first" || got.Version != 1 {
		t.Fatalf("a rejected edit was written: %v, %v", got, err)
	}
	got, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Title: new("second"), Version: new(int32(1))})
	if err != nil || got.Title != "second" || got.Content != p.Content || got.Version != 2 || got.UpdatedAt == nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	storetest.WantCode(t, edit(ada.UserID, p.ID, store.PostEdit{Title: new("third"), Version: new(int32(1))}),
		blog.Conflict, "version")
}

// An edit without a change succeeds and writes nothing: no version, no date, no event.
func TestEdits_WithoutChange(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	long := "A long text: " + strings.Repeat("é", 20_000)
	create := func(n store.NewPost, create func(context.Context, store.NewPost) (*blog.Post, error)) *blog.Post {
		n.AuthorID, n.Title, n.Tags = ada.UserID, "title", []string{"go"}
		p, err := create(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, p := range map[string]*blog.Post{
		"post":       create(store.NewPost{Content: "one\ntwo"}, w.CreatePost),
		"long post":  create(store.NewPost{Content: long}, w.CreatePost),
		"draft":      create(store.NewPost{Content: "one\ntwo"}, w.CreateDraft),
		"long draft": create(store.NewPost{Content: long}, w.CreateDraft),
	} {
		content := "one\r\ntwo"
		if strings.HasPrefix(name, "long") {
			content = long
		}
		for edit, e := range map[string]store.PostEdit{
			"nothing": {}, "the version": {Version: new(int32(1))}, "the same title": {Title: new(" title ")},
			"the same tags": {Tags: &[]string{"go", "go"}}, "the same content": {Content: &content},
			"all the same": {Title: new("title"), Content: &content, Tags: &[]string{"go"}, Version: new(int32(1))},
		} {
			t.Run(name+", "+edit, func(t *testing.T) {
				got, err := w.EditPost(t.Context(), ada.UserID, p.ID, e)
				if err != nil || got.Version != 1 || got.Revision != p.Revision || got.UpdatedAt != nil || got.Title != "title" {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
		_, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Title: new("title"), Version: new(int32(2))})
		storetest.WantCode(t, err, blog.Conflict, "version")
		changed := content + "."
		for i, e := range []store.PostEdit{{Content: &changed}, {Tags: &[]string{}}, {Title: new("Title")}} {
			got, err := w.EditPost(t.Context(), ada.UserID, p.ID, e)
			if err != nil || got.Version != int32(i)+2 || got.UpdatedAt == nil {
				t.Errorf("%s, edit %d: got %+v, %v", name, i, got, err)
			}
		}
	}
	c := w.AddComment(ada, w.AddPost(ada, "commented"), "first\nsecond")
	same, err := w.EditComment(t.Context(), ada.UserID, c.PostID, c.ID, "first\r\nsecond")
	if err != nil || same.UpdatedAt != nil {
		t.Errorf("the same comment: %+v, %v", same, err)
	}
	if other, err := w.EditComment(t.Context(), ada.UserID, c.PostID, c.ID, "other"); err != nil || other.UpdatedAt == nil {
		t.Errorf("another text: %+v, %v", other, err)
	}
}

func TestEditPost_ConcurrentLikes(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "popular")
	var likers []*blog.User
	for i := range 50 {
		likers = append(likers, w.AddUser("liker"+string(rune('A'+i%26))+string(rune('a'+i/26))))
	}
	var wg sync.WaitGroup
	for _, u := range likers {
		wg.Go(func() {
			if _, _, err := w.LikePost(context.Background(), u.UserID, p.ID); err != nil {
				t.Error(err)
			}
		})
	}
	version := p.Version
	for range 20 {
		e := store.PostEdit{Title: new(fmt.Sprint("edited ", version)), Version: &version}
		got, err := w.EditPost(t.Context(), ada.UserID, p.ID, e)
		if err != nil {
			t.Fatal(err)
		}
		version = got.Version
	}
	wg.Wait()
	got, err := w.Post(t.Context(), p.ID)
	if err != nil || got.LikeCount != 50 || got.Version != 21 || got.Revision != 71 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestReads_ItemsOfOtherTypes(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "a post")
	c := w.AddComment(ada, p, "a comment")
	if got, err := w.Comment(t.Context(), p.ID, p.ID); got != nil || err != nil {
		t.Errorf("a post as a comment: %v, %v", got, err)
	}
	if got, err := w.Post(t.Context(), c.ID); got != nil || err != nil {
		t.Errorf("a comment as a post: %v, %v", got, err)
	}
	for _, id := range []string{"", "a/b", "a?b", "a#b", `a\b`, "é", "a b", "like-" + ada.UserID + "'",
		strings.Repeat("a", 65)} {
		if got, err := w.Post(t.Context(), id); got != nil || err != nil {
			t.Errorf("%q: %v, %v", id, got, err)
		}
	}
}

// A new post whose id is that of another author's post gets another id, and so does its repetition with the same key.
func TestCreatePost_IDTaken(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	for name, content := range map[string]string{"short": "c", "long": strings.Repeat("long ", blog.InlineText/4)} {
		t.Run(name, func(t *testing.T) {
			create := func() *blog.Post {
				t.Helper()
				p, err := w.CreatePost(t.Context(),
					store.NewPost{AuthorID: ada.UserID, Title: "of ada", Content: content, Key: "key" + name})
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			taken := create().ID
			w.Remove("posts", taken, taken)
			item, _ := blog.NewPostItem(&blog.Post{ID: taken, Byline: grace.Byline, Title: "of grace", Content: "c",
				CreatedAt: blog.NewDate(storetest.Epoch()), Version: 1, Revision: 1})
			w.Upsert("posts", taken, string(blog.Encode(item)))
			first, again := create(), create()
			if first.ID == taken || first.Title != "of ada" || again.ID != first.ID {
				t.Errorf("%s is taken: created %s, repeated %s", taken, first.ID, again.ID)
			}
			if p, err := w.Post(t.Context(), taken); err != nil || p.Title != "of grace" {
				t.Errorf("the other post is %+v, %v", p, err)
			}
		})
	}
}

func TestExcerpt(t *testing.T) {
	words := strings.Repeat("word ", 100)
	for _, c := range []struct{ name, content, want string }{
		{"short text", "A short text.", "A short text."},
		{"text at the limit", strings.Repeat("x", 280), strings.Repeat("x", 280)},
		{"cut between words", words, strings.TrimSpace(strings.Repeat("word ", 56))},
		{"cut within a word", "abc " + strings.Repeat("x", 300), "abc " + strings.Repeat("x", 276)},
		{"cut within an address", "Look: https://a.b/" + strings.Repeat("x", 300),
			"Look: https://a.b/" + strings.Repeat("x", 262)},
		{"cut of a script without spaces", "# はじめに\n\n" + strings.Repeat("字", 750),
			strings.Repeat("字", 280)},
		{"cut between clusters", strings.Repeat("👩\u200d👧", 100), strings.Repeat("👩\u200d👧", 93)},
		{"no space", strings.Repeat("x", 281), strings.Repeat("x", 280)},
		{"characters, not bytes", strings.Repeat("é", 281), strings.Repeat("é", 280)},
		{"cut at a newline", strings.Repeat("y", 270) + "\n" + strings.Repeat("x", 30), strings.Repeat("y", 270)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := (&blog.Post{Content: c.content}).StoredExcerpt()
			if got != c.want || utf8.RuneCountInString(got) > 280 {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A repeated create writes the summaries that the first attempt has not written.
func TestCreatePost_RepetitionWritesSummaries(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.Wire.Intercept(func(r *http.Request) error {
		if strings.Contains(r.URL.Path, "/colls/feed/") ||
			strings.Contains(r.URL.Path, "/colls/users/") && r.Method == http.MethodPost {
			return errors.New("killed")
		}
		return nil
	})
	n := store.NewPost{AuthorID: ada.UserID, Title: "one", Content: "x", Key: "k"}
	if _, err := w.CreatePost(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.Wire.Intercept(nil)
	if _, err := w.CreatePost(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if len(w.AllFeed()) != 1 || len(w.AllUserPosts(ada)) != 1 {
		t.Errorf("got %d posts in the feed, %d of the user, want 1", len(w.AllFeed()), len(w.AllUserPosts(ada)))
	}
}

// A create that is repeated much later does not restore its post to the feed: later refills would continue
// from it, and miss newer posts.
func TestCreatePost_RepetitionOfOldPost(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		n := store.NewPost{AuthorID: ada.UserID, Title: "old", Content: "x", Key: "k"}
		if _, err := w.CreatePost(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		var posts []*blog.Post
		for i := range 159 {
			posts = append(posts, w.AddPost(ada, fmt.Sprint(i)))
		}
		defer w.Start()()
		deleteSome := func(some []*blog.Post) {
			for _, p := range some {
				if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Until(t, w.CaughtUp)
		}
		testkit.Until(t, w.CaughtUp)
		deleteSome(posts[139:]) // as many as possible without a refill of the feed
		w.Clock.Millis.Add(time.Hour.Milliseconds())
		if _, err := w.CreatePost(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		deleteSome(posts[108:139])
		for _, d := range w.Differences(time.Second) {
			t.Errorf("%+v", d)
		}
	})
}
