package files_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"byline/store/blog"
	"byline/store/files"
)

const blobEndpoint = "https://byline.blob.core.windows.net"

func TestBlobs_Redirect(t *testing.T) {
	id, _ := blog.NewFileID("ada", "image/png", 10, [10]byte{})
	for _, tt := range []struct{ endpoint, url, want string }{
		{blobEndpoint, "", blobEndpoint + "/files/"},
		{blobEndpoint + "/", "https://cdn.example/pictures/", "https://cdn.example/pictures/"},
	} {
		f, err := files.NewBlobs(tt.endpoint, token{}, files.Options{URL: tt.url})
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{"GET", "HEAD"} {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(method, id.Path(), nil))
			if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != tt.want+string(id) ||
				w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
				t.Error(method, w.Code, w.Header())
			}
		}
		for path, method := range map[string]string{"/files/x": "GET", "/uploads/" + string(id): "PUT"} {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != http.StatusNotFound || w.Header().Get("Cache-Control") != "no-store" {
				t.Error(path, w.Code, w.Header())
			}
		}
	}
}

// transport sends requests by a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) Do(r *http.Request) (*http.Response, error) { return f(r) }

// respond returns a transport whose responses have a status.
func respond(status int) transport {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))},
			nil
	}
}

func TestBlobs_Errors(t *testing.T) {
	for name, tt := range map[string]struct {
		transport  transport
		credential token
		want       blog.Code
	}{
		"no connection": {func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }, token{},
			blog.Unavailable},
		"no token":  {respond(200), token{errors.New("no identity")}, blog.Unavailable},
		"busy":      {respond(503), token{}, blog.Unavailable},
		"throttled": {respond(429), token{}, blog.Unavailable},
		"forbidden": {respond(403), token{}, blog.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the pauses between retries
				requests := 0
				f, err := files.NewBlobs(blobEndpoint, tt.credential, files.Options{
					Transport: transport(func(r *http.Request) (*http.Response, error) {
						requests++
						return tt.transport(r)
					})})
				if err != nil {
					t.Fatal(err)
				}
				id, _ := blog.NewFileID("ada", "image/png", 10, [10]byte{})
				for operation, call := range map[string]func() error{
					"create upload":          func() error { _, err := f.CreateUpload(t.Context(), "ada", "image/png", 10); return err },
					"publish file":           func() error { _, err := f.Publish(t.Context(), "ada", id); return err },
					"list files":             func() error { _, err := f.Page(t.Context(), ""); return err },
					"list files of a user":   func() error { _, err := f.OfUser(t.Context(), "ada"); return err },
					"delete files":           func() error { _, err := f.Delete(t.Context(), files.File{ID: id}); return err },
					"delete files of a user": func() error { _, err := f.DeleteUser(t.Context(), "ada", time.Now()); return err },
				} {
					requests = 0
					err := call()
					wantError(t, err, tt.want, "", "")
					if e, ok := err.(*blog.Error); !ok || e.Op != operation {
						t.Errorf("%s: %v", operation, err)
					}
					if requests > 3 {
						t.Errorf("%s: %d requests", operation, requests)
					}
				}
			})
		})
	}
}
