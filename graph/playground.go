package graph

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	_ "unsafe" // for go:linkname

	_ "github.com/wundergraph/graphql-go-tools/pkg/playground"

	"byline/graph/cost"
	"byline/graph/globalid"
	"byline/store"
	"byline/store/blog"
)

// The page is our own; script, style and icon are those that the playground package embeds, so
// that it works without a network.
//
//go:embed playground/index.html playground/start.js playground/tabs/*.graphql
var playgroundFiles embed.FS

const (
	playgroundPath = "/playground" // where script, style and icon are
	startScript    = playgroundPath + "/start.js"
)

// packageFiles are the files of the playground package. Its handlers would suffice, but they link html/template, which
// calls methods by names that the linker does not know: it then keeps unused methods of all types, 5 MB.
//
//go:linkname packageFiles github.com/wundergraph/graphql-go-tools/pkg/playground.files
var packageFiles embed.FS

// playgroundPolicy allows the playground its own script and requests to this server.
const playgroundPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// addPlayground serves the playground at /, with tabs of operations that can be executed at once.
func addPlayground(mux *http.ServeMux, s *store.Store) error {
	page, err := playgroundFiles.ReadFile("playground/index.html")
	if err != nil {
		return err
	}
	script, err := playgroundScript()
	if err != nil {
		return err
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		serveStatic(w, "text/html; charset=utf-8", "no-cache", page)
	})
	mux.HandleFunc("GET "+startScript, func(w http.ResponseWriter, r *http.Request) {
		filled := strings.NewReplacer(postIDPlaceholder, examplePost(r.Context(), s), idempotencyKeyPlaceholder, "playground-"+newRequestID()).Replace(script)
		serveStatic(w, "text/javascript; charset=utf-8", "no-cache", []byte(filled))
	})
	for _, name := range []string{"playground.css", "playground.js", "favicon.png", "logo.png"} {
		mux.HandleFunc("GET "+playgroundPath+"/"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=3600")
			http.ServeFileFS(w, r, packageFiles, "files/"+name)
		})
	}
	return nil
}

func serveStatic(w http.ResponseWriter, contentType, caching string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", caching)
	h.Set("Content-Security-Policy", playgroundPolicy)
	_, _ = w.Write(body)
}

// playgroundTab is a tab of GraphQL Playground, without its endpoint.
type playgroundTab struct {
	Name    string            `json:"name"`
	Query   string            `json:"query"`
	Headers map[string]string `json:"headers"`

	// The pane below the editor shows the headers, which authenticate the viewer.
	HeadersOpen   bool `json:"variableEditorOpen"`
	HeadersHeight int  `json:"variableEditorHeight"` // pixels
}

// Placeholders in the documents of the tabs.
const (
	postIDPlaceholder         = "POST_ID"         // the global id of a post
	idempotencyKeyPlaceholder = "IDEMPOTENCY_KEY" // a new key each time the page is loaded
)

// playgroundTabs returns the tabs, in the order of their files: 3-Write-a-post.graphql
// is the third and is called "Write a post". They sign in as a demo user, and request the cost.
func playgroundTabs() ([]playgroundTab, error) {
	headers := map[string]string{"Authorization": "Bearer demo:ada", cost.Header: "summary"}
	files, err := fs.ReadDir(playgroundFiles, "playground/tabs")
	if err != nil {
		return nil, err
	}
	var tabs []playgroundTab
	for _, f := range files {
		query, err := playgroundFiles.ReadFile("playground/tabs/" + f.Name())
		if err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(f.Name(), ".graphql"), "-")
		tabs = append(tabs, playgroundTab{Name: strings.ReplaceAll(name, "-", " "), Query: string(query), Headers: headers,
			HeadersOpen: true, HeadersHeight: 150})
	}
	return tabs, nil
}

// playgroundScript returns start.js, preceded by the constant that it reads. It has placeholders.
func playgroundScript() (string, error) {
	start, err := playgroundFiles.ReadFile("playground/start.js")
	if err != nil {
		return "", err
	}
	tabs, err := playgroundTabs()
	if err != nil {
		return "", err
	}
	prepared := map[string]any{
		"tabs": tabs,
		"settings": map[string]any{
			"editor.theme":                "light",
			"editor.cursorShape":          "line",
			"request.credentials":         "same-origin",
			"schema.polling.enable":       false,
			"general.betaUpdates":         false,
			"tracing.hideTracingResponse": true,
		},
	}
	encoded, err := json.Marshal(prepared)
	if err != nil {
		return "", err
	}
	version := sha256.Sum256(encoded)
	prepared["version"] = hex.EncodeToString(version[:8])
	if encoded, err = json.Marshal(prepared); err != nil {
		return "", err
	}
	return fmt.Sprintf("const prepared = %s;\n%s", encoded, start), nil
}

// examplePost returns the global id of the post with the most comments and likes among the newest;
// the placeholder if there are no posts.
func examplePost(ctx context.Context, s *store.Store) string {
	page, err := s.Feed(ctx, store.Paging{First: 20})
	if err != nil || len(page.Items) == 0 {
		return postIDPlaceholder
	}
	most := slices.MaxFunc(page.Items, func(a, b *blog.Post) int {
		return cmp.Compare(min(a.CommentCount, a.LikeCount), min(b.CommentCount, b.LikeCount))
	})
	return globalid.OfPost(most.ID).String()
}
