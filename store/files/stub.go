// Package files stub.
package files

import (
	"context"
	"time"

	"byline/store/blog"
)

type Files struct{}
type Upload struct {
	ID          blog.FileID
	URL, Method string
	Headers     []Header
	ExpiresAt   blog.Date
}
type Header struct{ Name, Value string }
type Picture struct{ Width, Height int32 }
type File struct {
	ID        blog.FileID
	CreatedAt time.Time
}

func (f *Files) CreateUpload(ctx context.Context, userID, contentType string, size int64) (*Upload, error) {
	return nil, nil
}
func (f *Files) Publish(ctx context.Context, userID string, id blog.FileID) (Picture, error) {
	return Picture{}, nil
}
func (f *Files) Page(ctx context.Context, after blog.FileID) (files []File, err error) {
	return nil, nil
}
func (f *Files) OfUser(ctx context.Context, userID string) ([]File, error)        { return nil, nil }
func (f *Files) Delete(ctx context.Context, ids ...blog.FileID) (int, error)      { return 0, nil }
func (f *Files) DeleteUser(ctx context.Context, userID string) (n int, err error) { return 0, nil }
func (f *Files) DeleteUploads(ctx context.Context, before time.Time) (n int, err error) {
	return 0, nil
}
