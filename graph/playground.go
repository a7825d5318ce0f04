package graph

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/wundergraph/graphql-go-tools/pkg/playground"
)

// The page is ours and short; script, style and icon are those that the playground
// package embeds, so that it works without a network.
//
//go:embed playground/index.html playground/tabs/*.graphql
var playgroundFiles embed.FS

const (
	playgroundPath = "/playground" // where script, style and icon are
	startScript    = playgroundPath + "/start.js"
)

// The playground is left to run its own script and to ask this server, nothing else.
const playgroundPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// addPlayground serves the playground at /, opened on queries that run. With a
// token they carry it as a bearer token.
func addPlayground(mux *http.ServeMux, token string) error {
	page, err := playgroundFiles.ReadFile("playground/index.html")
	if err != nil {
		return err
	}
	script, err := playgroundScript(token)
	if err != nil {
		return err
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		serveStatic(w, "text/html; charset=utf-8", "no-cache", page)
	})
	mux.HandleFunc("GET "+startScript, func(w http.ResponseWriter, _ *http.Request) {
		serveStatic(w, "text/javascript; charset=utf-8", "no-cache", script)
	})
	assets, err := playground.New(playground.Config{PlaygroundPath: playgroundPath}).Handlers()
	if err != nil {
		return fmt.Errorf("playground: %w", err)
	}
	for _, asset := range assets {
		if path.Ext(asset.Path) != "" { // but not the package's own page
			mux.HandleFunc("GET "+asset.Path, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=3600")
				asset.Handler(w, r)
			})
		}
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

// playgroundTab is a tab as GraphQLPlayground.init takes it.
type playgroundTab struct {
	Name     string            `json:"name"`
	Endpoint string            `json:"endpoint"`
	Query    string            `json:"query"`
	Headers  map[string]string `json:"headers,omitempty"`
}

// playgroundTabs returns the tabs, in the order of their files: 2-Write-a-post.graphql
// is the second and is called "Write a post".
func playgroundTabs(token string) ([]playgroundTab, error) {
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
		tab := playgroundTab{Name: strings.ReplaceAll(name, "-", " "), Endpoint: "/graphql", Query: string(query)}
		if token != "" {
			tab.Headers = map[string]string{"Authorization": "Bearer " + token}
		}
		tabs = append(tabs, tab)
	}
	return tabs, nil
}

func playgroundScript(token string) ([]byte, error) {
	tabs, err := playgroundTabs(token)
	if err != nil {
		return nil, err
	}
	options, err := json.Marshal(map[string]any{
		"endpoint":             "/graphql",
		"subscriptionEndpoint": "/graphql",
		"tabs":                 tabs,
		"settings": map[string]any{
			"editor.theme":                "light",
			"editor.cursorShape":          "line",
			"request.credentials":         "same-origin",
			"schema.polling.enable":       false,
			"general.betaUpdates":         false,
			"tracing.hideTracingResponse": true,
		},
	})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "addEventListener(\"load\", () => GraphQLPlayground.init(document.getElementById(\"root\"), %s));\n", options), nil
}
