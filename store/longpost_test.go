package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/projection"
	"byline/store/stored"
)

// addLong creates a post with a text of so many bytes.
func (w *world) addLong(u *blog.User, bytes int, key string) *blog.Post {
	w.T.Helper()
	p, err := w.CreatePost(w.T.Context(),
		store.NewPost{AuthorID: u.UserID, Title: "long", Content: longText(bytes), Key: key})
	if err != nil {
		w.T.Fatal(err)
	}
	return p
}

func longText(bytes int) string {
	const word = "analytical "
	return strings.Repeat(word, bytes/len(word)) + "engine"
}

// hasContent checks the content of a post, read alone and with others.
func (w *world) hasContent(id, content string) {
	w.T.Helper()
	p, err := w.Post(w.T.Context(), id)
	if err != nil || p == nil || p.Truncated || p.Content != content {
		w.T.Fatalf("%+.300v %v", p, err)
	}
	posts, err := w.Posts(w.T.Context(), []string{"unknown", id, id})
	if err != nil || posts[0] != nil || posts[1] == nil || posts[1].Truncated || posts[1].Content != content ||
		posts[2] != posts[1] && posts[2].Content != content {
		w.T.Fatalf("%+.300v %v", posts, err)
	}
}

// text returns the text item of a post, or nil.
func (w *world) text(id string) *blog.TextItem {
	w.T.Helper()
	c, err := w.Account.Container(w.Database, blog.PostsContainer)
	if err != nil {
		w.T.Fatal(err)
	}
	raw, err := stored.Read(w.T.Context(), "test", c, stored.Key(id, blog.TextID))
	if err != nil {
		w.T.Fatal(err)
	}
	if raw == nil {
		return nil
	}
	item, ok, err := blog.Decode[blog.TextItem]("test", blog.TypeText, raw)
	if err != nil {
		w.T.Fatal(err)
	}
	if !ok {
		return nil
	}
	return &item
}

// addInline writes a long post in the old format, with its text inline.
func (w *world) addInline(u *blog.User, content string) *blog.Post {
	w.T.Helper()
	p := w.AddPost(u, "inline")
	p, err := w.EditPost(w.T.Context(), u.UserID, p.ID, store.PostEdit{Content: &content})
	if err != nil {
		w.T.Fatal(err)
	}
	w.Remove("posts", p.ID, blog.TextID)
	w.Corrupt("posts", p.ID, p.ID, "/textDigest", "")
	w.Corrupt("posts", p.ID, p.ID, "/content", content)
	return p
}

// A post that was long when it was created takes two concurrent reads, others one.
func TestPost_LongTextIsReadInOneRoundTrip(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas do not lag")
	w := newWorld(t)
	ada := w.AddUser("ada")
	long, short := w.addLong(ada, 90_000, "key"), w.AddPost(ada, "short")
	all := make(chan struct{})
	var mu sync.Mutex
	sent := 0
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/colls/posts/docs/") {
			return nil
		}
		mu.Lock()
		sent++
		if sent == 2 {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
			return nil
		case <-time.After(30 * time.Second):
			return fmt.Errorf("no concurrent read")
		}
	})
	p, err := w.Post(t.Context(), long.ID)
	if err != nil || p.Truncated || p.Content != long.Content {
		t.Fatalf("%+.300v %v", p, err)
	}
	if sent != 2 {
		t.Errorf("%d requests", sent)
	}
	sent = 2 // all is closed
	if p, err = w.Post(t.Context(), short.ID); err != nil || p == nil || sent != 3 {
		t.Errorf("%d requests, %v", sent-2, err)
	}
}

