package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"byline/store/blog"
)

const (
	// uploadTime is how long the request of an upload is valid.
	uploadTime = 10 * time.Minute

	// uploadsPerHour is how many uploads a user may create in an hour, at one instance.
	uploadsPerHour = 100

	// pageSize is the most that a storage lists at once, and the most files, and the most uploads, of a user.
	pageSize = 5000

	// defaultQuota is the default of Options.Quota.
	defaultQuota = 500_000_000

	// deletesAtOnce is how many requests to delete are sent at the same time.
	deletesAtOnce = 8
)

// cacheControl is for files, which never change.
const cacheControl = "public, max-age=31536000, immutable"

// Options of Files. The zero value works.
type Options struct {
	// URL is the public address of the files in Blob Storage, to which this server redirects. Default: that of their
	// container. Files in a folder are served at this server's own address.
	URL string

	// Quota is the most bytes of a user, uploads included. Default 500 MB.
	Quota int64

	// Clock tells when uploads expire. Default time.Now.
	Clock func() time.Time

	// Logger gets the errors of requests to this server. Default: none.
	Logger *slog.Logger

	// Metrics registers the metrics that docs/cost.md lists. Default: a new registry.
	Metrics prometheus.Registerer

	// Transport sends the requests to Blob Storage. Default: HTTPS.
	Transport policy.Transporter
}

