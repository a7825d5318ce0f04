package files

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"byline/store/blog"
)

// partial is the folder of uploads that have not arrived completely.
const partial place = "partial"

// UploadPrefix begins the paths of uploads on the server.
const UploadPrefix = "/uploads/"

// Parameters of the address of an upload.
const (
	expiresParam   = "expires" // Unix time in seconds
	signatureParam = "signature"
)

// folder is a storage: each place is a folder in dir, and each blob a file.
type folder struct {
	dir   string
	clock func() time.Time
	key   [sha256.Size]byte // signs requests

	// mu is held while a file moves to uploads or public, changes its date or is deleted, so that nothing is replaced,
	// what is published is what was checked, and what is used again is not deleted.
	mu        sync.Mutex
	receiving map[blog.FileID]bool // guarded by mu; uploads that are arriving
}

// openFolder returns a folder with empty partial.
func openFolder(dir string, clock func() time.Time) (*folder, error) {
	f := &folder{dir: dir, clock: clock, receiving: map[blog.FileID]bool{}}
	_, _ = rand.Read(f.key[:]) // never fails
	if err := os.RemoveAll(f.path(partial, "")); err != nil {
		return nil, err
	}
	for _, p := range []place{uploads, public, partial} {
		if err := os.MkdirAll(f.path(p, ""), 0o700); err != nil {
			return nil, err
		}
	}
	return f, syncFolder(dir)
}

func (f *folder) path(p place, id blog.FileID) string {
	return filepath.Join(f.dir, string(p), string(id))
}

func (f *folder) sign(_ context.Context, id blog.FileID, expires time.Time) (string, []Header, error) {
	at := strconv.FormatInt(expires.Unix(), 10)
	query := url.Values{expiresParam: {at}, signatureParam: {f.signature(id, at)}}
	return UploadPrefix + string(id) + "?" + query.Encode(), []Header{{"Content-Type", id.Type()}}, nil
}

// signature authenticates an id and when its request expires.
func (f *folder) signature(id blog.FileID, expires string) string {
	h := hmac.New(sha256.New, f.key[:])
	fmt.Fprintf(h, "%s %s", id, expires)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// checkSignature returns an error for the client if a request was not signed, or has expired.
func (f *folder) checkSignature(id blog.FileID, query url.Values) error {
	at := query.Get(expiresParam)
	if !hmac.Equal([]byte(f.signature(id, at)), []byte(query.Get(signatureParam))) {
		return errors.New("the signature is invalid")
	}
	if seconds, err := strconv.ParseInt(at, 10, 64); err != nil || f.clock().Unix() >= seconds {
		return errors.New("the address has expired")
	}
	return nil
}

// Errors of receive for the client, with errExists.
var (
	errBusy       = errors.New("another request is sending this")
	errIncomplete = errors.New("the upload ended before its last byte")
)

// receive stores an upload, if body has all of its bytes, and no other request is sending it: with one address a client
// could otherwise fill the disk.
func (f *folder) receive(id blog.FileID, body io.Reader) error {
	f.mu.Lock()
	busy := f.receiving[id]
	f.receiving[id] = true
	f.mu.Unlock()
	if busy {
		return errBusy
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.receiving, id)
	}()
	file, err := os.CreateTemp(f.path(partial, ""), "")
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // fails if it has been moved
	}()
	if _, err := io.CopyN(file, body, id.Size()); err != nil {
		var writing *fs.PathError
		if errors.As(err, &writing) {
			return err
		}
		return errIncomplete
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range []place{uploads, public} {
		if f.exists(p, id) {
			return errExists
		}
	}
	return f.move(file.Name(), uploads, id)
}

// exists reports whether there is a file. The caller holds mu.
func (f *folder) exists(p place, id blog.FileID) bool {
	_, err := os.Lstat(f.path(p, id))
	return err == nil
}

// move moves a file to a place. A crash after it returns does not undo it. The caller holds mu.
func (f *folder) move(from string, p place, id blog.FileID) error {
	if err := os.Rename(from, f.path(p, id)); err != nil {
		return err
	}
	return syncFolder(f.path(p, ""))
}

// syncFolder makes the names in a folder durable.
func syncFolder(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f *folder) inspect(_ context.Context, id blog.FileID, inspect inspection) error {
	return f.read(public, id, inspect)
}

// read calls inspect with a blob.
func (f *folder) read(p place, id blog.FileID, inspect inspection) error {
	file, err := os.Open(f.path(p, id))
	if err != nil {
		return missing(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return inspect(info.Size(), func(n int64) ([]byte, error) { return io.ReadAll(io.NewSectionReader(file, 0, n)) })
}

func (f *folder) publish(_ context.Context, id blog.FileID, inspect inspection) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exists(public, id) {
		return errExists
	}
	if err := f.read(uploads, id, inspect); err != nil {
		return err
	}
	if err := f.setDate(uploads, id); err != nil {
		return err
	}
	return f.move(f.path(uploads, id), public, id)
}

func (f *folder) touch(_ context.Context, id blog.FileID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return missing(f.setDate(public, id))
}

// setDate sets the date of a file to now. The caller holds mu.
func (f *folder) setDate(p place, id blog.FileID) error {
	return os.Chtimes(f.path(p, id), time.Time{}, time.Now())
}

func (f *folder) list(ctx context.Context, p place, prefix string, after blog.FileID) (all []item, err error) {
	entries, err := os.ReadDir(f.path(p, "")) // in the order of names
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		id := blog.FileID(e.Name())
		if !strings.HasPrefix(e.Name(), prefix) || id <= after || !id.Valid() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, item{File{id, info.ModTime()}, info.Size()})
		if len(all) == pageSize {
			break
		}
	}
	return all, ctx.Err()
}

func (f *folder) delete(_ context.Context, p place, id blog.FileID, since time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path(p, id))
	if err != nil {
		return missing(err)
	}
	if !since.IsZero() && info.ModTime().After(since) {
		return errUsed
	}
	return missing(os.Remove(f.path(p, id)))
}

// missing returns errMissing for a file that does not exist.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errMissing
	}
	return err
}
