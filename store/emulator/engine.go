package emulator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble's memory: enough for a working set of some ten thousand items, small
// enough for a laptop and for a test that opens many engines.
const (
	blockCacheBytes = 96 << 20
	memTableBytes   = 16 << 20
	maxOpenFiles    = 256

	frozenRetry   = 100 * time.Millisecond // how often Pebble tries again what a frozen disk refuses
	unmergedRetry = 10 * time.Millisecond  // and a compaction of what cannot be read: it holds a mutex meanwhile

	maxNewRanges  = 256     // physical partitions of a new container
	parsedKept    = 512     // parsed query texts that are kept, and as many conditions
	keptTextBytes = 8 << 10 // of a text, at most, to be kept
)

// Options configure an Engine. The zero value works.
type Options struct {
	// Key is the account's master key, in base64. The default is WellKnownKey.
	Key string
	// Clock tells the time, for _ts and for time to live. The default is time.Now.
	Clock func() time.Time
	// RUs is how many request units each physical partition may spend in a
	// second before requests are answered with 429. The default, 0, is no limit.
	RUs int
	// Partitions is how many physical partitions a new container has, at most
	// 256. The default is 1.
	Partitions int
	// NoSync acknowledges writes before they are on disk: a killed process or a
	// crashed machine may lose those of the last seconds, and never half a write.
	// For bulk loads.
	NoSync bool
	// ReplicaLag makes reads see a state that is this old, unless their session token
	// asks for a newer one: what clients meet, now and then, where the service keeps
	// several replicas. Transactional batches always see the newest. The default, 0, is
	// that all reads do. For tests.
	ReplicaLag time.Duration
	// Logger receives one line for each failure of the engine itself and, at
	// debug level, Pebble's log. The default discards everything.
	Logger *slog.Logger

	fs vfs.FS // for tests: where the data is, instead of the disk
}

// Engine is an account: databases, containers and items in one data directory.
type Engine struct {
	db    *pebble.DB
	lock  io.Closer // of the data directory
	clock func() time.Time
	rate  float64 // of request units, per physical partition and second; 0 for no limit
	parts int     // physical partitions of a new container
	log   *slog.Logger
	host  string
	auth  *authenticator

	life   sync.RWMutex // held for reading while a request runs, for writing by Close
	closed bool         // guarded by life

	changing chan struct{}           // takes one: who changes metadata
	next     uint32                  // of who is changing: the next number to give out
	catalog  atomic.Pointer[catalog] // replaced as a whole, by who is changing

	durable    *durability
	replica    *replica                              // nil without Options.ReplicaLag
	inject     atomic.Pointer[func(Operation) Fault] // nil but in tests
	queries    parsedTexts
	conditions parsedTexts // of patches

	stop context.CancelFunc
	done chan struct{} // closed when the purge loop has ended
}

