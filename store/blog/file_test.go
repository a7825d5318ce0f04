package blog_test

import (
	"slices"
	"testing"

	"byline/store/blog"
)

func TestFileID(t *testing.T) {
	const owner = "0123456789abcdef0123456789abcdef"
	for contentType, extension := range map[string]string{"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif",
		"image/webp": "webp", "image/avif": "avif"} {
		for _, size := range []int64{1, 31, 32, 123_456, blog.MaxFileSize} {
			id, ok := blog.NewFileID(owner, contentType, size, [10]byte{1, 2, 3})
			if !ok || !id.Valid() || id.Owner() != owner || id.Type() != contentType || id.Size() != size ||
				id[len(id)-len(extension):] != blog.FileID(extension) {
				t.Errorf("%s of %d bytes: %q, %v, of %s, %s, %d bytes", contentType, size, id, ok, id.Owner(), id.Type(),
					id.Size())
			}
			if of, ok := blog.FileOf(id.Path()); !ok || of != id {
				t.Errorf("FileOf(%q) = %q, %v", id.Path(), of, ok)
			}
		}
	}
	for _, bad := range []struct {
		owner, contentType string
		size               int64
	}{
		{owner, "image/svg+xml", 1}, {owner, "IMAGE/PNG", 1}, {owner, "", 1}, {owner, "image/png", 0},
		{owner, "image/png", -1}, {owner, "image/png", blog.MaxFileSize + 1}, {"a.b", "image/png", 1},
		{"", "image/png", 1},
	} {
		if id, ok := blog.NewFileID(bad.owner, bad.contentType, bad.size, [10]byte{}); ok {
			t.Errorf("%v: %q", bad, id)
		}
	}
}

func TestFileID_Valid(t *testing.T) {
	good, _ := blog.NewFileID("ada", "image/png", 5, [10]byte{255})
	for _, bad := range []blog.FileID{"", "x", good + "x", "x/" + good, good[1:20], "ada/../" + good,
		good[:4] + "/" + good[5:], good[:len(good)-3] + "svg", "ada.zzzzzzzzzzzzzzzzzzzzz.png", good + "\n", "." + good} {
		if bad.Valid() {
			t.Errorf("%q is valid", bad)
		}
		if id, ok := blog.FileOf(bad.Path()); ok {
			t.Errorf("FileOf(%q) = %q", bad.Path(), id)
		}
	}
	if _, ok := blog.FileOf("https://example.com" + good.Path()); ok {
		t.Error("an address of another server is a file")
	}
}

func TestFilesIn(t *testing.T) {
	a, _ := blog.NewFileID("ada", "image/png", 5, [10]byte{1})
	b, _ := blog.NewFileID("bob_2", "image/jpeg", 6, [10]byte{2})
	c, _ := blog.NewFileID("of-another-server", "image/png", 5, [10]byte{3})
	text := "Look: ![a](" + a.Path() + ") and ![b](<" + b.Path() + "> \"title\"), again " + a.Path() +
		"\n\n[ref]: " + b.Path() + "\n/files/none.png https://other.example" + c.Path()
	if got := blog.FilesIn(text); !slices.Equal(got, []string{string(a), string(b)}) {
		t.Errorf("%q", got)
	}
}