// A repeated create returns the first post, whose text it reads concurrently.
func TestPost_RepeatedLongCreateIsReadInOneRoundTrip(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas do not lag")
	w := newWorld(t)
	ada := w.AddUser("ada")
	long, text := w.addLong(ada, 90_000, "key"), make(chan struct{})
	w.Wire.Intercept(func(r *http.Request) error {
		switch {
		case strings.HasSuffix(r.URL.Path, "/docs/"+blog.TextID):
			close(text)
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/docs/"+long.ID):
			testkit.Receive(t, text)
		}
		return nil
	})
	if again := w.addLong(ada, 90_000, "key"); again.ID != long.ID || again.Content != long.Content {
		t.Errorf("%+.300v", again)
	}
}

func TestPost_EditAcrossTheInlineLimit(t *testing.T) {
	for _, first := range []int{10, blog.InlineText + 500} { // without and with the id of a long post
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.Start()()
				ada := w.AddUser("ada")
				p := w.addLong(ada, first, "")
				version := p.Version
				for i, size := range []int{20, 11_000, 30, 40, 12_000, 13_000, 50} {
					content := longText(size) + fmt.Sprint(i)
					edited, err := w.EditPost(t.Context(), ada.UserID, p.ID,
						store.PostEdit{Content: &content, Version: &version})
					if err != nil || edited.Content != content || edited.Truncated || edited.Version != version+1 {
						t.Fatalf("%d: %+.300v %v", size, edited, err)
					}
					version++
					w.hasContent(p.ID, content)
					if has := w.text(p.ID) != nil; has != blog.IsLong(content) {
						t.Errorf("%d: got a text item: %t, want %t", size, has, !has)
					}
					title := fmt.Sprint("title ", i)
					if edited, err = w.EditPost(t.Context(), ada.UserID, p.ID,
						store.PostEdit{Title: &title}); err != nil || edited.Truncated != blog.IsLong(content) {
						t.Fatalf("%+.300v %v", edited, err)
					}
					version++
					w.hasContent(p.ID, content)
					if _, err := w.EditPost(t.Context(), ada.UserID, p.ID,
						store.PostEdit{Content: &content, Version: new(int32)}); blog.CodeOf(err) != blog.Conflict {
						t.Errorf("stale version: got %v, want conflict", err)
					}
					if _, err := w.EditPost(t.Context(), "grace", p.ID,
						store.PostEdit{Content: &content}); blog.CodeOf(err) != blog.Forbidden {
						t.Errorf("another user: got %v, want forbidden", err)
					}
					summaries, err := w.UserPosts(t.Context(), ada.UserID, store.Paging{First: 1})
					if err != nil || summaries.Items[0].Truncated != (len(content) > 280) ||
						summaries.Items[0].Title != title {
						t.Fatalf("%+v %v", summaries, err)
					}
				}
				testkit.Until(t, w.CaughtUp)
				if found := w.Differences(0); found != nil {
					t.Errorf("%+v", found)
				}
			})
		})
	}
}

// A reader gets a consistent version if an edit comes between its two reads.
func TestPost_EditBetweenTwoReads(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas do not lag")
	for _, size := range []int{5, 15_000} {
		for _, textFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("edit to %d, text first: %t", size, textFirst), func(t *testing.T) {
				w := newWorld(t)
				ada := w.AddUser("ada")
				p := w.addLong(ada, 9_000, "")
				content, edited := longText(size), make(chan struct{})
				first, second := p.ID, blog.TextID
				if textFirst {
					first, second = second, first
				}
				var edit sync.Once
				reader, err := store.New(
					w.NewAccount(
						cosmos.Options{Transport: transporterFunc(func(r *http.Request) (*http.Response, error) {
							if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/docs/"+second) {
								<-edited
							}
							resp, err := w.Transport.Do(r)
							if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/docs/"+first) {
								edit.Do(func() {
									if _, err := w.EditPost(context.Background(), ada.UserID, p.ID,
										store.PostEdit{Content: &content}); err != nil {
										t.Error(err)
									}
									close(edited)
								})
							}
							return resp, err
						})}), store.Options{Database: w.Database})
				if err != nil {
					t.Fatal(err)
				}
				got, err := reader.Post(t.Context(), p.ID)
				if err != nil || got.Truncated || got.Content != content || got.Version != 2 {
					t.Errorf("%+.300v %v", got, err)
				}
			})
		}
	}
}

