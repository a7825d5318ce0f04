package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/files"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// gallery is a world with files.
type gallery struct {
	*world
	files *files.Files
	dir   string
	ahead atomic.Int64 // how much later its clock is
}

func newGallery(t *testing.T) *gallery {
	g := &gallery{world: &world{storetest.New(t)}, dir: t.TempDir()}
	var err error
	if g.files, err = files.NewFolder(g.dir, files.Options{Clock: g.now}); err != nil {
		t.Fatal(err)
	}
	g.Store = g.instance(g.Wire, t.Context().Done())
	return g
}

func (g *gallery) now() time.Time { return time.Now().Add(time.Duration(g.ahead.Load())) }

// instance returns another instance, whose requests pass through a wire until done is closed.
func (g *gallery) instance(wire *storetest.Wire, done <-chan struct{}) *store.Store {
	g.T.Helper()
	account := g.NewAccount(cosmos.Options{Transport: wire, Done: done})
	s, err := store.New(account, store.Options{Database: g.Database, Clock: g.now, Instance: "test", Files: g.files,
		PollInterval: 10 * time.Millisecond, Logger: testkit.Logger()})
	if err != nil {
		g.T.Fatal(err)
	}
	return s
}

// upload uploads a picture of a width and a height of 2 pixels.
func (g *gallery) upload(u *blog.User, width int) blog.FileID {
	g.T.Helper()
	var content bytes.Buffer
	if err := png.Encode(&content, image.NewGray(image.Rect(0, 0, width, 2))); err != nil {
		g.T.Fatal(err)
	}
	upload, err := g.CreateUpload(g.T.Context(), u.UserID, "image/png", int64(content.Len()))
	if err != nil {
		g.T.Fatal(err)
	}
	r := httptest.NewRequest(upload.Method, upload.URL, &content)
	for _, h := range upload.Headers {
		r.Header.Set(h.Name, h.Value)
	}
	w := httptest.NewRecorder()
	if g.files.ServeHTTP(w, r); w.Code != http.StatusCreated {
		g.T.Fatal(w.Code, w.Body)
	}
	return upload.ID
}

// stored returns the files and uploads that there are, in order.
func (g *gallery) stored() (all []string) {
	for _, name := range []string{"files", "uploads"} {
		entries, err := os.ReadDir(filepath.Join(g.dir, name))
		if err != nil {
			g.T.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, name+"/"+e.Name())
		}
	}
	return all
}

// wantStored waits until there are exactly these public files, and no uploads.
func (g *gallery) wantStored(what string, ids ...blog.FileID) {
	g.T.Helper()
	var want []string
	for _, id := range ids {
		want = append(want, "files/"+string(id))
	}
	slices.Sort(want)
	testkit.Until(g.T, func() error {
		if got := g.stored(); !slices.Equal(got, want) {
			return fmt.Errorf("%s: there are %q, want %q", what, got, want)
		}
		return nil
	})
}

// sweep runs the sweep of a day later.
func (g *gallery) sweep() {
	g.T.Helper()
	g.ahead.Add(int64(25 * time.Hour))
	defer g.Start()()
	testkit.Until(g.T, func() error { // it is enqueued at the start
		if n := len(g.named("last.sweepFiles")); n == 0 {
			return errors.New("no sweep")
		}
		all, err := g.Views().Jobs(g.T.Context())
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%d jobs", len(all))
		}
		return err
	})
}

// named returns the item of the leases container that has an id, with the date of now.
func (g *gallery) named(id string) []byte {
	c, err := g.Account.Container(g.Database, blog.LeasesContainer)
	if err != nil {
		g.T.Fatal(err)
	}
	item, err := c.Read(g.T.Context(), cosmos.Key{Partition: id, ID: id})
	if err != nil {
		g.T.Fatal(err)
	}
	if date := string(blog.NewDate(g.now()))[:10]; !strings.Contains(string(item.Value), date) {
		return nil
	}
	return item.Value
}

func pictureOf(id blog.FileID) string { return "![a picture](" + id.Path() + ")" }

