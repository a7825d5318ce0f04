package storage

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system that Pebble writes to. It freezes at the first write that fails: the
// files stay as a crash at that moment would leave them, and everything that Pebble still writes
// goes to memory.
//
// Pebble must not see the error: it panics, holding its mutexes, if its log or manifest cannot be
// written, and blocks writers forever if a table cannot.
type disk struct {
	vfs.FS
	onFailure func(error) // called with the first write error after open, before the write is acknowledged

	frozen  atomic.Bool // writes go to memory
	stalled atomic.Bool // Pebble stalls writes
	memory  vfs.FS      // holds files created after the freeze

	mu      sync.Mutex
	opened  bool  // guarded by mu: pebble.Open has returned
	openErr error // guarded by mu: first write error before that
}

// newDisk returns a disk over files for a data directory.
func newDisk(files vfs.FS, dir string, onFailure func(error)) (*disk, error) {
	d := &disk{FS: files, onFailure: onFailure, memory: vfs.NewMem()}
	return d, d.memory.MkdirAll(dir, 0o755)
}

// open ends the opening phase. It returns the first write error during pebble.Open, which Pebble has
// not seen.
func (d *disk) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = true
	return d.openErr
}

// freeze freezes the disk because of err.
func (d *disk) freeze(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened {
		d.onFailure(err)
	} else if d.openErr == nil {
		d.openErr = err
	}
	d.frozen.Store(true)
}

// compactionFailed handles a failed compaction: it freezes the disk, because Pebble retries at once and
// would stall writers forever if the compaction cannot succeed.
func (d *disk) compactionFailed(err error) {
	d.mu.Lock()
	opened := d.opened
	d.mu.Unlock()
	if opened && !d.frozen.Load() {
		d.freeze(err)
	}
	time.Sleep(failedCompactionRetry)
}

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// create creates a file with fn, or in memory once the disk is frozen.
func (d *disk) create(name string, category vfs.DiskWriteCategory, fn func() (vfs.File, error)) (vfs.File, error) {
	if !d.frozen.Load() {
		f, err := fn()
		if err == nil {
			return &diskFile{f, d, name}, nil
		}
		d.freeze(err)
	}
	// A flush takes no more memory than it frees. A compaction may, so it runs only if a writer is
	// stalled.
	if isTable(name) && category != "pebble-memtable-flush" && !d.stalled.Load() {
		time.Sleep(frozenRetry) // Pebble retries at once
		return nil, ErrFrozen
	}
	return d.memory.Create(name, category)
}

// Create implements vfs.FS.
func (d *disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.create(name, category, func() (vfs.File, error) { return d.FS.Create(name, category) })
}

// ReuseForWrite implements vfs.FS.
func (d *disk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.create(newname, category, func() (vfs.File, error) {
		return d.FS.ReuseForWrite(oldname, newname, category)
	})
}

// OpenDir implements vfs.FS.
func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d, name}, nil
}

// Rename implements vfs.FS.
func (d *disk) Rename(oldname, newname string) error {
	if !d.frozen.Load() { // the file may be incomplete
		if err := d.FS.Rename(oldname, newname); err != nil {
			d.freeze(err)
		}
	}
	return nil
}

// Remove implements vfs.FS.
func (d *disk) Remove(name string) error {
	if !d.frozen.Load() {
		return d.FS.Remove(name)
	}
	if err := d.memory.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Open implements vfs.FS.
func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if d.frozen.Load() {
		if f, err := d.memory.Open(name, opts...); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return d.FS.Open(name, opts...)
}

// Stat implements vfs.FS.
func (d *disk) Stat(name string) (vfs.FileInfo, error) {
	if d.frozen.Load() {
		if info, err := d.memory.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			return info, err
		}
	}
	return d.FS.Stat(name)
}

// diskFile is a file on the disk. Writes after the freeze are discarded.
type diskFile struct {
	vfs.File
	disk *disk
	name string
}

// discarded returns the error for a discarded write. Pebble writes a failed table again elsewhere.
// The unfinished one is removed: no manifest names it, and the next start needs the space.
func (f *diskFile) discarded() error {
	if !isTable(f.name) {
		return nil
	}
	_ = f.disk.FS.Remove(f.name) // otherwise removed at the next start
	return ErrFrozen
}

// Write implements vfs.File.
func (f *diskFile) Write(b []byte) (int, error) {
	if !f.disk.frozen.Load() {
		n, err := f.File.Write(b)
		if err == nil {
			return n, nil
		}
		f.disk.freeze(err)
	}
	if err := f.discarded(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Preallocate implements vfs.File. It is optional for Pebble.
func (f *diskFile) Preallocate(offset, length int64) error {
	if f.disk.frozen.Load() {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// sync calls fn unless the disk is frozen.
func (f *diskFile) sync(fn func() error) error {
	if !f.disk.frozen.Load() {
		err := fn()
		if err == nil {
			return nil
		}
		f.disk.freeze(err)
	}
	return f.discarded()
}

// Sync implements vfs.File.
func (f *diskFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File. It first yields to goroutines about to write, so that they share
// the next sync.
func (f *diskFile) SyncData() error {
	runtime.Gosched()
	return f.sync(f.File.SyncData)
}

// SyncTo implements vfs.File.
func (f *diskFile) SyncTo(length int64) (all bool, err error) {
	err = f.sync(func() (err error) { all, err = f.File.SyncTo(length); return err })
	return all, err
}