type transporterFunc func(*http.Request) (*http.Response, error)

func (f transporterFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// An edit of the title of a post with a long inline text does not move the text, and so does not wait while
// background work is throttled.
func TestEditPost_TitleOfLongInlinePost(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it throttles an account")
		w := newWorld(t)
		ada := w.AddUser("ada")
		content := longText(50_000)
		p := w.addInline(ada, content)
		w.Wire.To = transporterFunc(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("X-Ms-Cosmos-Priority-Level") != "Low" {
				return w.Transport.Do(r)
			}
			return &http.Response{StatusCode: http.StatusTooManyRequests, Status: "429 ", Body: http.NoBody, Request: r,
				Header: http.Header{"X-Ms-Retry-After-Ms": {"1000"}}}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began, title := time.Now(), "edited"
		got, err := w.EditPost(ctx, ada.UserID, p.ID, store.PostEdit{Title: &title})
		if err != nil || got.Title != title || got.Content != content {
			t.Errorf("%+.300v %v", got, err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the edit took %v, want 0", took)
		}
	})
}

// Posts with a long inline text, the old format, are read, liked, edited and deleted like others; edits of the
// text move it to a text item.
func TestPost_LongInlineText(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	content := longText(50_000)
	p := w.addInline(ada, content)
	w.hasContent(p.ID, content)
	w.AddLike(ada, p)
	w.AddComment(ada, p, "a comment")
	w.hasContent(p.ID, content)
	title := "edited"
	edited, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Title: &title})
	if err != nil || edited.Title != title || edited.Content != content || edited.LikeCount != 1 {
		t.Fatalf("%+.300v %v", edited, err)
	}
	w.hasContent(p.ID, content)
	if w.text(p.ID) != nil {
		t.Error("an edit of the title moved the text")
	}
	for _, content := range []string{longText(9_000), "short"} {
		q := w.addInline(ada, longText(60_000))
		if _, err := w.EditPost(t.Context(), ada.UserID, q.ID, store.PostEdit{Content: &content}); err != nil {
			t.Fatal(err)
		}
		w.hasContent(q.ID, content)
		if has := w.text(q.ID) != nil; has != blog.IsLong(content) {
			t.Errorf("got a text item: %t, want %t", has, !has)
		}
	}
	q := w.addInline(ada, content)
	if err := w.DeletePost(t.Context(), ada.UserID, q.ID); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Post(t.Context(), q.ID); p != nil || err != nil {
		t.Errorf("%v %v", p, err)
	}
}

func TestDeletePost_LongText(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.addLong(ada, 11_000, "key")
	if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Post(t.Context(), p.ID); got != nil || err != nil || w.text(p.ID) != nil {
		t.Errorf("%v %v, text %v", got, err, w.text(p.ID))
	}
	for _, size := range []int{11_000, 10} {
		_, err := w.CreatePost(t.Context(),
			store.NewPost{AuthorID: ada.UserID, Title: "long", Content: longText(size), Key: "key"})
		storetest.WantCode(t, err, blog.Conflict, "idempotencyKey")
	}
}

// An idempotency key creates one post, even if it is used again with a text of another length.
func TestCreatePost_LongTextAndIdempotencyKey(t *testing.T) {
	for _, sizes := range [][]int{{11_000, 10}, {10, 11_000}, {11_000, 12_000}} {
		w := newWorld(t)
		ada := w.AddUser("ada")
		p := w.addLong(ada, sizes[0], "key")
		if again := w.addLong(ada, sizes[0], "key"); again.ID != p.ID || again.Content != p.Content || again.Truncated {
			t.Errorf("%+.300v", again)
		}
		_, err := w.CreatePost(t.Context(),
			store.NewPost{AuthorID: ada.UserID, Title: "long", Content: longText(sizes[1]), Key: "key"})
		storetest.WantCode(t, err, blog.Conflict, "idempotencyKey")
		if posts := w.AllUserPosts(ada); len(posts) != 1 {
			t.Errorf("%d posts", len(posts))
		}
	}
}

