package site

import (
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"byline/graph/transport"
)

// maxKept is the length of the files of a front end that are kept in memory, compressed: its code and styles. Others,
// such as pictures, are read for each request.
const maxKept = 2 << 20

// compressible are the media types of files that are text.
var compressible = []string{"text/", "application/json", "application/manifest+json", "application/xml",
	"image/svg+xml"}

// file is a file that is kept.
type file struct {
	media string
	body  *transport.Body
}

// readFiles reads the files to keep.
func readFiles(dir fs.FS, shell string) (map[string]file, error) {
	kept := map[string]file{}
	err := fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !isServed(name, shell) {
			return err
		}
		media := mime.TypeByExtension(path.Ext(name))
		info, err := e.Info()
		if err != nil || info.Size() > maxKept ||
			!slices.ContainsFunc(compressible, func(prefix string) bool { return strings.HasPrefix(media, prefix) }) {
			return err
		}
		raw, err := fs.ReadFile(dir, name)
		kept[name] = file{media, transport.NewBody(raw)}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the front end: %w", err)
	}
	return kept, nil
}

// isServed reports whether a file is for browsers, and not what pages are made of, or hidden.
func isServed(name, shell string) bool {
	return !slices.ContainsFunc([]string{manifestName, shell, "index.html"},
		func(own string) bool { return strings.EqualFold(name, own) }) &&
		!slices.ContainsFunc(strings.Split(name, "/"),
			func(part string) bool { return len(part) > 1 && part[0] == '.' && part != ".well-known" })
}

// files serves the files of the front end, and elsewhere a page with status 404. The build names a file in
// assets after its content.
func (s *Site) files(dir fs.FS, shell string, kept map[string]file) http.Handler {
	others := http.FileServerFS(dir)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		age := "public, max-age=3600"
		if strings.HasPrefix(name, "assets/") {
			age = "public, max-age=31536000, immutable"
		}
		if known, ok := kept[name]; ok {
			w.Header().Set("Cache-Control", age)
			w.Header().Set("Content-Type", known.media)
			known.body.SendFixed(w, r, http.StatusOK)
			return
		}
		info, err := fs.Stat(dir, name)
		switch {
		case err == nil && !info.IsDir() && isServed(name, shell):
			w.Header().Set("Cache-Control", age)
			others.ServeHTTP(w, r)
		case len(name) > 1 && strings.HasSuffix(name, "/"):
			location := url.URL{Path: "/" + strings.Trim(name, "/"), RawQuery: r.URL.RawQuery}
			w.Header().Set("Cache-Control", "no-cache")
			http.Redirect(w, r, location.String(), http.StatusMovedPermanently)
		default:
			s.sendFixed(w, r, http.StatusNotFound)
		}
	})
}
