package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// manifestName is the file of a front end that lists its routes. It is not served.
const manifestName = "site.json"

// manifest is site.json.
type manifest struct {
	// Shell is the file with the HTML that all pages have. Its body has an element with the id root.
	Shell string `json:"shell"`

	// Routes are the paths of the front end.
	Routes []route `json:"routes"`

	// Connect are more origins to which the front end's scripts connect, such as a sign-in provider's for tokens.
	Connect []string `json:"connect"`

	// Documents are the texts of the front end's GraphQL documents, by their ids. The gateway executes them without
	// --trusted-documents, too.
	Documents map[string]string `json:"documents"`
}

// route is a path of the front end.
type route struct {
	Path string `json:"path"` // such as /posts/:slug
	Page kind   `json:"page"` // what the path shows to everybody; "": nothing that crawlers should read

	// Document is the id of the query whose response the page brings along: the parameters of the path are its
	// variables. "": none.
	Document  string         `json:"document"`
	Variables map[string]any `json:"variables"` // more of its variables, that all readers without a token have
}

// kind is what a page shows.
type kind string

// The kinds, and the parameter that the path of each has.
const (
	frontPage  kind = "front"
	postPage   kind = "post"
	tagPage    kind = "tag"
	authorPage kind = "author"
	searchPage kind = "search" // a front end may lack it
)

var parameters = map[kind]string{frontPage: "", postPage: "slug", tagPage: "name", authorPage: "username", searchPage: ""}

// readManifest reads and checks the manifest of a front end.
func readManifest(dir fs.FS) (m manifest, err error) {
	raw, err := fs.ReadFile(dir, manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("there is no %s: the build of the front end writes it", manifestName)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	seen := map[kind]bool{}
	for _, r := range m.Routes {
		parameter, known := parameters[r.Page]
		switch {
		case !strings.HasPrefix(r.Path, "/") || strings.ContainsAny(r.Path, "{}*"):
			return m, fmt.Errorf("%s: the path %q is not one like /posts/:slug", manifestName, r.Path)
		case r.Page == "":
			continue
		case r.Page == postPage && !strings.HasSuffix(r.Path, "/:slug"):
			return m, fmt.Errorf("%s: %s: the path of posts ends with :slug, since .md follows it", manifestName, r.Path)
		case !known:
			return m, fmt.Errorf("%s: %s: the page is %q, not front, post, tag, author or search",
				manifestName, r.Path, r.Page)
		case seen[r.Page]:
			return m, fmt.Errorf("%s: two routes have the page %q", manifestName, r.Page)
		case !slices.Equal(r.parameters(), nonEmpty(parameter)):
			return m, fmt.Errorf("%s: %s: the parameter of the page %q is :%s", manifestName, r.Path, r.Page, parameter)
		case r.Document != "" && m.Documents[r.Document] == "":
			return m, fmt.Errorf("%s: %s: no document has the id %q", manifestName, r.Path, r.Document)
		}
		seen[r.Page] = true
	}
	for kind := range parameters {
		if !seen[kind] && kind != searchPage {
			return m, fmt.Errorf("%s: no route has the page %q", manifestName, kind)
		}
	}
	return m, nil
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// parameters returns the names of the parameters of the path.
func (r route) parameters() (names []string) {
	for segment := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(segment, ":"); ok {
			names = append(names, name)
		}
	}
	return names
}

// pattern returns the path as a pattern of http.ServeMux, with what follows it.
func (r route) pattern(suffix string) string {
	var b strings.Builder
	for segment := range strings.SplitSeq(strings.Trim(r.Path, "/"), "/") {
		b.WriteByte('/')
		if name, ok := strings.CutPrefix(segment, ":"); ok {
			segment = "{" + name + "}"
		}
		b.WriteString(segment)
	}
	path := strings.TrimSuffix(b.String(), "/") + suffix
	if path == "" {
		path = "/{$}"
	}
	return "GET " + path
}
