package server

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"byline/store/username"
)

// A picture depends on the username alone, ignoring its case, and has nothing that could run or load.
func TestAvatars(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc(avatarsPattern, serveAvatar)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	ada := get(username.AvatarPath("ada"))
	if ada.Code != http.StatusOK || ada.Header().Get("Content-Type") != "image/svg+xml" ||
		ada.Header().Get("Content-Security-Policy") != "default-src 'none'; sandbox" ||
		!strings.Contains(ada.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("got %d %v", ada.Code, ada.Header())
	}
	body := ada.Body.String()
	if same := get(username.AvatarPath("Ada")).Body.String(); same != body {
		t.Errorf("Ada has another picture than ada: %s", same)
	}
	if other := get(username.AvatarPath("grace")).Body.String(); other == body {
		t.Error("grace has the picture of ada")
	}
	elements := ""
	for d := xml.NewDecoder(strings.NewReader(body)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements += e.Name.Local + " "
		}
	}
	if elements != "svg rect text " {
		t.Errorf("got elements %s", elements)
	}
	for _, path := range []string{"/avatars/ada", "/avatars/.svg", "/avatars/ad.svg", "/avatars/%3Cb%3E.svg",
		"/avatars/ada.svg/x"} {
		if w := get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
}