// A repeated create finds a long post of the old format by its key.
func TestCreatePost_KeyOfLongInlinePost(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.addLong(ada, 11_000, "key")
	c, err := w.Account.Container(w.Database, blog.PostsContainer)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := stored.Read(t.Context(), "test", c, stored.Key(p.ID, p.ID))
	if err != nil {
		t.Fatal(err)
	}
	var item map[string]any
	if err := json.Unmarshal(raw, &item); err != nil {
		t.Fatal(err)
	}
	id := blog.OtherID(p.ID)
	item["id"], item["postId"], item["content"] = id, id, p.Content
	delete(item, "textDigest")
	w.Upsert("posts", id, jsonOf(t, item))
	w.Remove("posts", p.ID, p.ID)
	if again := w.addLong(ada, 11_000, "key"); again.ID != id || again.Content != p.Content {
		t.Errorf("%+.300v", again)
	}
}

// A create or edit of a long post whose response is lost is applied once.
func TestAmbiguousWrites_LongText(t *testing.T) {
	for _, loseRequest := range []bool{false, true} {
		w := newWorld(t)
		ada := w.AddUser("ada")
		d := w.lossy(loseRequest)
		n := store.NewPost{AuthorID: ada.UserID, Title: "once", Content: longText(11_000), Key: "key"}
		d.armed.Store(true)
		p, err := w.CreatePost(t.Context(), n)
		if loseRequest {
			storetest.WantCode(t, err, blog.Unavailable, "")
			p, err = w.CreatePost(t.Context(), n)
		}
		if err != nil || p.Content != n.Content || p.Truncated {
			t.Fatalf("%+.300v %v", p, err)
		}
		w.hasContent(p.ID, n.Content)
		if posts := w.AllUserPosts(ada); len(posts) != 1 {
			t.Errorf("%d posts", len(posts))
		}
		d.writes.Store(0)
		for i, content := range []string{longText(13_000), "short"} {
			d.writes.Store(0)
			edited, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Content: &content})
			if loseRequest {
				storetest.WantCode(t, err, blog.Unavailable, "")
				continue
			}
			if err != nil || edited.Content != content || edited.Version != int32(2+i) {
				t.Fatalf("%+.300v %v", edited, err)
			}
			w.hasContent(p.ID, content)
		}
	}
}

