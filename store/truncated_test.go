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

// truncatedBody is a body whose connection breaks at the end of the Reader.
type truncatedBody struct{ io.Reader }

func (t truncatedBody) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (truncatedBody) Close() error { return nil }

// A read with a truncated response is repeated. After a write with one, the store reads the outcome.
func TestTruncatedResponses(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		post := w.AddPost(ada, "first")
		var tries atomic.Int32
		var of atomic.Value // the method and the end of the path of the response to truncate once
		of.Store("")
		w.Wire.After(func(r *http.Response) {
			method, end, _ := strings.Cut(of.Load().(string), " ")
			if method == "" || r.Request.Method != method || !strings.HasSuffix(r.Request.URL.Path, end) {
				return
			}
			if tries.Add(1) == 1 {
				b, _ := io.ReadAll(r.Body)
				r.Body = truncatedBody{bytes.NewReader(b[:len(b)/2])}
			}
		})
		for name, tt := range map[string]struct {
			of string
			do func() (any, error)
		}{
			"item": {"GET /docs/" + ada.UserID, func() (any, error) { return w.User(t.Context(), ada.UserID) }},
			"list": {"POST /feed/docs", func() (any, error) { return w.Feed(t.Context(), store.Paging{First: 5}) }},
			"write": {"POST /posts/docs", func() (any, error) {
				_, p, err := w.LikePost(t.Context(), ada.UserID, post.ID)
				return p, err
			}},
		} {
			of.Store(tt.of)
			tries.Store(0)
			got, err := tt.do()
			if err != nil || tries.Load() == 0 {
				t.Errorf("%s: got %v, %v after %d requests", name, got, err, tries.Load())
			}
		}
		if p, err := w.Post(t.Context(), post.ID); err != nil || p.LikeCount != 1 {
			t.Errorf("got %+v, %v, want one like", p, err)
		}
	})
}

// A database can be named like the docs segment of Cosmos DB's paths.
func TestStore_DatabaseNamedDocs(t *testing.T) {
	cosmostest.NeedsEngine(t, "a database of that name, which an account may have for something else")
	w := newWorld(t)
	s, err := store.New(w.Account, store.Options{Database: "docs", Clock: w.Clock.Now})
	if err == nil {
		err = s.Provision(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	ada := blog.UserID("test", "a")
	if _, err := s.CreateUser(t.Context(), store.NewUser{ID: ada, Username: "ada"}); err != nil {
		t.Error(err)
	}
	if _, err := s.CreatePost(t.Context(), store.NewPost{AuthorID: ada, Title: "a", Content: "b"}); err != nil {
		t.Error(err)
	}
	if _, err := s.Feed(t.Context(), store.Paging{First: 1}); err != nil {
		t.Error(err)
	}
}
