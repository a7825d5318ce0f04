package blog

import (
	"fmt"
	"strconv"
	"strings"
)

// CoverImage is the picture of a post.
type CoverImage struct {
	URL           string // an https URL, or the path of a file
	Alt           string // describes it; "": decoration
	Width, Height *int32 // pixels; nil: unknown, as of pictures on other servers
}

// CoverImage returns the picture of the post; nil without one.
func (p *Post) CoverImage() *CoverImage {
	if p.CoverURL == "" {
		return nil
	}
	url, size, _ := strings.Cut(p.CoverURL, "#")
	c := &CoverImage{URL: url, Alt: p.CoverAlt}
	if id, ok := CoverFile(p.UserID, p.CoverURL); ok {
		c.URL = id.Path()
	}
	if width, height, ok := strings.Cut(size, "x"); ok {
		w, errW := strconv.ParseInt(width, 10, 32)
		h, errH := strconv.ParseInt(height, 10, 32)
		if errW == nil && errH == nil && w > 0 && h > 0 {
			c.Width, c.Height = new(int32(w)), new(int32(h))
		}
	}
	return c
}

// HasCover reports whether the picture of the post is the file at an address.
func (p *Post) HasCover(address string) bool {
	id, ok := CoverFile(p.UserID, p.CoverURL)
	return ok && id.Path() == address
}

// CoverURL returns the Post.CoverURL of a file of the author: its id without the owner, as every list reads it, and its
// width and height, as in "RANDOMSIZE.png#1200x630".
func CoverURL(id FileID, width, height int32) string {
	return fmt.Sprintf("%s#%dx%d", strings.TrimPrefix(string(id), id.Owner()+"."), width, height)
}

// CoverFile returns the file of the Post.CoverURL of an author's post; ok is false if it is the address of another
// picture.
func CoverFile(author, coverURL string) (id FileID, ok bool) {
	name, _, ok := strings.Cut(coverURL, "#")
	id = FileID(author + "." + name)
	return id, ok && id.Valid()
}
