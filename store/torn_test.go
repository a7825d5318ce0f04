package store_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
)

// torn is the beginning of a body whose connection broke.
type torn struct{ io.Reader }

func (t torn) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (torn) Close() error { return nil }

// TestTornResponses: an answer that is cut off is asked for again, if it is of a read; of a write
// the Store finds out what became of it.
func TestTornResponses(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		anna := w.AddUser("anna")
		post := w.AddPost(anna, "first")
		var tries atomic.Int32
		var of atomic.Value // the method and the end of the path of what is cut off, once
		of.Store("")
		w.Wire.After(func(r *http.Response) {
			method, end, _ := strings.Cut(of.Load().(string), " ")
			if method == "" || r.Request.Method != method || !strings.HasSuffix(r.Request.URL.Path, end) {
				return
			}
			if tries.Add(1) == 1 {
				b, _ := io.ReadAll(r.Body)
				r.Body = torn{bytes.NewReader(b[:len(b)/2])}
			}
		})
		for name, tt := range map[string]struct {
			of string
			do func() (any, error)
		}{
			"item":  {"GET /docs/" + anna.ID, func() (any, error) { return w.User(t.Context(), anna.ID) }},
			"list":  {"POST /feed/docs", func() (any, error) { return w.Feed(t.Context(), store.Paging{First: 5}) }},
			"write": {"POST /posts/docs", func() (any, error) { _, p, err := w.LikePost(t.Context(), anna.ID, post.ID); return p, err }},
		} {
			of.Store(tt.of)
			tries.Store(0)
			got, err := tt.do()
			if err != nil || tries.Load() == 0 {
				t.Errorf("%s, %d tries: %v, %v", name, tries.Load(), got, err)
			}
		}
		if p, err := w.Post(t.Context(), post.ID); err != nil || p.LikeCount != 1 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestDatabaseCalledDocs: a name is a name.
func TestDatabaseCalledDocs(t *testing.T) {
	cosmostest.NeedsEngine(t, "a database of that name, which an account may have for something else")
	w := newWorld(t)
	s, err := store.New(w.Account, store.Options{Database: "docs", Clock: w.Clock.Now})
	if err == nil {
		err = s.Provision(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	anna := blog.UserID("test", "a")
	if _, err := s.CreateUser(t.Context(), store.NewUser{ID: anna, Username: "anna"}); err != nil {
		t.Error(err)
	}
	if _, err := s.CreatePost(t.Context(), store.NewPost{AuthorID: anna, Title: "a", Content: "b"}); err != nil {
		t.Error(err)
	}
	if _, err := s.Feed(t.Context(), store.Paging{First: 1}); err != nil {
		t.Error(err)
	}
}