func (o Options) withDefaults() Options {
	if o.Quota == 0 {
		o.Quota = defaultQuota
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	return o
}

// Files are the uploads and files of all users. Its errors are those of package blog.
type Files struct {
	o       Options
	storage storage
	folder  *folder // the storage, if it is a folder; else nil
	recent  *recent
	metrics *metrics
}

// place is where bytes are: the name of a folder or container.
type place string

const (
	uploads place = "uploads"
	public  place = "files"
)

// storage has the bytes. Its errors are errMissing, errExists, *unavailableError, those of a context or an inspection,
// or bugs.
type storage interface {
	// sign returns the address and the headers of a PUT request that creates an upload.
	sign(ctx context.Context, id blog.FileID, expires time.Time) (url string, headers []Header, err error)

	// inspect calls f with a file, and returns its error.
	inspect(ctx context.Context, id blog.FileID, f inspection) error

	// publish calls f with an upload, and moves it to the files if f returns nil. The bytes that it moves are those
	// that f has read. It returns errExists if there is a file with the id.
	publish(ctx context.Context, id blog.FileID, f inspection) error

	// list returns the first pageSize blobs of a place, in the order of ids, whose ids have the prefix and are greater
	// than after.
	list(ctx context.Context, p place, prefix string, after blog.FileID) ([]item, error)

	// touch sets the date of a file to now.
	touch(ctx context.Context, id blog.FileID) error

	// delete deletes a blob. It returns errUsed if its date is later than since, unless that is zero.
	delete(ctx context.Context, p place, id blog.FileID, since time.Time) error
}

// inspection inspects a blob of a size in bytes. read returns its first n bytes, or all if it has fewer.
type inspection func(size int64, read func(n int64) ([]byte, error)) error

// item is an entry of a list.
type item struct {
	File
	size int64 // in bytes
}

// Errors of an upload or file that does not exist, or exists already.
var (
	errMissing = errors.New("no such upload or file")
	errExists  = errors.New("this has been uploaded already")
)

// errUsed is the error of the deletion of a file that is used again.
var errUsed = errors.New("the file has been used meanwhile")

// unavailableError marks errors after which a retry makes sense.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

// NewFolder returns Files in the folder dir, which it creates if it is missing, and removes what interrupted uploads
// have left in it. The folder must not have another Files. Uploads that were created before, by another Files, are no
// longer accepted.
func NewFolder(dir string, o Options) (*Files, error) {
	o = o.withDefaults()
	storage, err := openFolder(dir, o.Clock)
	if err != nil {
		return nil, err
	}
	f, err := newFiles(storage, o)
	if err == nil {
		f.folder = storage
	}
	return f, err
}

func newFiles(s storage, o Options) (*Files, error) {
	m, err := newMetrics(o.Metrics)
	return &Files{o: o, storage: s, recent: newRecent(), metrics: m}, err
}

// Upload is a request that a client may send once, to upload bytes.
type Upload struct {
	ID        blog.FileID
	URL       string // absolute, or a path of this server
	Method    string
	Headers   []Header // which the request must have
	ExpiresAt blog.Date
}

// Header is a header of a request.
type Header struct{ Name, Value string }

// CreateUpload returns the request with which a user uploads a picture of a content type and a size in bytes. Nothing
// is stored before the client has sent the request. The error is Invalid, with the Field contentType or size, or
// LimitReached.
func (f *Files) CreateUpload(ctx context.Context, userID, contentType string, size int64) (*Upload, error) {
	const op = "create upload"
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails
	id, ok := blog.NewFileID(userID, contentType, size, random)
	if !ok {
		if _, ok := blog.NewFileID(userID, contentType, 1, random); ok {
			return nil, blog.Invalidf(op, "size", blog.ReasonRange, "must be 1 to %d bytes", blog.MaxFileSize)
		}
		return nil, blog.Invalidf(op, "contentType", blog.ReasonFormat,
			"must be image/png, image/jpeg, image/gif, image/webp or image/avif")
	}
	now := f.o.Clock()
	if until := f.recent.add(userID, id, now); !until.IsZero() {
		return nil, &blog.Error{Code: blog.LimitReached, Op: op, Reason: blog.ReasonLimit, Until: blog.NewDate(until),
			Message: fmt.Sprintf("there can be %d uploads in an hour", uploadsPerHour)}
	}
	if err := f.checkQuota(ctx, userID, now); err != nil {
		f.recent.cancel(userID, id)
		return nil, failure(op, err)
	}
	expires := now.Add(uploadTime)
	url, headers, err := f.storage.sign(ctx, id, expires)
	if err != nil {
		f.recent.cancel(userID, id)
		return nil, failure(op, err)
	}
	f.metrics.uploads.WithLabelValues(created).Inc()
	return &Upload{ID: id, URL: url, Method: "PUT", Headers: headers, ExpiresAt: blog.NewDate(expires)}, nil
}

// checkQuota returns LimitReached if a user has more than the quota: in files, in uploads, and in uploads that may
// still arrive.
func (f *Files) checkQuota(ctx context.Context, userID string, now time.Time) error {
	full := &blog.Error{Code: blog.LimitReached, Reason: blog.ReasonFull,
		Message: fmt.Sprintf("all pictures of a user can have %d MB; delete posts with pictures",
			f.o.Quota/1_000_000)}
	used, listed := int64(0), map[blog.FileID]bool{}
	for _, p := range []place{uploads, public} {
		items, err := f.storage.list(ctx, p, prefixOf(userID), "")
		if err != nil {
			return err
		}
		if len(items) == pageSize {
			return full
		}
		for _, i := range items {
			used += i.size
			listed[i.ID] = true
		}
	}
	for _, id := range f.recent.pending(userID, now) {
		if !listed[id] {
			used += id.Size()
		}
	}
	if used > f.o.Quota {
		return full
	}
	return nil
}

// prefixOf returns what the ids of a user's files begin with.
func prefixOf(userID string) string { return userID + "." }

// Picture is what is known of a picture's content, in pixels as it is shown.
type Picture struct{ Width, Height int32 }

// Publish makes an upload of a user public, if its bytes are a picture of the type and size that its id has, and
// returns the picture. An upload that is not is deleted. Of a file that is public already it only reads the head, and
// sets the date, so it can be repeated, also concurrently. The error is NotFound, Forbidden if the file is another
// user's, or Invalid, without a Field.
func (f *Files) Publish(ctx context.Context, userID string, id blog.FileID) (Picture, error) {
	const op = "publish file"
	if !id.Valid() {
		return Picture{}, failure(op, errMissing)
	}
	if id.Owner() != userID {
		return Picture{}, &blog.Error{Code: blog.Forbidden, Op: op, Reason: blog.ReasonNotYours,
			Message: "the picture is another user's"}
	}
	var picture Picture
	inspect := func(size int64, read func(int64) ([]byte, error)) (err error) {
		picture, err = readPicture(id, size, read)
		return err
	}
	err := f.storage.inspect(ctx, id, inspect)
	if err == nil {
		err = f.storage.touch(ctx, id) // what deletes unused files at this moment leaves it, or it is missing
	}
	if errors.Is(err, errMissing) {
		if err = f.storage.publish(ctx, id, inspect); err == nil {
			f.metrics.uploads.WithLabelValues(published).Inc()
		}
		if blog.CodeOf(err) == blog.Invalid {
			f.metrics.uploads.WithLabelValues(refused).Inc()
			_ = f.storage.delete(ctx, uploads, id, time.Time{}) // else DeleteUploads does
		}
		if errors.Is(err, errMissing) || errors.Is(err, errExists) { // a concurrent call has published it
			err = f.storage.inspect(ctx, id, inspect)
		}
	}
	if err != nil {
		return Picture{}, failure(op, err)
	}
	return picture, nil
}

// File is a public file.
type File struct {
	ID   blog.FileID
	Date time.Time // of the last Publish
}

// Page returns the first 5,000 files of all users with ids greater than after, in their order. There are no more if it
// returns none.
func (f *Files) Page(ctx context.Context, after blog.FileID) ([]File, error) {
	items, err := f.storage.list(ctx, public, "", after)
	return filesOf(items), failure("list files", err)
}

// OfUser returns the files of a user, in the order of their ids.
func (f *Files) OfUser(ctx context.Context, userID string) (all []File, err error) {
	for items := range f.pages(ctx, public, prefixOf(userID), &err) {
		all = append(all, filesOf(items)...)
	}
	return all, failure("list files of a user", err)
}

func filesOf(items []item) []File {
	all := make([]File, len(items))
	for i := range items {
		all[i] = items[i].File
	}
	return all
}

// pages lists all blobs of a place with a prefix, and stops at an error.
func (f *Files) pages(ctx context.Context, p place, prefix string, err *error) func(yield func([]item) bool) {
	return func(yield func([]item) bool) {
		var after blog.FileID
		for {
			var items []item
			if items, *err = f.storage.list(ctx, p, prefix, after); *err != nil || len(items) == 0 || !yield(items) {
				return
			}
			if len(items) < pageSize {
				return
			}
			after = items[len(items)-1].ID
		}
	}
}

// Find returns those of the files that exist.
func (f *Files) Find(ctx context.Context, ids ...blog.FileID) (found []File, err error) {
	for _, id := range ids {
		items, err := f.storage.list(ctx, public, string(id), "")
		if err != nil {
			return nil, failure("find files", err)
		}
		found = append(found, filesOf(items)...)
	}
	return found, nil
}

// Delete deletes files that have not been published again since their Date, and returns how many it has deleted. It
// ignores missing ones.
func (f *Files) Delete(ctx context.Context, all ...File) (int, error) {
	n, err := f.delete(ctx, public, all)
	return n, failure("delete files", err)
}

// DeleteUser deletes all files and uploads of a user with dates before a time, and returns how many it has deleted. It
// can be repeated.
func (f *Files) DeleteUser(ctx context.Context, userID string, before time.Time) (n int, err error) {
	for _, p := range []place{uploads, public} {
		deleted, err := f.deleteAll(ctx, p, prefixOf(userID), func(i item) bool { return i.Date.Before(before) })
		n += deleted
		if err != nil {
			return n, failure("delete files of a user", err)
		}
	}
	return n, nil
}

// DeleteUploads deletes the uploads of all users that were sent before a time, and those of another size than declared,
// which Blob Storage accepts. It returns how many it has deleted.
func (f *Files) DeleteUploads(ctx context.Context, before time.Time) (n int, err error) {
	n, err = f.deleteAll(ctx, uploads, "", func(i item) bool {
		return i.Date.Before(before) || i.size != i.ID.Size()
	})
	return n, failure("delete uploads", err)
}

// deleteAll deletes the selected blobs of a place with a prefix.
func (f *Files) deleteAll(ctx context.Context, p place, prefix string, selected func(item) bool) (n int, err error) {
	for items := range f.pages(ctx, p, prefix, &err) {
		items = slices.DeleteFunc(items, func(i item) bool { return !selected(i) })
		deleted, err := f.delete(ctx, p, filesOf(items))
		n += deleted
		if err != nil {
			return n, err
		}
	}
	return n, err
}

// delete deletes blobs of a place that have still their dates, and returns how many there were.
func (f *Files) delete(ctx context.Context, p place, all []File) (int, error) {
	var n atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletesAtOnce)
	for _, file := range all {
		group.Go(func() error {
			err := f.storage.delete(ctx, p, file.ID, file.Date)
			if errors.Is(err, errMissing) || errors.Is(err, errUsed) {
				return nil
			}
			if err == nil {
				n.Add(1)
				f.metrics.deleted.WithLabelValues(string(p)).Inc()
			}
			return err
		})
	}
	err := group.Wait()
	return int(n.Load()), err
}

// failure returns the error of an operation as package blog has them.
func failure(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *blog.Error
	var unavailable *unavailableError
	e := &blog.Error{Code: blog.Internal, Op: op, Err: err}
	switch {
	case errors.As(err, &known):
		known.Op = op
		return known
	case errors.Is(err, errMissing):
		e.Code, e.Message = blog.NotFound, "picture not found: it has not been uploaded, or it has been deleted"
	case errors.Is(err, context.Canceled):
		e.Code = blog.Canceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &unavailable):
		e.Code = blog.Unavailable
	}
	return e
}
