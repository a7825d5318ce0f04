package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store/blog"
)

const (
	createUpload = `mutation($type: String!, $size: Int!) { createUpload(input: {contentType: $type, size: $size}) {
		upload { id url method headers { name value } } } }`
	createPostWithCover = `mutation($upload: ID!) {
		createPost(input: {title: "t", content: "x", coverImage: {upload: $upload}}) {
			post { coverImage { url width height } } } }`
)

// pngOf returns a picture of 20 x 10 pixels in n bytes.
func pngOf(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 20, 10))); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), make([]byte, n-b.Len())...)
}

// newUpload creates an upload of ada, and returns its request.
func newUpload(t *testing.T, i *servertest.Instance, content []byte) (id string, r *http.Request) {
	t.Helper()
	u := at(t, i.Do("ada", createUpload, map[string]any{"type": "image/png", "size": len(content)}), "createUpload.upload")
	r, err := http.NewRequest(at(t, u, "method").(string), i.Root+at(t, u, "url").(string), bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range at(t, u, "headers").([]any) {
		r.Header.Set(at(t, h, "name").(string), at(t, h, "value").(string))
	}
	return at(t, u, "id").(string), r
}

// status sends a request, and returns the status and the body.
func status(t *testing.T, r *http.Request) (int, []byte) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// getFile reads a file.
func getFile(t *testing.T, i *servertest.Instance, id string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, i.Root+"/files/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return status(t, r)
}

// pictureFiles returns the names of all files in the folder of pictures, below it.
func pictureFiles(t *testing.T, data string) (names []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(data, "pictures", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		names = append(names, filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name))
	}
	return names
}

// TestUpload_Killed: a process that is killed while it receives an upload leaves nothing of it. What it has
// acknowledged it has after the next start: an upload, and a file.
func TestUpload_Killed(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startProcess(t, "--data", data, "--no-demo")
	p.Do("ada", createUser, map[string]any{"name": "ada"})
	content := pngOf(t, 10_000_000)
	half, request := newUpload(t, &p.Instance, content)
	whole, r := newUpload(t, &p.Instance, content)
	if code, body := status(t, r); code != http.StatusCreated {
		t.Fatal(code, string(body))
	}
	p.Dial(fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n%s",
		request.URL.RequestURI(), len(content), content[:5_000_000]))
	testkit.WaitFor(t, func() bool {
		partial, err := filepath.Glob(filepath.Join(data, "pictures", "partial", "*"))
		if err != nil || len(partial) != 1 {
			return false
		}
		info, err := os.Stat(partial[0])
		return err == nil && info.Size() == 5_000_000
	})
	p.Kill()

	p = startProcess(t, "--data", data, "--no-demo")
	if got := strings.Join(pictureFiles(t, data), " "); got != "uploads/"+whole {
		t.Errorf("left: %s", got)
	}
	if code, _ := getFile(t, &p.Instance, half); code != http.StatusNotFound {
		t.Errorf("half a file: %d", code)
	}
	out, err := p.Post("ada", createPostWithCover, map[string]any{"upload": half})
	if err != nil || len(out.Errors) != 1 {
		t.Errorf("a post with half a file: %v, %v", out, err)
	}
	request.URL.Host = strings.TrimPrefix(p.Root, "http://")
	request.Body = io.NopCloser(bytes.NewReader(content))
	if code, _ := status(t, request); code != http.StatusForbidden {
		t.Errorf("the address of another process: %d", code)
	}
	post := p.Do("ada", createPostWithCover, map[string]any{"upload": whole})
	if got := at(t, post, "createPost.post.coverImage.width"); got != 20.0 {
		t.Errorf("width %v", got)
	}
	p.Kill()

	p = startProcess(t, "--data", data, "--no-demo")
	if code, got := getFile(t, &p.Instance, whole); code != http.StatusOK || !bytes.Equal(got, content) {
		t.Errorf("%d, %d bytes", code, len(got))
	}
	if got := strings.Join(pictureFiles(t, data), " "); got != "files/"+whole {
		t.Errorf("left: %s", got)
	}
}

// TestUpload_OtherOrigin: a page of an admitted origin creates an upload and sends it.
func TestUpload_OtherOrigin(t *testing.T) {
	t.Parallel()
	i := start(t, "--data", t.TempDir(), "--no-demo", "--cors-origins", "https://app.example")
	i.Do("ada", createUser, map[string]any{"name": "ada"})
	content := pngOf(t, 1000)
	_, put := newUpload(t, i, content)
	preflight := put.Clone(t.Context())
	preflight.Method, preflight.Body, preflight.ContentLength = http.MethodOptions, nil, 0
	preflight.Header = http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"PUT"},
		"Access-Control-Request-Headers": {"content-type"}}
	put.Header.Set("Origin", "https://app.example")
	for r, want := range map[*http.Request]int{preflight: 204, put: 201} {
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Header.Get("Access-Control-Allow-Origin"); response.StatusCode != want || got != "*" {
			t.Errorf("%s: %d, allowed origin %q", r.Method, response.StatusCode, got)
		}
	}
}

// TestUpload_LocalNames: with demo tokens only requests for this machine's names reach pictures, as for everything.
func TestUpload_LocalNames(t *testing.T) {
	t.Parallel()
	i := start(t, "--data", t.TempDir(), "--no-demo")
	for _, path := range []string{"/files/x", "/uploads/x"} {
		c := i.Dial("GET " + path + " HTTP/1.1\r\nHost: evil.example\r\n\r\n")
		if code, _ := servertest.Status(t, c); code != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// TestServe_FilesEndpoint: pictures in a storage account are at its address. Beside an account of Cosmos DB without one
// there are no uploads, and the rest works.
func TestServe_FilesEndpoint(t *testing.T) {
	t.Parallel()
	engine := start(t, "emulator", "--data", t.TempDir(), "--http")
	id, _ := blog.NewFileID("ada", "image/png", 10, [10]byte{})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for name, tt := range map[string]struct {
		args     []string
		status   int
		location string
	}{
		"storage account": {[]string{"--files-endpoint", "https://byline.blob.core.windows.net"}, 308,
			"https://byline.blob.core.windows.net/files/" + string(id)},
		"CDN": {[]string{"--files-endpoint", "https://byline.blob.core.windows.net", "--files-url",
			"https://cdn.example/files"}, 308, "https://cdn.example/files/" + string(id)},
		"neither": {nil, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := start(t, append(tt.args, "--cosmos-endpoint", engine.Root, "--no-demo")...)
			r, err := client.Get(i.Root + id.Path())
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != tt.status || r.Header.Get("Location") != tt.location {
				t.Errorf("%d, %q", r.StatusCode, r.Header.Get("Location"))
			}
			if tt.args != nil {
				return
			}
			i.Do("ada", createUser, map[string]any{"name": "ada"})
			i.Do("ada", createPost, map[string]any{"title": "t", "content": "x"})
			out, err := i.Post("ada", createUpload, map[string]any{"type": "image/png", "size": 10})
			if err != nil || len(out.Errors) != 1 || out.Errors[0].Message != "this server takes no uploads" {
				t.Error(out, err)
			}
		})
	}
}
