package site

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"byline/graph/coding"
)

// body is the body of a response, which is compressed once for all clients.
type body struct {
	media string
	bytes []byte

	compressed [coding.Count]atomic.Pointer[[]byte] // nil: no client has asked for it
}

// write sends the body in the coding that the client prefers, or 304 if it has the response with the entity tag.
func (b *body) write(w http.ResponseWriter, r *http.Request, status int, tag string) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if tag != "" {
		h.Set("ETag", tag)
		if status == http.StatusOK && matches(r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	sent := b.bytes
	if c := coding.For(r.Header["Accept-Encoding"], len(sent)); c != nil {
		known := b.compressed[c.Index].Load()
		if known == nil {
			compressed := c.Compress(sent)
			known = &compressed
			b.compressed[c.Index].Store(known)
		}
		sent = *known
		h.Set("Content-Encoding", c.Name)
	}
	h.Set("Content-Type", b.media)
	h.Set("Content-Length", strconv.Itoa(len(sent)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(sent) // the client may be gone
	}
}

// matches reports whether an If-None-Match header has a weak entity tag (RFC 9110, section 13.1.2).
func matches(header []string, tag string) bool {
	for item := range strings.SplitSeq(strings.Join(header, ","), ",") {
		item = strings.TrimPrefix(strings.TrimSpace(item), "W/")
		if item == "*" || item == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// writeText sends a text that is the same for everybody.
func writeText(w http.ResponseWriter, r *http.Request, media, text, tag string) {
	b := body{media: media + "; charset=utf-8", bytes: []byte(text)}
	b.write(w, r, http.StatusOK, tag)
}
