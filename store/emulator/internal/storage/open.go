package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// MemTableBytes is the size of a memtable. Pebble keeps two.
const MemTableBytes = 7 << 20

const (
	// With the memtables: room for a working set of some ten thousand items, small enough for a laptop and for
	// tests that open many engines.
	blockCacheBytes = 96 << 20
	maxOpenFiles    = 256

	frozenRetry = 100 * time.Millisecond // between Pebble's attempts on a frozen disk
	// between attempts of a compaction that cannot read its input; it holds a mutex meanwhile
	failedCompactionRetry = 10 * time.Millisecond
)

var (
	// ErrInUse is wrapped by Open's error if another process has the directory open.
	ErrInUse = errors.New("data directory is in use")
	// ErrFrozen is the error of a write after one that failed.
	ErrFrozen = errors.New("an earlier write of the data directory failed")
)

// Open opens Pebble in a data directory, which it creates if necessary, or with dir "" on the file system
// memory. The caller closes the database and then the directory's lock. If the disk is full, the error wraps
// syscall.ENOSPC.
//
// failed is called with the error of a write that cannot be made durable, before Pebble acknowledges it, and
// perhaps with those of later ones, which are not durable either. It must not block. Calls may be concurrent.
func Open(dir string, memory vfs.FS, log *slog.Logger, failed func(error)) (*pebble.DB, io.Closer, error) {
	o := options()
	o.Logger = logger{log, failed}
	if dir == "" {
		o.FS = memory
		return openPebble("data", "data", o, log, io.NopCloser(nil), failed)
	}
	name, lock, err := lockDirectory(dir)
	if err != nil {
		return nil, nil, err
	}
	o.FS, o.Lock = vfs.Default, lock
	return openPebble(dir, name, o, log, lock, failed)
}

func options() *pebble.Options {
	o := &pebble.Options{
		MemTableSize:       MemTableBytes,
		MaxOpenFiles:       maxOpenFiles,
		FormatMajorVersion: pebble.FormatNewest,

		// Compact half as often as by default: a like or a comment takes 5 to 7% less CPU.
		L0CompactionThreshold: 8,
		L0StopWritesThreshold: 24,
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		if i < len(o.Levels)-1 { // most of this data is soon compacted into the next level
			o.Levels[i].Compression = func() *block.CompressionProfile { return block.NoCompression }
		}
		o.Levels[i].IndexBlockSize = 256 << 10 // so that a table needs one index lookup, not two
	}
	return o
}

// lockDirectory creates a directory if necessary and locks it. It returns the directory's name without symbolic
// links, because the lock is by name: two names of one directory must give one lock.
func lockDirectory(dir string) (name string, lock *pebble.Lock, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, directoryError(dir, err)
	}
	if name, err = filepath.Abs(dir); err == nil {
		name, err = filepath.EvalSymlinks(name)
	}
	if err != nil {
		return "", nil, directoryError(dir, err)
	}
	lock, err = pebble.LockDirectory(name, vfs.Default)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return "", nil, directoryError(dir, err)
	} else if err != nil {
		return "", nil, fmt.Errorf("%w: %s is open in another byline process", ErrInUse, dir)
	}
	if err := checkComplete(name); err != nil {
		return "", nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), lock.Close())
	}
	return name, lock, nil
}

// pebbleData matches the names of Pebble's tables and logs.
var pebbleData = regexp.MustCompile(`^\d+(-\d+)?\.(sst|log)$`)

// checkComplete returns an error if a directory has data but not the empty file that names Pebble's manifest: Pebble
// would create a new database and delete the data. A copy that leaves out empty files lacks it.
func checkComplete(name string) error {
	files, err := os.ReadDir(name)
	if err != nil {
		return err
	}
	data := false
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "marker.manifest.") {
			return nil
		}
		data = data || pebbleData.MatchString(f.Name())
	}
	if data {
		return errors.New("the file marker.manifest.* is missing: was the directory copied without its empty files?")
	}
	return nil
}

// openPebble opens Pebble in the directory name, called dir in errors. It takes over the lock: it
// returns or closes it.
func openPebble(
	dir, name string, o *pebble.Options, log *slog.Logger, lock io.Closer, failed func(error),
) (*pebble.DB, io.Closer, error) {
	if err := checkLog(o.FS, name, log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(fmt.Errorf("open data directory %s: %w", dir, err), lock.Close())
	}
	d, err := newDisk(o.FS, name, failed)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	o.FS = d
	o.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) { o.Logger.Infof("%s", err.Error()) },
		CompactionEnd: func(c pebble.CompactionInfo) {
			if c.Err != nil && !errors.Is(c.Err, ErrFrozen) && !errors.Is(c.Err, pebble.ErrCancelledCompaction) {
				d.compactionFailed(c.Err)
			}
		},
		DataCorruption:  func(pebble.DataCorruptionInfo) {}, // the reader gets the error
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { d.stalled.Store(true) },
		WriteStallEnd:   func() { d.stalled.Store(false) },
	}
	o.Cache = pebble.NewCache(blockCacheBytes)
	defer o.Cache.Unref()
	scheduler := new(compactionScheduler)
	o.Experimental.CompactionScheduler = scheduler
	db, err := pebble.Open(name, o)
	if failed := d.open(); failed != nil {
		if err == nil {
			db.Close()
		}
		err = failed
	}
	if err != nil {
		return nil, nil, errors.Join(openError(dir, err), lock.Close())
	}
	scheduler.open()
	return db, lock, nil
}

func openError(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("data directory %s: no space left: %w; free some space and start again", dir, err)
	}
	return fmt.Errorf("open data directory %s: %w", dir, err)
}

func directoryError(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return openError(dir, err)
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("data directory %s is not writable: %w", dir, err)
}