// A picture lives as long as a post, a draft or the user uses it.
func TestFiles_Life(t *testing.T) {
	g := newGallery(t)
	ada := g.AddUser("ada")
	stop := g.Start()
	cover, inText, other, unused, avatar, inDraft := g.upload(ada, 1), g.upload(ada, 2), g.upload(ada, 3),
		g.upload(ada, 4), g.upload(ada, 5), g.upload(ada, 6)
	p, err := g.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", CoverURL: cover.Path(),
		CoverAlt: "a line", Content: pictureOf(inText) + strings.Repeat(" long", 5000)})
	if err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func() *blog.Post{
		"the result": func() *blog.Post { return p },
		"the post": func() *blog.Post {
			p, err := g.Post(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		"the feed":           func() *blog.Post { return g.AllFeed()[0] },
		"the author's posts": func() *blog.Post { return g.AllUserPosts(ada)[0] },
	} {
		c := read().CoverImage()
		if c == nil || c.URL != cover.Path() || c.Alt != "a line" || c.Width == nil || *c.Width != 1 || *c.Height != 2 {
			t.Errorf("%s has the cover %+v", what, c)
		}
	}
	shared, err := g.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: pictureOf(inText)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.CreateDraft(t.Context(),
		store.NewPost{AuthorID: ada.UserID, Title: "d", Content: "c", CoverURL: inDraft.Path()}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.UpdateUser(t.Context(), ada.UserID,
		store.UserEdit{AvatarURL: store.Optional{Set: true, Value: avatar.Path()}}); err != nil {
		t.Fatal(err)
	}
	if got := g.stored(); len(got) != 6 || !slices.Contains(got, "uploads/"+string(unused)) ||
		!slices.Contains(got, "uploads/"+string(other)) {
		t.Errorf("after the first uses there are %q", got)
	}
	if p, err = g.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{CoverURL: new(other.Path())}); err != nil {
		t.Fatal(err)
	}
	if c := p.CoverImage(); c.URL != other.Path() || *c.Width != 3 || c.Alt != "a line" {
		t.Errorf("after the edit: %+v", c)
	}
	testkit.Until(t, g.CaughtUp)
	stop()
	g.sweep()
	g.wantStored("after a day, without what nothing uses", inText, other, avatar, inDraft)
	stop = g.Start()
	if err := g.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
		t.Fatal(err)
	}
	g.wantStored("after the deletion of the post", inText, avatar, inDraft)
	if err := g.DeletePost(t.Context(), ada.UserID, shared.ID); err != nil {
		t.Fatal(err)
	}
	g.wantStored("after the deletion of the other post with the picture", avatar, inDraft)
	if _, err := g.UpdateUser(t.Context(), ada.UserID,
		store.UserEdit{AvatarURL: store.Optional{Set: true}}); err != nil {
		t.Fatal(err)
	}
	stop()
	g.sweep()
	g.wantStored("a day after the avatar was removed", inDraft)
}

// What a post cannot use is refused, the post is not written, and nothing is left.
func TestFiles_Refused(t *testing.T) {
	g := newGallery(t)
	ada, bob := g.AddUser("ada"), g.AddUser("bob")
	p := g.AddPost(ada, "Post")
	ofBob := g.upload(bob, 1)
	never, _ := blog.NewFileID(ada.UserID, "image/png", 100, [10]byte{1})
	for name, tt := range map[string]struct {
		id   blog.FileID
		code blog.Code
	}{"another user's": {ofBob, blog.Forbidden}, "never uploaded": {never, blog.NotFound}} {
		create := func(cover, content string) error {
			_, err := g.CreatePost(t.Context(),
				store.NewPost{AuthorID: ada.UserID, Title: "t", CoverURL: cover, Content: content})
			return err
		}
		draft := func(cover, content string) error {
			_, err := g.CreateDraft(t.Context(),
				store.NewPost{AuthorID: ada.UserID, Title: "t", CoverURL: cover, Content: content})
			return err
		}
		edit := func(e store.PostEdit) error {
			_, err := g.EditPost(t.Context(), ada.UserID, p.ID, e)
			return err
		}
		_, avatarErr := g.UpdateUser(t.Context(), ada.UserID,
			store.UserEdit{AvatarURL: store.Optional{Set: true, Value: tt.id.Path()}})
		for field, errs := range map[string][]error{
			"coverImage": {create(tt.id.Path(), "c"), draft(tt.id.Path(), "c"),
				edit(store.PostEdit{CoverURL: new(tt.id.Path())})},
			"content": {create("", pictureOf(tt.id)), draft("", pictureOf(tt.id)),
				edit(store.PostEdit{Content: new(pictureOf(tt.id))})},
			"avatarUrl": {avatarErr},
		} {
			for i, err := range errs {
				var refused *blog.Error
				if !errors.As(err, &refused) || refused.Code != tt.code || refused.Field != field {
					t.Errorf("%s, %s, %d: %v", name, field, i, err)
				}
			}
		}
	}
	if posts := g.AllUserPosts(ada); len(posts) != 1 || posts[0].Version != 1 {
		t.Errorf("posts: %+v", posts)
	}
	if n, err := g.DraftCount(t.Context(), ada.UserID); n != 0 || err != nil {
		t.Errorf("%d drafts: %v", n, err)
	}
	if got := g.stored(); !slices.Equal(got, []string{"uploads/" + string(ofBob)}) {
		t.Errorf("there are %q", got)
	}
	many := ""
	for i := range blog.MaxFiles + 1 {
		id, _ := blog.NewFileID(ada.UserID, "image/png", int64(i+1), [10]byte{})
		many += pictureOf(id)
	}
	_, err := g.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: many})
	storetest.WantCode(t, err, blog.Invalid, "content")
}