// Verify finds, and Repair repairs, long inline texts, and text items without a post that has them.
func TestVerify_LongTexts(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		content := longText(11_000)
		var posts []*blog.Post
		for range 5 {
			posts = append(posts, w.addLong(ada, 11_000, ""))
		}
		short, deleted := w.AddPost(ada, "short"), w.addLong(ada, 11_000, "")
		inline := w.addInline(ada, content)
		stop := w.Start()
		if err := w.Views().Rebuild(t.Context()); err != nil { // moves the text
			t.Fatal(err)
		}
		w.Rebuilt()
		testkit.Until(t, func() error {
			if found := w.Differences(0); found != nil {
				return fmt.Errorf("%+v", found)
			}
			return nil
		})
		if w.text(inline.ID) == nil {
			t.Error("Rebuild has not moved the text")
		}
		w.hasContent(inline.ID, content)
		if err := w.DeletePost(t.Context(), ada.UserID, deleted.ID); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, w.CaughtUp)
		stop()

		orphan := func(id string) { w.Upsert("posts", id, string(blog.Encode(blog.NewText(id, ada.UserID, content)))) }
		inline = w.addInline(ada, content)
		w.Remove("posts", posts[0].ID, blog.TextID)
		w.Corrupt("posts", posts[1].ID, blog.TextID, "/textDigest", "stale")
		orphan(short.ID)
		orphan(deleted.ID)
		orphan("nothing")
		// of inline
		found := slices.DeleteFunc(w.Differences(0), func(d projection.Difference) bool {
			return d.Kind == projection.TimelineEntry
		})
		want := map[string]blog.Code{inline.ID: "", posts[0].ID: blog.Conflict, posts[1].ID: blog.Conflict,
			short.ID: "", deleted.ID: "", "nothing": ""}
		if len(found) != len(want) {
			t.Fatalf("%+v", found)
		}
		for _, d := range found {
			code, ok := want[d.ID]
			if !ok || d.Kind != projection.Text {
				t.Errorf("%+v", d)
			}
			if err := w.Views().Repair(t.Context(), d); blog.CodeOf(err) != code {
				t.Errorf("%+v: %v", d, err)
			}
		}
		w.hasContent(inline.ID, content)
		w.hasContent(posts[2].ID, content)
		for _, lost := range posts[:2] {
			if p, err := w.Post(t.Context(), lost.ID); err != nil || p == nil || !p.Truncated {
				t.Errorf("%+.300v, %v", p, err)
			}
			for _, content := range []string{"short", longText(9_000)} {
				if _, err := w.EditPost(t.Context(), ada.UserID, lost.ID,
					store.PostEdit{Content: &content}); err != nil {
					t.Fatal(err)
				}
				w.hasContent(lost.ID, content)
			}
		}
		found = slices.DeleteFunc(w.Differences(0), func(d projection.Difference) bool {
			return d.Kind == projection.TimelineEntry
		})
		if len(found) > 0 {
			t.Errorf("still %+v", found)
		}
		if w.text(short.ID) != nil || w.text(deleted.ID) != nil || w.text("nothing") != nil {
			t.Error("orphaned text items remain")
		}
	})
}

// A rename works on a post with a text item, which has no username.
func TestRename_LongText(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Start()()
		ada := w.AddUser("ada")
		p := w.addLong(ada, 11_000, "")
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("lovelace")}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error {
			p, err := w.Post(t.Context(), p.ID)
			if err != nil || p.Username != "lovelace" {
				return fmt.Errorf("%+.200v %v", p, err)
			}
			return w.CaughtUp()
		})
		w.hasContent(p.ID, p.Content)
		if found := w.Differences(0); found != nil {
			t.Errorf("%+v", found)
		}
	})
}

// The long text of an imported post is a text item.
func TestImport_LongText(t *testing.T) {
	w := newWorld(t)
	u := &blog.User{Byline: blog.Byline{UserID: blog.UserID("test", "ada"), Username: "ada"},
		CreatedAt: "2026-03-01T00:00:00.000Z", Revision: 1}
	p := &blog.Post{ID: "imported", Byline: blog.Byline{UserID: u.UserID, Username: "ada"}, Title: "t",
		Content: longText(15_000), CreatedAt: "2026-03-01T00:00:00.000Z", Version: 1, Revision: 1}
	for range 2 {
		err := w.Import(t.Context(), u, func(yield func(store.Thread) bool) { yield(store.Thread{Post: p}) })
		if err != nil {
			t.Fatal(err)
		}
	}
	w.hasContent(p.ID, p.Content)
	if w.text(p.ID) == nil {
		t.Error("no text item")
	}
}

// The cache serves a long post to the session that wrote it: both of its reads are of one partition.
func TestCache_LongText(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	synctest.Test(t, func(t *testing.T) {
		_, a, _, ada, _ := newCachedBlog(t)
		session := a.NewSession("")
		ctx := cosmos.WithSession(t.Context(), session)
		p, err := a.CreatePost(ctx, store.NewPost{AuthorID: ada.UserID, Title: "long", Content: longText(11_000)})
		if err != nil {
			t.Fatal(err)
		}
		read := func(ctx context.Context) {
			if got, err := a.Post(ctx, p.ID); err != nil || got.Content != p.Content {
				t.Errorf("%+.300v %v", got, err)
			}
		}
		storetest.Pass(time.Second) // until the change of the post arrives
		if n := a.requestsOf(ctx, read); n != 2 {
			t.Errorf("got %d reads, want 2", n)
		}
		if n := a.requestsOf(ctx, read); n != 0 {
			t.Errorf("got %d reads of the cached post, want 0", n)
		}
	})
}

