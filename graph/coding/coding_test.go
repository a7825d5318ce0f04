package coding

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func TestAccepted(t *testing.T) {
	for name, tt := range map[string]struct {
		header []string
		want   string
	}{
		"none":                  {nil, ""},
		"empty":                 {[]string{""}, ""},
		"a browser":             {[]string{"gzip, deflate, br, zstd"}, "zstd"},
		"an older browser":      {[]string{"gzip, deflate, br"}, "gzip"},
		"others only":           {[]string{"br, deflate, compress"}, ""},
		"any":                   {[]string{"*"}, ""},
		"not compressed":        {[]string{"identity"}, ""},
		"capital letters":       {[]string{"GZIP"}, "gzip"},
		"in two lines":          {[]string{"br", "gzip"}, "gzip"},
		"refused":               {[]string{"gzip;q=0"}, ""},
		"one of both refused":   {[]string{"gzip, zstd; q=0"}, "gzip"},
		"by quality":            {[]string{"zstd;q=0.5, gzip;q=0.8"}, "gzip"},
		"by quality, reordered": {[]string{"gzip;q=0.8,zstd;q=0.9"}, "zstd"},
		"equal quality":         {[]string{"gzip;q=0.5, zstd;q=0.5"}, "zstd"},
		"malformed quality":     {[]string{"zstd;q=x, gzip"}, "gzip"},
		"another parameter":     {[]string{"gzip;level=9"}, ""},
	} {
		got := ""
		if c := accepted(tt.header); c != nil {
			got = c.Name
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// decompress returns a body that is in the coding.
func decompress(t testing.TB, coding string, body []byte) string {
	t.Helper()
	var r io.Reader = bytes.NewReader(body)
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", coding, err)
	}
	return string(text)
}

// A compressor that is used again knows nothing of what it has compressed before.
func TestCoding_Compress(t *testing.T) {
	for _, c := range codings {
		for _, pieces := range [][]string{{strings.Repeat("a like, ", 10_000)}, {"short"},
			{`{"data":`, strings.Repeat("x", 100), "}"}, {""}} {
			var all [][]byte
			for _, p := range pieces {
				all = append(all, []byte(p))
			}
			want := strings.Join(pieces, "")
			got := c.Compress(all...)
			if text := decompress(t, c.Name, got); text != want {
				t.Errorf("%s: got %.100q, want %.100q", c.Name, text, want)
			}
			if len(want) > minBytes && len(got) > len(want)/10 {
				t.Errorf("%s: %d bytes of %d", c.Name, len(got), len(want))
			}
		}
	}
}
