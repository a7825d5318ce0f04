package files

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"byline/store/blog"
)

// types are the content types by extension.
var types = map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".avif": "image/avif"}

// idOf returns the id of an upload of bytes as a content type.
func idOf(t testing.TB, contentType string, size int) blog.FileID {
	t.Helper()
	id, ok := blog.NewFileID("ada", contentType, int64(size), [10]byte{})
	if !ok {
		t.Fatalf("no id for %s of %d bytes", contentType, size)
	}
	return id
}

// reading reads of a content.
func reading(content []byte) func(int64) ([]byte, error) {
	return func(n int64) ([]byte, error) { return content[:min(n, int64(len(content)))], nil }
}

// Bomb is a PNG that says it has 60,000 x 60,000 pixels.
func Bomb(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	header := b.Bytes()[12:29] // IHDR
	binary.BigEndian.PutUint32(header[4:], 60_000)
	binary.BigEndian.PutUint32(header[8:], 60_000)
	binary.BigEndian.PutUint32(b.Bytes()[29:], crc32.ChecksumIEEE(header))
	return b.Bytes()
}

// WithMetadata returns a JPEG of 30 x 20 pixels after n bytes of comments.
func WithMetadata(t testing.TB, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 30, 20)), nil); err != nil {
		t.Fatal(err)
	}
	out := append([]byte{}, b.Bytes()[:2]...)
	for ; n > 0; n -= 50_000 {
		out = append(append(out, 0xFF, 0xFE, 50_000>>8, 50_000&0xFF), make([]byte, 50_000-2)...)
	}
	return append(out, b.Bytes()[2:]...)
}

func TestReadPicture_Files(t *testing.T) {
	names, err := filepath.Glob("testdata/pictures/*")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := Picture{20, 10}
		if strings.Contains(name, "turned") {
			want = Picture{10, 20}
		}
		id := idOf(t, types[filepath.Ext(name)], len(content))
		got, err := readPicture(id, int64(len(content)), reading(content))
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
		for n := range content { // a head that ends anywhere is an error, or has the dimensions
			got, err := readPicture(idOf(t, id.Type(), n+1), int64(n+1), reading(content[:n+1]))
			if err == nil && got != want && got != (Picture{want.Height, want.Width}) {
				t.Errorf("%s, %d bytes: %v", name, n, got)
			}
		}
	}
}

func TestReadPicture(t *testing.T) {
	const svg = `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	read := func(name string) []byte {
		content, err := os.ReadFile("testdata/pictures/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	endless := append(read("picture.avif")[:28:28], // a box that would come before itself
		0, 0, 0, 1, 'f', 'r', 'e', 'e', 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xE4)
	for name, tt := range map[string]struct {
		contentType string
		content     []byte
		want        Picture
		reason      blog.Reason
	}{
		"JPEG":                            {"image/jpeg", WithMetadata(t, 0), Picture{30, 20}, ""},
		"JPEG with 200 kB before":         {"image/jpeg", WithMetadata(t, 200_000), Picture{30, 20}, ""},
		"JPEG with 1.1 MB before":         {"image/jpeg", WithMetadata(t, 1_100_000), Picture{}, blog.ReasonFormat},
		"GIF as PNG":                      {"image/png", read("picture.gif"), Picture{}, blog.ReasonMismatch},
		"PNG as AVIF":                     {"image/avif", read("picture.png"), Picture{}, blog.ReasonMismatch},
		"AVIF as WebP":                    {"image/webp", read("picture.avif"), Picture{}, blog.ReasonMismatch},
		"SVG as PNG":                      {"image/png", []byte(svg), Picture{}, blog.ReasonMismatch},
		"HTML after the signature of PNG": {"image/png", []byte("\x89PNG\r\n\x1a\n<script>"), Picture{}, blog.ReasonFormat},
		"GIF with a frame larger than its screen": {"image/gif", largeFrame(read("picture.gif")), Picture{},
			blog.ReasonFormat},
		"HTML after the signature of GIF": {"image/gif", []byte("GIF89a"), Picture{}, blog.ReasonFormat},
		"AVIF without pictures":           {"image/avif", read("picture.avif")[:28], Picture{}, blog.ReasonFormat},
		"AVIF with an endless box":        {"image/avif", endless, Picture{}, blog.ReasonFormat},
		"AVIF with a box without a size":  {"image/avif", append(read("picture.avif")[:28:28], 0, 0, 0, 4, 'f', 'r', 'e', 'e'), Picture{}, blog.ReasonFormat},
		"bomb":                            {"image/png", Bomb(t), Picture{}, blog.ReasonRange},
		"zeros":                           {"image/gif", make([]byte, 100), Picture{}, blog.ReasonMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			id := idOf(t, tt.contentType, len(tt.content))
			got, err := readPicture(id, int64(len(tt.content)), reading(tt.content))
			if got != tt.want || reasonOf(err) != tt.reason {
				t.Errorf("%v, %v; want %v, %q", got, err, tt.want, tt.reason)
			}
		})
	}
}

// reasonOf returns the reason of an error that is Invalid, "" for nil.
func reasonOf(err error) blog.Reason {
	if e, ok := err.(*blog.Error); ok && e.Code == blog.Invalid {
		return e.Reason
	}
	if err != nil {
		return blog.Reason(err.Error())
	}
	return ""
}

func TestReadPicture_EveryOrientation(t *testing.T) {
	content, err := os.ReadFile("testdata/pictures/turned.jpg")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte{0x12, 0x01, 3, 0, 1, 0, 0, 0, 6}) + 8
	for o := byte(0); o <= 8; o++ {
		content[at] = o
		want := Picture{20, 10}
		if o >= 5 {
			want = Picture{10, 20}
		}
		got, err := readPicture(idOf(t, "image/jpeg", len(content)), int64(len(content)), reading(content))
		if err != nil || got != want {
			t.Errorf("orientation %d: %v, %v; want %v", o, got, err, want)
		}
	}
}

func FuzzReadPicture(f *testing.F) {
	names, err := filepath.Glob("testdata/pictures/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add(Bomb(f))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) == 0 || len(content) > blog.MaxFileSize {
			return
		}
		for _, contentType := range types {
			p, err := readPicture(idOf(t, contentType, len(content)), int64(len(content)), reading(content))
			switch reason := reasonOf(err); {
			case err == nil && (p.Width < 1 || p.Height < 1 || int64(p.Width)*int64(p.Height) > maxPixels):
				t.Errorf("%s: %v", contentType, p)
			case err != nil && reason != blog.ReasonMismatch && reason != blog.ReasonFormat &&
				reason != blog.ReasonRange:
				t.Errorf("%s: %v", contentType, err)
			}
		}
	})
}

// largeFrame returns a GIF whose screen has one pixel.
func largeFrame(gif []byte) []byte {
	b := bytes.Clone(gif)
	copy(b[6:], []byte{1, 0, 1, 0})
	return b
}
