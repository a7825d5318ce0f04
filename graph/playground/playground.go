package playground

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/wundergraph/graphql-go-tools/pkg/playground"
)

// Prefix is the path of all that the page loads from the server, besides the endpoint /graphql.
const Prefix = "/playground/"

// Options of the playground.
type Options struct {
	// CDN lets the page load GraphiQL from a CDN. Default: the embedded GraphQL Playground only.
	CDN bool

	// ExamplePost returns the global id of the post that the examples are about; "" if there are no posts.
	ExamplePost func(context.Context) string
}

// files are the page, its scripts and styles, and the examples.
//
//go:embed page examples
var files embed.FS

// Example is an operation that can be executed at once. It has a tab.
type Example struct {
	Slug      string `json:"slug"` // the address of its tab, after #
	Name      string `json:"name"`
	Operation string `json:"operation"` // by which the editors name its tab
	Query     string `json:"query"`
}

// postIDPlaceholder stands in the examples for the global id of a post. In a blog without posts it stays, and the page
// replaces it when an operation is run: page/operation.js.
const postIDPlaceholder = "POST_ID"

// prepared is what the page's script reads.
type prepared struct {
	Version  string    `json:"version"` // changes with the examples
	CDN      *cdn      `json:"cdn"`
	Post     string    `json:"post"` // the global id of the post that the examples are about, or ""
	Examples []Example `json:"examples"`
}

// New returns a handler for / and the paths below Prefix.
func New(o Options) (http.Handler, error) {
	examples, err := readExamples()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	policy := policy(o.CDN)
	static := func(pattern, name string) error {
		content, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, _ *http.Request) {
			serve(w, policy, contentTypes[path.Ext(name)], content)
		})
		return nil
	}
	if err := static("/{$}", "page/index.html"); err != nil {
		return nil, err
	}
	for _, name := range []string{"page.css", "page.js", "storage.js", "operation.js", "graphiql.js", "embedded.css",
		"embedded.js"} {
		if err := static(Prefix+name, "page/"+name); err != nil {
			return nil, err
		}
	}
	mux.HandleFunc("GET "+Prefix+"prepared.json", func(w http.ResponseWriter, r *http.Request) {
		p := prepare(examples, o.ExamplePost(r.Context()))
		if o.CDN {
			p.CDN = &graphiQL
		}
		encoded, err := json.Marshal(p)
		if err != nil {
			panic(err) // it is made of texts
		}
		serve(w, policy, "application/json", encoded)
	})
	return mux, addEmbedded(mux)
}

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

func serve(w http.ResponseWriter, policy, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", policy)
	_, _ = w.Write(body)
}

// addEmbedded adds the script and images of GraphQL Playground.
func addEmbedded(mux *http.ServeMux) error {
	handlers, err := playground.New(playground.Config{PlaygroundPath: strings.TrimSuffix(Prefix, "/")}).Handlers()
	if err != nil {
		return err
	}
	for _, h := range handlers {
		if !strings.HasPrefix(h.Path, Prefix) {
			continue // its page
		}
		mux.HandleFunc("GET "+h.Path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=3600")
			h.Handler(w, r)
		})
	}
	return nil
}

// readExamples returns the examples, with placeholders, in the order of their files: 02-Write-a-post.graphql is the
// second and is called "Write a post".
func readExamples() ([]Example, error) {
	names, err := fs.Glob(files, "examples/*.graphql")
	if err != nil {
		return nil, err
	}
	var all []Example
	for _, file := range names {
		query, err := files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".graphql"), "-")
		all = append(all, Example{
			Slug:      strings.ToLower(name),
			Name:      strings.ReplaceAll(name, "-", " "),
			Operation: operationName(string(query)),
			Query:     string(query),
		})
	}
	return all, nil
}

// operationName returns the name of the first operation of an example: the second word of the first line that is not a
// comment.
func operationName(query string) string {
	for line := range strings.Lines(query) {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ({\n", r) })
		if !strings.HasPrefix(line, "#") && len(words) > 1 {
			return words[1]
		}
	}
	return ""
}

// prepare fills in the placeholder.
func prepare(examples []Example, post string) prepared {
	version := sha256.New()
	filled := make([]Example, len(examples))
	for i, e := range examples {
		version.Write([]byte(e.Query))
		filled[i] = e
		filled[i].Query = strings.ReplaceAll(e.Query, postIDPlaceholder, cmp.Or(post, postIDPlaceholder))
	}
	return prepared{Version: hex.EncodeToString(version.Sum(nil)[:8]), Post: post, Examples: filled}
}
