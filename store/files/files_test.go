package files_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/files"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// place is a kind of Files, with what a test needs to know of it.
type place struct {
	*files.Files
	t      *testing.T
	root   string       // of this server, for relative URLs
	client *http.Client // that reaches uploads and files
	clock  *clock
	left   func() []string // names of all blobs, of every place
}

// clock is a clock that a test turns.
type clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newFolder returns a folder that a server of its own serves.
func newFolder(t *testing.T, o files.Options) *place {
	t.Helper()
	p := &place{t: t, client: http.DefaultClient, clock: &clock{now: time.Now()}}
	dir := t.TempDir()
	o.Clock, o.Logger = p.clock.Now, testkit.Logger()
	var err error
	if p.Files, err = files.NewFolder(dir, o); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p.Files)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	p.root = server.URL
	p.left = func() (names []string) {
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, filepath.Base(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	return p
}

// send sends the request of an upload, changed by change if it is not nil, and returns the status.
func (p *place) send(u *files.Upload, content []byte, change func(*http.Request)) int {
	p.t.Helper()
	url := u.URL
	if strings.HasPrefix(url, "/") {
		url = p.root + url
	}
	r, err := http.NewRequest(u.Method, url, bytes.NewReader(content))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, h := range u.Headers {
		r.Header.Set(h.Name, h.Value)
	}
	if change != nil {
		change(r)
	}
	response, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// create is CreateUpload for ada; an error ends the test.
func (p *place) create(contentType string, size int) *files.Upload {
	p.t.Helper()
	u, err := p.CreateUpload(p.t.Context(), "ada", contentType, int64(size))
	if err != nil {
		p.t.Fatal(err)
	}
	return u
}

// upload creates and sends an upload of ada; an error ends the test.
func (p *place) upload(contentType string, content []byte) blog.FileID {
	p.t.Helper()
	u := p.create(contentType, len(content))
	if status := p.send(u, content, nil); status != http.StatusCreated {
		p.t.Fatalf("upload: status %d", status)
	}
	return u.ID
}

// publish is Publish for ada, of what must be a picture of 20 x 10 pixels.
func (p *place) publish(id blog.FileID) {
	p.t.Helper()
	if got, err := p.Publish(p.t.Context(), "ada", id); err != nil || got != (files.Picture{Width: 20, Height: 10}) {
		p.t.Fatalf("publish: %v, %v", got, err)
	}
}

// get reads a file as a browser does.
func (p *place) get(id blog.FileID) (*http.Response, []byte) {
	p.t.Helper()
	r, err := p.client.Get(p.root + id.Path())
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return r, content
}

// wantLeft fails the test unless exactly these blobs exist.
func (p *place) wantLeft(ids ...blog.FileID) {
	p.t.Helper()
	left := map[string]bool{}
	for _, name := range p.left() {
		left[name] = true
	}
	for _, id := range ids {
		if !left[string(id)] {
			p.t.Errorf("%s is missing", id)
		}
		delete(left, string(id))
	}
	if len(left) > 0 {
		p.t.Errorf("left behind: %v", left)
	}
}

// wantError fails the test unless an error has a code, a reason and a field.
// find returns those of the files that exist.
func (p *place) find(ids ...blog.FileID) []files.File {
	p.t.Helper()
	found, err := p.Find(p.t.Context(), ids...)
	if err != nil {
		p.t.Fatal(err)
	}
	return found
}

func wantError(t *testing.T, err error, code blog.Code, reason blog.Reason, field string) {
	t.Helper()
	e, ok := err.(*blog.Error)
	if !ok || e.Code != code || e.Reason != reason || e.Field != field || e.Op == "" {
		t.Errorf("%v; want %s, %s, %q", err, code, reason, field)
	}
}

// picture returns a picture of 20 x 10 pixels of testdata.
func picture(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile("testdata/pictures/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// pictures are the names of pictures by content type.
var pictures = map[string]string{"image/png": "picture.png", "image/jpeg": "picture.jpg", "image/gif": "picture.gif",
	"image/webp": "picture.webp", "image/avif": "picture.avif"}

func TestFiles(t *testing.T) {
	for _, tt := range filesTests {
		t.Run(tt.name, func(t *testing.T) { tt.test(newFolder(t, tt.options)) })
	}
}

// filesTests are the tests of every kind of Files.
var filesTests = []struct {
	name    string
	options files.Options
	test    func(*place)
}{
	{"every type", files.Options{}, func(p *place) {
		for contentType, name := range pictures {
			content := picture(p.t, name)
			id := p.upload(contentType, content)
			p.wantLeft(id)
			if r, _ := p.get(id); r.StatusCode != http.StatusNotFound {
				p.t.Errorf("%s is public before it is published", contentType)
			}
			p.publish(id)
			p.publish(id) // again
			p.wantLeft(id)
			r, got := p.get(id)
			if !bytes.Equal(got, content) || r.Header.Get("Content-Type") != contentType ||
				r.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
				p.t.Errorf("%s: %d bytes, %v", contentType, len(got), r.Header)
			}
			missing, _ := blog.NewFileID("ada", contentType, 1, [10]byte{9})
			found := p.find(id, missing)
			if len(found) != 1 || found[0].ID != id {
				p.t.Fatal(found)
			}
			used := files.File{ID: id, Date: found[0].Date.Add(-time.Minute)}
			if n, err := p.Delete(p.t.Context(), used); n != 0 || err != nil {
				p.t.Errorf("%d deleted that have been used since, %v", n, err)
			}
			p.wantLeft(id)
			n, err := p.Delete(p.t.Context(), found[0], files.File{ID: missing})
			if n != 1 || err != nil {
				p.t.Errorf("%d deleted, %v", n, err)
			}
			if _, err := p.Publish(p.t.Context(), "ada", id); blog.CodeOf(err) != blog.NotFound {
				p.t.Errorf("a deleted file is published: %v", err)
			}
			if r, _ := p.get(id); r.StatusCode != http.StatusNotFound {
				p.t.Errorf("%s can be read when it is deleted", contentType)
			}
			p.wantLeft()
		}
	}},
	{"published concurrently", files.Options{}, func(p *place) {
		id := p.upload("image/png", picture(p.t, "picture.png"))
		var all errgroup.Group
		for range 10 {
			all.Go(func() error {
				got, err := p.Publish(p.t.Context(), "ada", id)
				if err == nil && got != (files.Picture{Width: 20, Height: 10}) {
					return fmt.Errorf("%v", got)
				}
				return err
			})
		}
		if err := all.Wait(); err != nil {
			p.t.Error(err)
		}
		p.wantLeft(id)
	}},
	{"not uploaded", files.Options{}, func(p *place) {
		u := p.create("image/png", 10)
		for _, id := range []blog.FileID{u.ID, "", "x", "ada/../x"} {
			_, err := p.Publish(p.t.Context(), "ada", id)
			wantError(p.t, err, blog.NotFound, "", "")
		}
		p.wantLeft()
	}},
	{"another user's", files.Options{}, func(p *place) {
		id := p.upload("image/png", picture(p.t, "picture.png"))
		_, err := p.Publish(p.t.Context(), "eve", id)
		wantError(p.t, err, blog.Forbidden, blog.ReasonNotYours, "")
		p.publish(id)
		_, err = p.Publish(p.t.Context(), "eve", id)
		wantError(p.t, err, blog.Forbidden, blog.ReasonNotYours, "")
	}},
	{"bytes of another type", files.Options{}, func(p *place) {
		p.refused("image/png", picture(p.t, "picture.gif"), blog.ReasonMismatch)
		p.refused("image/png", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`),
			blog.ReasonMismatch)
		p.refused("image/gif", []byte(`<!DOCTYPE html><script>alert(1)</script>`), blog.ReasonMismatch)
	}},
	{"truncated", files.Options{}, func(p *place) {
		p.refused("image/png", picture(p.t, "picture.png")[:20], blog.ReasonFormat)
	}},
	{"bomb", files.Options{}, func(p *place) { p.refused("image/png", files.Bomb(p.t), blog.ReasonRange) }},
	{"type and size of uploads", files.Options{}, func(p *place) {
		for _, contentType := range []string{"", "image/svg+xml", "text/html", "image/PNG", "image/png; a=b"} {
			_, err := p.CreateUpload(p.t.Context(), "ada", contentType, 10)
			wantError(p.t, err, blog.Invalid, blog.ReasonFormat, "contentType")
		}
		for _, size := range []int64{-1, 0, blog.MaxFileSize + 1, 11_000_000} {
			_, err := p.CreateUpload(p.t.Context(), "ada", "image/png", size)
			wantError(p.t, err, blog.Invalid, blog.ReasonRange, "size")
		}
		p.wantLeft()
	}},
	{"URL used twice", files.Options{}, func(p *place) {
		content := picture(p.t, "picture.png")
		u := p.create("image/png", len(content))
		if status := p.send(u, content, nil); status != http.StatusCreated {
			p.t.Fatal(status)
		}
		other := bytes.Repeat([]byte("x"), len(content))
		for _, change := range []func(*http.Request){nil, func(r *http.Request) { r.Header.Del("If-None-Match") }} {
			if status := p.send(u, other, change); status < 400 {
				p.t.Errorf("second use: %d", status)
			}
		}
		p.publish(u.ID)
		p.send(u, other, nil) // does not matter
		p.publish(u.ID)
		if _, got := p.get(u.ID); !bytes.Equal(got, content) {
			p.t.Error("a published file has been replaced")
		}
	}},
	{"URL expired", files.Options{}, func(p *place) {
		p.clock.Advance(-11 * time.Minute)
		u := p.create("image/png", 10)
		p.clock.Advance(11 * time.Minute)
		if want := blog.NewDate(p.clock.Now().Add(-time.Minute)); u.ExpiresAt != want {
			p.t.Errorf("expires at %s, want %s", u.ExpiresAt, want)
		}
		if status := p.send(u, make([]byte, 10), nil); status != http.StatusForbidden {
			p.t.Error(status)
		}
		p.wantLeft()
	}},
	{"URL for another upload", files.Options{}, func(p *place) {
		mine, other := p.create("image/png", 10), p.create("image/png", 10)
		status := p.send(mine, make([]byte, 10), func(r *http.Request) {
			r.URL.Path = strings.ReplaceAll(r.URL.Path, string(mine.ID), string(other.ID))
		})
		if status != http.StatusForbidden {
			p.t.Error(status)
		}
		p.wantLeft()
	}},
	{"other methods", files.Options{}, func(p *place) {
		content := picture(p.t, "picture.png")
		u := p.create("image/png", len(content))
		if status := p.send(u, content, nil); status != http.StatusCreated {
			p.t.Fatal(status)
		}
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "PATCH"} {
			if status := p.send(u, nil, func(r *http.Request) { r.Method = method }); status < 400 {
				p.t.Errorf("%s: %d", method, status)
			}
		}
		p.publish(u.ID)
	}},
	{"quota", files.Options{Quota: 1000}, func(p *place) {
		content := append(picture(p.t, "picture.png"), make([]byte, 300)...)
		a, b := p.upload("image/png", content), p.upload("image/png", content)
		p.publish(a)
		p.create("image/png", 1000-2*len(content)) // pending
		_, err := p.CreateUpload(p.t.Context(), "ada", "image/png", 1)
		wantError(p.t, err, blog.LimitReached, blog.ReasonFull, "")
		if _, err := p.CreateUpload(p.t.Context(), "bob", "image/png", 600); err != nil {
			p.t.Error(err)
		}
		_, err = p.CreateUpload(p.t.Context(), "bob", "image/png", 401)
		wantError(p.t, err, blog.LimitReached, blog.ReasonFull, "")
		if _, err := p.CreateUpload(p.t.Context(), "bob", "image/png", 400); err != nil { // what was refused does not count
			p.t.Error(err)
		}
		p.clock.Advance(10 * time.Minute) // what was pending has expired
		p.create("image/png", 1000-2*len(content))
		p.clock.Advance(10 * time.Minute)
		if n, err := p.Delete(p.t.Context(), files.File{ID: a}); n != 1 || err != nil {
			p.t.Error(n, err)
		}
		p.create("image/png", 1000-len(content))
		p.wantLeft(b)
	}},
	{"rate", files.Options{}, func(p *place) {
		for range 100 {
			p.create("image/png", 10)
		}
		until := blog.NewDate(p.clock.Now().Add(time.Hour))
		p.clock.Advance(59 * time.Minute)
		_, err := p.CreateUpload(p.t.Context(), "ada", "image/png", 10)
		wantError(p.t, err, blog.LimitReached, blog.ReasonLimit, "")
		if e := err.(*blog.Error); e.Until != until {
			p.t.Errorf("until %s, want %s", e.Until, until)
		}
		if _, err := p.CreateUpload(p.t.Context(), "bob", "image/png", 10); err != nil {
			p.t.Error(err)
		}
		p.clock.Advance(time.Minute)
		p.create("image/png", 10)
	}},
	{"lists and deletions", files.Options{}, func(p *place) {
		content := picture(p.t, "picture.png")
		var mine []blog.FileID
		for range 3 {
			id := p.upload("image/png", content)
			p.publish(id)
			mine = append(mine, id)
		}
		waiting := p.upload("image/png", content)
		ctx := p.t.Context()
		u, err := p.CreateUpload(ctx, "ada2", "image/png", int64(len(content))) // ada's id is the beginning of hers
		if err != nil {
			p.t.Fatal(err)
		}
		if status := p.send(u, content, nil); status != http.StatusCreated {
			p.t.Fatal(status)
		}
		if _, err := p.Publish(ctx, "ada2", u.ID); err != nil {
			p.t.Fatal(err)
		}
		var all []blog.FileID
		var last blog.FileID
		for {
			page, err := p.Page(ctx, last)
			if err != nil {
				p.t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, f := range page {
				if f.ID <= last || time.Since(f.Date).Abs() > time.Minute {
					p.t.Errorf("%s of %v after %s", f.ID, f.Date, last)
				}
				all, last = append(all, f.ID), f.ID
			}
		}
		if len(all) != 4 {
			p.t.Errorf("%v", all)
		}
		after, err := p.Page(ctx, all[1])
		if err != nil || len(after) != 2 || after[0].ID != all[2] {
			p.t.Errorf("%v, %v; want %v", after, err, all[2:])
		}
		if of, err := p.OfUser(ctx, "ada"); err != nil || len(of) != 3 {
			p.t.Errorf("%v, %v", of, err)
		}
		if n, err := p.DeleteUploads(ctx, time.Now().Add(-time.Minute)); n != 0 || err != nil {
			p.t.Errorf("%d deleted, %v", n, err)
		}
		p.wantLeft(append(mine, waiting, u.ID)...)
		if n, err := p.DeleteUploads(ctx, time.Now().Add(time.Minute)); n != 1 || err != nil {
			p.t.Errorf("%d deleted, %v", n, err)
		}
		p.wantLeft(append(mine, u.ID)...)
		p.upload("image/png", content)
		if n, err := p.DeleteUser(ctx, "ada", time.Now().Add(-time.Minute)); n != 0 || err != nil {
			p.t.Errorf("%d deleted that are newer, %v", n, err)
		}
		for _, want := range []int{4, 0} {
			if n, err := p.DeleteUser(ctx, "ada", time.Now().Add(time.Minute)); n != want || err != nil {
				p.t.Errorf("%d deleted, %v; want %d", n, err, want)
			}
		}
		p.wantLeft(u.ID)
	}},
	{"canceled", files.Options{}, func(p *place) {
		ctx, cancel := context.WithCancel(p.t.Context())
		cancel()
		_, err := p.Page(ctx, "")
		wantError(p.t, err, blog.Canceled, "", "")
	}},
	{"memory", files.Options{}, testMemory},
}

// testMemory: no upload is held in memory, neither while it is sent nor when it is published.
func testMemory(p *place) {
	const (
		parallel = 20
		limit    = 1 << 20 // bytes allocated for an upload, by its client, too
	)
	content := append(picture(p.t, "picture.png"), make([]byte, blog.MaxFileSize-200)...)
	uploads := make([]*files.Upload, parallel)
	for i := range uploads {
		uploads[i] = p.create("image/png", len(content))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var all errgroup.Group
	for _, u := range uploads {
		all.Go(func() error {
			if status := p.send(u, content, nil); status != http.StatusCreated {
				return fmt.Errorf("status %d", status)
			}
			_, err := p.Publish(p.t.Context(), "ada", u.ID)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		p.t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / parallel
	p.t.Logf("%d kB allocated for each upload", each>>10)
	if each > limit {
		p.t.Errorf("%d kB allocated for each upload of %d MB, want at most %d", each>>10, len(content)/1_000_000, limit>>10)
	}
}

// refused uploads bytes, and fails the test if they can be published, or leave something behind.
func (p *place) refused(contentType string, content []byte, reason blog.Reason) {
	p.t.Helper()
	id := p.upload(contentType, content)
	_, err := p.Publish(p.t.Context(), "ada", id)
	wantError(p.t, err, blog.Invalid, reason, "")
	_, err = p.Publish(p.t.Context(), "ada", id)
	wantError(p.t, err, blog.NotFound, "", "")
	if r, _ := p.get(id); r.StatusCode != http.StatusNotFound {
		p.t.Errorf("status %d of a file that is refused", r.StatusCode)
	}
	p.wantLeft()
}