// Open opens the engine on a data directory, which it creates if need be. With
// dir "" the data is kept in memory and lost at Close. If another engine has the
// directory open, the error wraps ErrInUse; if there is no room for what opening
// writes, syscall.ENOSPC.
func Open(dir string, o Options) (*Engine, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Key == "" {
		o.Key = WellKnownKey
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Partitions < 1 || o.Partitions > maxNewRanges {
		return nil, fmt.Errorf("%d physical partitions: there can be 1 to %d", o.Partitions, maxNewRanges)
	}
	if o.ReplicaLag < 0 {
		return nil, fmt.Errorf("a replica lag of %v: it cannot be negative", o.ReplicaLag)
	}
	if o.RUs < 0 {
		return nil, fmt.Errorf("%d RU/s: it cannot be negative", o.RUs)
	}
	auth, err := newAuthenticator(o.Key)
	if err != nil {
		return nil, fmt.Errorf("the key is not base64: %w", err)
	}
	e := &Engine{clock: o.Clock, log: o.Logger, host: uniqueHost(), auth: auth,
		queries: newParsedTexts(sql.Parse), conditions: newParsedTexts(sql.ParseCondition),
		durable: newDurability(o.NoSync), rate: float64(o.RUs), parts: o.Partitions, changing: make(chan struct{}, 1), done: make(chan struct{})}
	if e.db, e.lock, err = e.openStorage(dir, o); err != nil {
		return nil, err
	}
	if err := e.loadCatalog(); err != nil {
		return nil, errors.Join(fmt.Errorf("open data directory %s: %w", dir, err), e.db.Close(), e.lock.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	if o.ReplicaLag > 0 {
		e.replica = newReplica(e.db, o.ReplicaLag)
	}
	go func() {
		defer close(e.done)
		var others sync.WaitGroup
		if o.NoSync {
			others.Go(func() { e.syncLoop(ctx) })
		}
		if e.replica != nil {
			others.Go(func() { e.replica.run(ctx) })
		}
		e.purgeLoop(ctx)
		others.Wait()
	}()
	return e, nil
}

// openStorage opens Pebble and turns its errors into lines for an operator.
func (e *Engine) openStorage(dir string, from Options) (*pebble.DB, io.Closer, error) {
	o := &pebble.Options{
		MemTableSize:       memTableBytes,
		MaxOpenFiles:       maxOpenFiles,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             pebbleLogger{e},
	}
	if from.NoSync { // a load: what it writes is merged less often
		o.L0CompactionThreshold, o.L0StopWritesThreshold = 8, 24
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].IndexBlockSize = 256 << 10 // so that the index of a table is one look-up, not two
	}
	if dir == "" {
		if o.FS = from.fs; from.fs == nil {
			o.FS = vfs.NewMem()
		}
		return e.openPebble("data", "data", o, io.NopCloser(nil))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, directoryError(dir, err)
	}
	// The lock is held by name, so one directory must have one name.
	name, err := filepath.Abs(dir)
	if err == nil {
		name, err = filepath.EvalSymlinks(name)
	}
	if err != nil {
		return nil, nil, directoryError(dir, err)
	}
	o.FS = vfs.Default
	lock, err := pebble.LockDirectory(name, o.FS)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return nil, nil, directoryError(dir, err)
	} else if err != nil {
		return nil, nil, fmt.Errorf("%w: %s is open in another byline process", ErrInUse, dir)
	}
	o.Lock = lock
	return e.openPebble(dir, name, o, lock)
}

// openPebble opens Pebble in the directory called name, and dir in errors. It takes
// the lock: it returns or closes it.
func (e *Engine) openPebble(dir, name string, o *pebble.Options, lock io.Closer) (*pebble.DB, io.Closer, error) {
	d, err := newDisk(o.FS, name, e.writesFailed)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	o.FS = d
	o.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) {
			if e.log.Enabled(context.Background(), slog.LevelDebug) {
				e.log.Debug("pebble", "detail", err.Error())
			}
		},
		CompactionEnd: func(c pebble.CompactionInfo) {
			if c.Err != nil && !errors.Is(c.Err, errFrozen) && !errors.Is(c.Err, pebble.ErrCancelledCompaction) {
				d.unmerged(c.Err)
			}
		},
		DataCorruption:  func(pebble.DataCorruptionInfo) {}, // whoever reads it has the error
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { d.stalled.Store(true) },
		WriteStallEnd:   func() { d.stalled.Store(false) },
	}
	o.Cache = pebble.NewCache(blockCacheBytes)
	defer o.Cache.Unref()
	merges := new(compactions)
	o.Experimental.CompactionScheduler = merges
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
	merges.open()
	return db, lock, nil
}

func openError(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("data directory %s has no room: %w; make room and start again", dir, err)
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

// Endpoint returns the URL under which Do serves. Its host is different for
// every Engine, because SDKs keep caches by host name.
func (e *Engine) Endpoint() string { return "http://" + e.host + "/" }

func uniqueHost() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return "engine-" + hex.EncodeToString(b[:]) + ".localhost"
}

// Close waits for the requests under way, stops the purge of expired items and
// releases the data directory. Later requests are answered with 503. If a write could not
// be made durable, the error wraps the first one's.
func (e *Engine) Close() error {
	e.life.Lock()
	defer e.life.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.stop()
	<-e.done
	if e.replica != nil {
		e.replica.close()
	}
	return errors.Join(e.durable.lost(e.db.Close()), e.lock.Close())
}

// Compact merges all that was written before into one level, where a read looks in one
// place for an item: for after a bulk load. It takes some 10 s a gigabyte, requests may go
// on meanwhile, and ctx may end it at any time. If a write could not be made durable, the
// error wraps the first one's.
func (e *Engine) Compact(ctx context.Context) error {
	e.life.RLock()
	defer e.life.RUnlock()
	if e.closed {
		return errClosed
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // Pebble would try for ever
		select {
		case <-e.durable.ended:
			stop()
		case <-ctx.Done():
		}
	}()
	return e.durable.lost(e.db.Compact(ctx, []byte{0}, []byte{0xFF}, true))
}

var errClosed = errors.New("the engine is closed")

// pebbleLogger sends Pebble's log to slog.
type pebbleLogger struct{ *Engine }

func (l pebbleLogger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("pebble", "detail", fmt.Sprintf(format, args...))
	}
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("pebble", "detail", fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble cannot go on. The process must not go on either:
// what it would acknowledge from here on might not be kept.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.writesFailed(fmt.Errorf(format, args...))
	panic(fmt.Sprintf("pebble: "+format, args...))
}