// addAlone writes a post of an earlier version, whose short text is an item of its own.
func (w *world) addAlone(u *blog.User, id, content string) *blog.Post {
	w.T.Helper()
	p := &blog.Post{ID: id, Byline: u.Byline, Title: "alone", Content: content, CreatedAt: blog.NewDate(w.Clock.Now()),
		Version: 1, Revision: 1}
	item, text := blog.PostItem{Envelope: blog.Envelope{Type: blog.TypePost}, PostID: id, Post: *p},
		blog.NewText(id, u.UserID, content)
	item.Content, item.TextDigest = p.StoredExcerpt(), text.Digest
	w.Upsert("posts", id, string(blog.Encode(item)))
	w.Upsert("posts", id, string(blog.Encode(text)))
	return p
}

// Posts whose short text is an item, as earlier versions wrote them, are read, liked and edited like others. An edit of
// the text moves it to the post, and so does Repair.
func TestPost_ShortTextItem(t *testing.T) {
	testkit.Heavy(t)
	short := blog.PostID([10]byte{1})
	for _, id := range []string{"alone", short, blog.LongID(short)} {
		t.Run(id, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorld(t)
				ada := w.AddUser("ada")
				content := longText(3000)
				if blog.IsLong(content) {
					t.Fatal("the text is long")
				}
				p, repaired := w.addAlone(ada, id, content), w.addAlone(ada, id[:len(id)-1]+"x", content)
				defer w.Start()()
				testkit.Until(t, w.CaughtUp)
				w.hasContent(p.ID, content)
				w.AddLike(ada, p)
				w.AddLike(ada, repaired)
				title := "edited"
				if edited, err := w.EditPost(t.Context(), ada.UserID, p.ID,
					store.PostEdit{Title: &title}); err != nil || edited.Title != title {
					t.Fatalf("%+.300v %v", edited, err)
				}
				w.hasContent(p.ID, content)
				content2 := content + " edited"
				if edited, err := w.EditPost(t.Context(), ada.UserID, p.ID,
					store.PostEdit{Content: &content2}); err != nil || edited.Content != content2 {
					t.Fatalf("%+.300v %v", edited, err)
				}
				w.hasContent(p.ID, content2)
				if w.text(p.ID) != nil {
					t.Error("the edit has not moved the text")
				}
				testkit.Until(t, w.CaughtUp)
				found := w.Differences(0)
				if len(found) != 1 || found[0].ID != repaired.ID || found[0].Kind != projection.Text ||
					found[0].Want != "on the post" {
					t.Fatalf("got the differences %+v, want the text of %s", found, repaired.ID)
				}
				if err := w.Views().Repair(t.Context(), found[0]); err != nil {
					t.Fatal(err)
				}
				w.hasContent(repaired.ID, content)
				if w.text(repaired.ID) != nil {
					t.Error("Repair has not moved the text")
				}
				testkit.Until(t, w.CaughtUp)
				for _, d := range w.Differences(0) { // the summaries get the reading time, too
					if d.ID != repaired.ID || d.Kind == projection.Text {
						t.Errorf("%+v", d)
					}
					if err := w.Views().Repair(t.Context(), d); err != nil {
						t.Error(err)
					}
				}
				if found := w.Differences(0); found != nil {
					t.Errorf("%+v", found)
				}
				if got, err := w.Post(t.Context(), repaired.ID); err != nil || got.LikeCount != 1 {
					t.Errorf("%+.300v %v", got, err)
				}
			})
		})
	}
}
