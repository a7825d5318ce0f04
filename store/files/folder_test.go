package files_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"byline/store/blog"
	"byline/store/files"
)

func TestFolder_Requests(t *testing.T) {
	p := newFolder(t, files.Options{})
	content := picture(t, "picture.png")
	u := p.create("image/png", len(content))
	for name, tt := range map[string]struct {
		change func(*http.Request)
		body   []byte
		status int
	}{
		"no signature":       {func(r *http.Request) { r.URL.RawQuery = "" }, content, 403},
		"later expiry":       {func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "expires=", "expires=9", 1) }, content, 403},
		"another type":       {func(r *http.Request) { r.Header.Set("Content-Type", "text/html") }, content, 415},
		"no type":            {func(r *http.Request) { r.Header.Del("Content-Type") }, content, 415},
		"longer":             {nil, append(slices.Clone(content), 0), 400},
		"shorter":            {nil, content[1:], 400},
		"unknown length":     {func(r *http.Request) { r.ContentLength = -1 }, content, 411},
		"invalid id":         {func(r *http.Request) { r.URL.Path = "/uploads/../files/x" }, content, 404},
		"path within the id": {func(r *http.Request) { r.URL.Path += "/x" }, content, 404},
	} {
		t.Run(name, func(t *testing.T) {
			if status := p.send(u, tt.body, tt.change); status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			p.wantLeft()
		})
	}
	if status := p.send(u, content, nil); status != http.StatusCreated {
		t.Error(status)
	}
}

// TestFolder_Interrupted: of an upload that ends early nothing is left, and it can be sent again.
func TestFolder_Interrupted(t *testing.T) {
	p := newFolder(t, files.Options{})
	content := picture(t, "picture.png")
	u := p.create("image/png", len(content))
	r := httptest.NewRequest(u.Method, u.URL, io.MultiReader(bytes.NewReader(content[:9]), broken{}))
	r.Header.Set("Content-Type", "image/png")
	r.ContentLength = int64(len(content))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	const want = `{"error":{"code":"INVALID","message":"the upload ended before its last byte"}}` + "\n"
	if got := w.Body.String(); w.Code != http.StatusBadRequest || got != want ||
		w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Error(w.Code, got, w.Header())
	}
	p.wantLeft()
	if status := p.send(u, content, nil); status != http.StatusCreated {
		t.Error(status)
	}
}

// broken is a connection that ends.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestFolder_SentTwiceAtOnce: while an upload arrives, others with its address are refused.
func TestFolder_SentTwiceAtOnce(t *testing.T) {
	p := newFolder(t, files.Options{})
	content := picture(t, "picture.png")
	u := p.create("image/png", len(content))
	body, client := io.Pipe()
	sent := make(chan int)
	go func() {
		r := httptest.NewRequest(u.Method, u.URL, body)
		r.Header.Set("Content-Type", "image/png")
		r.ContentLength = int64(len(content))
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		sent <- w.Code
	}()
	if _, err := client.Write(content[:9]); err != nil { // returns when they are read
		t.Fatal(err)
	}
	if status := p.send(u, content, nil); status != http.StatusConflict {
		t.Errorf("status %d", status)
	}
	if _, err := client.Write(content[9:]); err != nil {
		t.Fatal(err)
	}
	if status := <-sent; status != http.StatusCreated {
		t.Errorf("status %d", status)
	}
	p.publish(u.ID)
}

// TestNewFolder_RemovesPartial: what a killed process has left is removed, and uploads that have arrived are not.
func TestNewFolder_RemovesPartial(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "partial", "123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	content := picture(t, "picture.png")
	id, _ := blog.NewFileID("ada", "image/png", int64(len(content)), [10]byte{})
	for _, name := range []string{string(id), "other.txt"} {
		if err := os.MkdirAll(filepath.Join(dir, "uploads"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "uploads", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := files.NewFolder(dir, files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "partial", "123")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if _, err := f.Publish(t.Context(), "ada", id); err != nil {
		t.Error(err)
	}
}

func TestFolder_Get(t *testing.T) {
	p := newFolder(t, files.Options{URL: "https://ignored.example"})
	content := picture(t, "picture.png")
	id := p.upload("image/png", content)
	p.publish(id)
	do := func(method, path string, headers ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, p.root+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response, string(body)
	}
	for name, tt := range map[string]struct {
		method, path string
		headers      []string
		status       int
		body         string
	}{
		"all":              {"GET", id.Path(), nil, 200, string(content)},
		"head":             {"HEAD", id.Path(), nil, 200, ""},
		"range":            {"GET", id.Path(), []string{"Range", "bytes=1-3"}, 206, "PNG"},
		"not changed":      {"GET", id.Path(), []string{"If-None-Match", `"` + string(id) + `"`}, 304, ""},
		"range of another": {"GET", id.Path(), []string{"Range", "bytes=1-3", "If-Range", `"x"`}, 200, string(content)},
	} {
		r, body := do(tt.method, tt.path, tt.headers...)
		if r.StatusCode != tt.status || body != tt.body {
			t.Errorf("%s: %d, %q", name, r.StatusCode, body)
		}
		for header, want := range map[string]string{"Cache-Control": "public, max-age=31536000, immutable",
			"ETag": `"` + string(id) + `"`, "X-Content-Type-Options": "nosniff",
			"Content-Security-Policy":      "default-src 'none'; sandbox",
			"Cross-Origin-Resource-Policy": "cross-origin"} {
			if got := r.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
		if got := r.Header.Get("Content-Type"); got != "image/png" && tt.status != 304 {
			t.Errorf("%s: Content-Type is %q", name, got)
		}
	}
	other, _ := blog.NewFileID("ada", "image/png", 10, [10]byte{})
	for path, status := range map[string]int{other.Path(): 404, "/files/": 404, "/files/x.png": 404,
		"/files/" + string(id) + "/": 404, "/files/..%2fuploads%2f" + string(id): 404} {
		if r, _ := do("GET", path); r.StatusCode != status || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", path, r.StatusCode, r.Header)
		}
	}
	for _, method := range []string{"PUT", "POST", "DELETE", "OPTIONS"} {
		if r, _ := do(method, id.Path()); r.StatusCode != 405 {
			t.Errorf("%s: %d", method, r.StatusCode)
		}
	}
}

func TestFolder_Preflight(t *testing.T) {
	p := newFolder(t, files.Options{})
	u := p.create("image/png", 10)
	r := httptest.NewRequest("OPTIONS", u.URL, nil)
	r.Header.Set("Origin", "https://app.example")
	r.Header.Set("Access-Control-Request-Method", "PUT")
	r.Header.Set("Access-Control-Request-Headers", "content-type")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != 204 || w.Header().Get("Access-Control-Allow-Origin") != "*" ||
		w.Header().Get("Access-Control-Allow-Methods") != "PUT" ||
		w.Header().Get("Access-Control-Allow-Headers") != "Content-Type" {
		t.Error(w.Code, w.Header())
	}
	r = httptest.NewRequest("PUT", u.URL, bytes.NewReader(make([]byte, 10)))
	r.Header.Set("Content-Type", "image/png")
	w = httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != http.StatusCreated || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Error(w.Code, w.Header())
	}
}
