package seed

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"byline/store"
	"byline/store/blog"
	"byline/store/files"
	"byline/store/seed/covers"
)

// Covers is where the covers of articles are uploaded.
type Covers struct {
	Files *files.Files
	Store *store.Store // has the posts that were loaded before, with their covers
}

// of returns the CoverURL of a user's article: that of the post, if it exists, or of a new file, which is drawn and
// then uploaded and published as its author would. "" if the user has no article.
func (c *Covers) of(ctx context.Context, b *Blog, user int) (string, error) {
	if c == nil || b.article(user, 0) == nil {
		return "", nil
	}
	if p, err := c.Store.Post(ctx, b.PostID(user, 0)); err != nil || p != nil {
		if err != nil {
			return "", err
		}
		return p.CoverURL, nil
	}
	raw, err := covers.Draw(user, b.Seed)
	if err != nil {
		return "", err
	}
	author := b.byline(user).UserID
	upload, err := c.Files.CreateUpload(ctx, author, "image/png", int64(len(raw)))
	if err != nil {
		return "", err
	}
	if err := c.send(ctx, upload, raw); err != nil {
		return "", err
	}
	picture, err := c.Files.Publish(ctx, author, upload.ID)
	return blog.CoverURL(upload.ID, picture.Width, picture.Height), err
}

// send sends the bytes of an upload: to Blob Storage, or to this server without a connection.
func (c *Covers) send(ctx context.Context, u *files.Upload, raw []byte) error {
	r, err := http.NewRequestWithContext(ctx, u.Method, u.URL, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	for _, h := range u.Headers {
		r.Header.Set(h.Name, h.Value)
	}
	var got response
	if strings.HasPrefix(u.URL, "/") {
		got.header = http.Header{}
		c.Files.ServeHTTP(&got, r)
	} else {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		got.status = resp.StatusCode
		_ = resp.Body.Close()
	}
	if got.status != http.StatusCreated {
		return fmt.Errorf("upload of a cover: status %d: %s", got.status, got.body.String())
	}
	return nil
}

// response is an http.ResponseWriter that keeps the response.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(b []byte) (int, error) { return r.body.Write(b) }