// The instance that deletes a user with 300 files is killed ten times, at random requests. None of the user's files is
// left, and all of another user's. For kills between two files see TestFiles_Azurite.
func TestFiles_DeleteUser(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it stops instances")
	const n, kills = 300, 10
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := newGallery(t)
	ada, bob := g.AddUser("ada"), g.AddUser("bob")
	var ofBob []blog.FileID
	use := func(u *blog.User, i int) blog.FileID {
		if i%90 == 0 {
			g.ahead.Add(int64(time.Hour)) // the rate of uploads
		}
		id := g.upload(u, i+1)
		if _, err := g.CreatePost(t.Context(),
			store.NewPost{AuthorID: u.UserID, Title: "t", Content: "c", CoverURL: id.Path()}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	for i := range n {
		use(ada, i)
		if i%30 == 0 {
			ofBob = append(ofBob, use(bob, i))
		}
	}
	g.upload(ada, 1) // unused
	if err := g.DeleteUser(t.Context(), ada.UserID, ada.Username); err != nil {
		t.Fatal(err)
	}
	g.ahead.Add(int64(2 * blog.DeletionGrace)) // so that the job does not wait
	if got := len(g.stored()); got != n+1+len(ofBob) {
		t.Fatalf("%d files", got)
	}
	for range kills {
		killed := make(chan struct{})
		var left atomic.Int64
		left.Store(1 + random.Int64N(60))
		ctx, cancel := context.WithCancel(t.Context())
		wire := &storetest.Wire{To: g.Wire}
		wire.Intercept(func(*http.Request) error {
			n := left.Add(-1)
			if n == 0 {
				close(killed)
			}
			if n <= 0 {
				return errors.New("killed")
			}
			return nil
		})
		s := g.instance(wire, ctx.Done())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		testkit.Receive(t, killed)
		cancel()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
	}
	defer g.Start()()
	testkit.Until(t, func() error {
		u, err := g.User(t.Context(), ada.UserID)
		all, jobsErr := g.Views().Jobs(t.Context())
		if u != nil || len(all) > 0 {
			return errors.New("not deleted")
		}
		return errors.Join(err, jobsErr)
	})
	g.wantStored("after the deletion", ofBob...)
}

// An export ends with the user's files.
func TestExport_Files(t *testing.T) {
	g := newGallery(t)
	ada, bob := g.AddUser("ada"), g.AddUser("bob")
	cover, ofBob := g.upload(ada, 1), g.upload(bob, 2)
	for id, u := range map[blog.FileID]*blog.User{cover: ada, ofBob: bob} {
		if _, err := g.CreatePost(t.Context(),
			store.NewPost{AuthorID: u.UserID, Title: "t", Content: "c", CoverURL: id.Path()}); err != nil {
			t.Fatal(err)
		}
	}
	var last store.ExportPage
	for page, err := range g.Export(t.Context(), ada.UserID, "") {
		if err != nil {
			t.Fatal(err)
		}
		last = page
	}
	want := fmt.Sprintf(`{"id":%q,"path":%q,"contentType":"image/png","size":%d,`, cover, cover.Path(), cover.Size())
	if last.Container != "files" || len(last.Items) != 1 || !strings.HasPrefix(string(last.Items[0]), want) {
		t.Errorf("%s: %s, want %s", last.Container, last.Items, want)
	}
}

// A picture costs at most 3% more on every list and write of posts, an upload nothing, and no read needs the files.
func TestFiles_Costs(t *testing.T) {
	cosmostest.NeedsEngine(t, "it compares charges")
	with, without := chargesOf(t, true), chargesOf(t, false)
	for _, operation := range slices.Sorted(maps.Keys(without)) {
		got, plain := with[operation], without[operation]
		t.Logf("%-18s %7.2f RU, with a picture %7.2f: %.3f times", operation, plain, got, got/plain)
		if got > 1.03*plain {
			t.Errorf("%s costs %.3f times as much with a picture", operation, got/plain)
		}
	}
}

// chargesOf returns the RU of operations on 20 posts of one author and 20 drafts, with pictures or without.
func chargesOf(t *testing.T, pictures bool) map[string]float64 {
	const n = 20
	g, ru := newGallery(t), map[string]float64{}
	ada := g.AddUser("ada")
	charge := func(operation string, do func(context.Context) error) { ru[operation] += ruOf(t, do) }
	list := func(operation string, page func(context.Context, store.Paging) (*store.Page[*blog.Post], error)) {
		for range 2 { // the first one also reads what is cached
			ru[operation] = ruOf(t, func(ctx context.Context) error {
				p, err := page(ctx, store.Paging{First: n})
				if err == nil && len(p.Items) != n {
					err = fmt.Errorf("%s: %d posts", operation, len(p.Items))
				}
				return err
			})
		}
	}
	for range n {
		input := store.NewPost{AuthorID: ada.UserID, Title: "A title of average length, some 50 characters long",
			Content: longText(1350), Tags: []string{"tag"}}
		if pictures {
			if charged := ruOf(t, func(context.Context) error {
				input.CoverURL, input.CoverAlt = g.upload(ada, 1200).Path(), "Three boats in a harbour"
				return nil
			}); charged > 0 {
				t.Errorf("an upload: %.1f RU", charged)
			}
		}
		var p, d *blog.Post
		charge("create", func(ctx context.Context) (err error) {
			p, err = g.CreatePost(ctx, input)
			return err
		})
		charge("create a draft", func(ctx context.Context) (err error) {
			d, err = g.CreateDraft(ctx, input)
			return err
		})
		for name, id := range map[string]string{"edit": p.ID, "edit a draft": d.ID} {
			charge(name, func(ctx context.Context) error {
				_, err := g.EditPost(ctx, ada.UserID, id, store.PostEdit{Title: new("Another title of that length")})
				return err
			})
		}
		charge("like", func(ctx context.Context) error {
			_, _, err := g.LikePost(ctx, ada.UserID, p.ID)
			return err
		})
		charge("comment", func(ctx context.Context) error {
			_, _, err := g.CreateComment(ctx, store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "c"})
			return err
		})
		charge("read", func(ctx context.Context) error {
			_, err := g.Post(ctx, p.ID)
			return err
		})
	}
	if err := os.RemoveAll(g.dir); err != nil {
		t.Fatal(err)
	}
	list("list of an author", func(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
		return g.UserPosts(ctx, ada.UserID, p)
	})
	list("list of drafts", func(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
		return g.UserDrafts(ctx, ada.UserID, p)
	})
	list("list of a tag", func(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
		return g.TagPosts(ctx, &store.Tag{Name: "tag"}, p)
	})
	list("list of a month", func(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
		return g.Archive(ctx, g.AllUserPosts(ada)[0].CreatedAt.Month(), p)
	})
	list("feed", g.Feed)
	return ru
}

// after calls do after the first query that finds which files are used: that of posts or that of drafts.
func (g *gallery) after(query string, do func()) *storetest.Wire {
	wire := &storetest.Wire{To: g.Wire}
	var once sync.Once
	var asks sync.Map // whether a request is such a query
	wire.Intercept(func(r *http.Request) error {
		if r.Body == nil || r.Method != http.MethodPost {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		asks.Store(r, strings.Contains(string(body), "c.coverUrl") && strings.Contains(string(body), query))
		return err
	})
	wire.After(func(r *http.Response) {
		if is, _ := asks.Load(r.Request); is == true {
			once.Do(do)
		}
	})
	return wire
}

// A draft is published while a sweep reads what uses its picture.
func TestFiles_PublishedDuringSweep(t *testing.T) {
	g := newGallery(t)
	ada := g.AddUser("ada")
	for _, query := range []string{"c.filesOf", "@type"} {
		cover := g.upload(ada, 1)
		d, err := g.CreateDraft(t.Context(),
			store.NewPost{AuthorID: ada.UserID, Title: "d", Content: "c", CoverURL: cover.Path()})
		if err != nil {
			t.Fatal(err)
		}
		writer := g.Store
		g.Store = g.instance(g.after(query, func() {
			if _, err := writer.PublishPost(t.Context(), ada.UserID, d.ID); err != nil {
				t.Error(err)
			}
		}), t.Context().Done())
		g.sweep()
		g.Store = writer
		g.wantStored("a file of what was published after the query "+query, cover)
		if err := g.DeletePost(t.Context(), ada.UserID, d.ID); err != nil {
			t.Fatal(err)
		}
		g.ahead.Add(int64(2 * blog.MaxWriteTime))
		stop := g.Start()
		g.wantStored("after the deletion")
		stop()
	}
}

// A post uses a picture again while a job deletes it with another post.
func TestFiles_UsedDuringDeletion(t *testing.T) {
	g := newGallery(t)
	ada := g.AddUser("ada")
	cover := g.upload(ada, 1)
	n := store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", CoverURL: cover.Path()}
	p, err := g.CreatePost(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
		t.Fatal(err)
	}
	g.ahead.Add(int64(2 * blog.MaxWriteTime))
	writer, used := g.Store, make(chan struct{})
	g.Store = g.instance(g.after("c.filesOf", func() {
		defer close(used)
		if _, err := writer.CreatePost(t.Context(), n); err != nil {
			t.Error(err)
		}
	}), t.Context().Done())
	stop := g.Start()
	testkit.Receive(t, used)
	testkit.Until(t, func() error {
		all, err := writer.Views().Jobs(t.Context())
		if len(all) > 0 {
			g.ahead.Add(int64(blog.MaxWriteTime))
			err = errors.Join(err, fmt.Errorf("%d jobs", len(all)))
		}
		return err
	})
	stop()
	g.Store = writer
	g.wantStored("the picture of the other post", cover)
}

// A retry with an idempotency key returns the first post, or draft, although its picture was removed and is deleted.
func TestFiles_IdempotencyKey(t *testing.T) {
	g := newGallery(t)
	ada := g.AddUser("ada")
	for what, create := range map[string]func(context.Context, store.NewPost) (*blog.Post, error){
		"post": g.CreatePost, "draft": g.CreateDraft,
	} {
		n := store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", CoverURL: g.upload(ada, 1).Path(), Key: "k"}
		p, err := create(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := create(t.Context(), n); err != nil || again.ID != p.ID {
			t.Errorf("the same %s: %v, %v", what, again, err)
		}
		if _, err := g.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{CoverURL: new("")}); err != nil {
			t.Fatal(err)
		}
		g.sweep()
		g.wantStored("after a day")
		if again, err := create(t.Context(), n); err != nil || again.ID != p.ID {
			t.Errorf("the same %s a day later: %v, %v", what, again, err)
		}
	}
}

// An edit reads only files that the post has not used before, and the same picture is no change.
func TestFiles_Edit(t *testing.T) {
	g := newGallery(t)
	ada := g.AddUser("ada")
	cover, inText := g.upload(ada, 1), g.upload(ada, 2)
	n := store.NewPost{AuthorID: ada.UserID, Title: "t", Content: pictureOf(inText), CoverURL: cover.Path()}
	for what, create := range map[string]func(context.Context, store.NewPost) (*blog.Post, error){
		"post": g.CreatePost, "draft": g.CreateDraft,
	} {
		p, err := create(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(g.dir, "files"), filepath.Join(g.dir, "away")); err != nil {
			t.Fatal(err)
		}
		same, err := g.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{CoverURL: new(cover.Path())})
		if err != nil || same.Version != 1 || *same.CoverImage().Width != 1 {
			t.Errorf("%s with the same picture: %+v, %v", what, same, err)
		}
		edited, err := g.EditPost(t.Context(), ada.UserID, p.ID,
			store.PostEdit{Content: new(pictureOf(inText) + " more"), CoverURL: new(cover.Path())})
		if err != nil || edited.Version != 2 {
			t.Errorf("%s with another text: %+v, %v", what, edited, err)
		}
		if err := os.Rename(filepath.Join(g.dir, "away"), filepath.Join(g.dir, "files")); err != nil {
			t.Fatal(err)
		}
	}
}
