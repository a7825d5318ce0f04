package server

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"

	"byline/store/username"
)

// avatarsPattern is the pattern of the pictures at username.AvatarPath.
const avatarsPattern = "GET " + username.AvatarPrefix + "{file}"

// serveAvatar answers with a picture for a username: its first letter on a color that the name determines. It exists
// for every valid username, with or without a user, and never changes. The picture has no scripts, styles or
// references, so that any content security policy allows it as an image, and none of its own is needed but the
// strictest.
func serveAvatar(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutSuffix(r.PathValue("file"), username.AvatarSuffix)
	if !ok || username.Check("avatar", name) != nil {
		http.NotFound(w, r)
		return
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(username.Key(name)))
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="128" height="128" viewBox="0 0 128 128">` +
		`<rect width="128" height="128" fill="hsl(%d, 45%%, 40%%)"/>` +
		`<text x="64" y="64" dy=".35em" text-anchor="middle" font-family="sans-serif" font-size="64" fill="#fff">%s</text></svg>`
	fmt.Fprintf(w, svg, hash.Sum32()%360, strings.ToUpper(name[:1]))
}
