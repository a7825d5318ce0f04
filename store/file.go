package store

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/files"
)

// fileStore prepares uploads of pictures.
type fileStore struct {
	*base
	authors *authors
}

// CreateUpload prepares the upload of a picture of a content type and a size in bytes by a user. It sends nothing to
// Cosmos DB but for an author who is not cached. Forbidden if the author has no user yet, Invalid (Field is
// "contentType" or "size"), LimitReached.
func (s *fileStore) CreateUpload(
	ctx context.Context, userID, contentType string, size int64,
) (*files.Upload, error) {
	const op = "create upload"
	ctx = s.account.Begin(ctx, CreateUpload)
	if s.o.Files == nil {
		return nil, noFiles(op)
	}
	if _, err := s.authors.byline(ctx, op, userID); err != nil {
		return nil, err
	}
	return s.o.Files.CreateUpload(ctx, userID, contentType, size)
}

// noFiles returns the error of uploads where there is no place for files.
func noFiles(op string) error {
	return &blog.Error{Code: blog.Invalid, Op: op, Reason: blog.ReasonRequest, Message: "this server takes no uploads"}
}

// filesAtOnce is how many files of a text are published at a time.
const filesAtOnce = 8

// publishFiles publishes the files that a post or draft, which its author is about to write, uses and has not used
// before: its picture, in whose CoverURL it replaces the path by the id and the dimensions, and those of its text. What
// does not become part of the post after all is deleted like other files that nothing uses.
func (b *base) publishFiles(ctx context.Context, op string, p *blog.Post, had []string) error {
	var errs []error
	if id, ok := blog.FileOf(p.CoverURL); ok {
		picture, err := b.publishFile(ctx, op, p.UserID, "coverImage", id)
		p.CoverURL, errs = blog.CoverURL(id, picture.Width, picture.Height), append(errs, err)
	}
	ids := slices.DeleteFunc(blog.FilesIn(p.Content), func(id string) bool { return slices.Contains(had, id) })
	failed := make([]error, len(ids))
	var g errgroup.Group
	g.SetLimit(filesAtOnce)
	for i, id := range ids {
		g.Go(func() error {
			_, failed[i] = b.publishFile(ctx, op, p.UserID, "content", blog.FileID(id))
			return nil
		})
	}
	_ = g.Wait() // the errors are in failed
	return errors.Join(append(errs, failed...)...)
}

// publishFile publishes a file that a user is about to use in a field.
func (b *base) publishFile(
	ctx context.Context, op, userID, field string, id blog.FileID,
) (picture files.Picture, err error) {
	if b.o.Files == nil {
		return picture, noFiles(op)
	}
	picture, err = b.o.Files.Publish(ctx, userID, id)
	if refused := (*blog.Error)(nil); errors.As(err, &refused) {
		inField := *refused
		inField.Op, inField.Field = op, field
		if field == "content" {
			inField.Message = id.Path() + ": " + inField.Message
		}
		err = &inField
	}
	return picture, err
}
