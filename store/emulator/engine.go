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
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble's memory: room for a working set of some ten thousand items, small enough for a laptop and
// for tests that open many engines.
const (
	blockCacheBytes = 96 << 20
	memTableBytes   = 8 << 20 // Pebble keeps two
	maxOpenFiles    = 256

	frozenRetry           = 100 * time.Millisecond // between Pebble's attempts on a frozen disk
	failedCompactionRetry = 10 * time.Millisecond  // between attempts of a compaction that cannot read its input; it holds a mutex meanwhile

	maxNewRanges     = 256     // physical partitions of a new container
	maxCachedQueries = 512     // cached parsed queries, and as many patch conditions
	maxCachedText    = 8 << 10 // largest cached text
)

// Options configure an Engine. The zero value works.
type Options struct {
	// Key is the account's master key, in base64. Default WellKnownKey.
	Key string
	// Clock returns the time for _ts, time to live and throttling. Default time.Now.
	Clock func() time.Time
	// RUs is the request units that each physical partition provides per second; beyond them
	// requests are throttled (429). Default 0: no limit.
	RUs int
	// Partitions is the number of physical partitions of a new container, at most 256. Default 1.
	Partitions int
	// PartitionBytes is the size of the documents of one logical partition beyond which writes that make
	// it larger are refused (403, substatus 1014); in the service it is 20 GB. The first write to a logical
	// partition then reads all of it. Default 0: no limit.
	PartitionBytes int64
	// Regions are the names of the account's regions; the first takes the writes, and the others
	// refuse them (403, substatus 3). With several, each has its own endpoint for clients that use the
	// engine as their transport, except at an IP address; and session tokens have an LSN for each region,
	// -1 for all but the write region. Default: South Central US.
	Regions []string
	// MultipleWriteRegions makes every region take writes, which all regions see at once: there are no
	// conflicts. Default: only the first region takes writes.
	MultipleWriteRegions bool
	// EntraDataPlaneOnly refuses Entra ID tokens, including that of Credential, for changes of databases
	// and containers and for throughput (403, substatus 5300), as the service does. Default: they have the
	// rights of the key.
	EntraDataPlaneOnly bool
	// ItemWriters is the number of writes that one item accepts within 5 ms by Clock; further ones get 449.
	// Default 0: no limit.
	ItemWriters int
	// NoSync acknowledges writes before they are on disk: a killed process or a crash may lose the
	// writes of the last seconds, but never part of one. For bulk loads.
	NoSync bool
	// ReplicaLag makes reads see a state of this age, unless their session token is newer, like reads
	// of the service from a replica that lags. Transactional batches see the newest state.
	// For tests. Default 0: no lag.
	ReplicaLag time.Duration
	// Logger receives one line for each failure of the engine and, at debug level, Pebble's log.
	// Default: discard.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
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
	return o
}

func (o Options) check() error {
	switch {
	case o.Partitions < 1 || o.Partitions > maxNewRanges:
		return fmt.Errorf("%d physical partitions: there can be 1 to %d", o.Partitions, maxNewRanges)
	case o.ReplicaLag < 0:
		return fmt.Errorf("replica lag: %v is negative", o.ReplicaLag)
	case o.RUs < 0:
		return fmt.Errorf("RU/s: %d is negative", o.RUs)
	case o.ItemWriters < 0:
		return fmt.Errorf("writers of an item: %d is negative", o.ItemWriters)
	case o.PartitionBytes < 0:
		return fmt.Errorf("size of a logical partition: %d is negative", o.PartitionBytes)
	}
	return nil
}

// Engine is an account: databases, containers and items in one data directory. It is safe for
// concurrent use.
type Engine struct {
	o          Options // with defaults
	db         *pebble.DB
	lock       io.Closer // of the data directory
	host       string
	auth       *authenticator
	regions    *regions
	replicated *replicated // guarded by life; nil unless Replicated was called

	life   sync.RWMutex // held for reading while a request runs, for writing by Close
	closed bool         // guarded by life

	changing chan struct{}           // semaphore of metadata changes
	next     uint32                  // guarded by changing: the next number to allocate
	catalog  atomic.Pointer[catalog] // replaced under changing

	durable    *durability
	gate       *lowPriorityGate
	replica    *replica                              // nil without Options.ReplicaLag
	inject     atomic.Pointer[func(Operation) Fault] // nil without Inject
	queries    parserCache
	conditions parserCache // of patches

	stop context.CancelFunc
	done chan struct{} // closed when the purge, sync and replica loops have ended
}

// Open opens the engine on a data directory, which it creates if necessary. With dir "" the data is
// in memory and lost at Close. One process at a time can open a directory. If the disk is full, the
// error wraps syscall.ENOSPC.
func Open(dir string, o Options) (*Engine, error) { return open(dir, vfs.NewMem(), o) }

// open opens the engine on a data directory, or with dir "" on the file system memory.
func open(dir string, memory vfs.FS, o Options) (*Engine, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	e := &Engine{o: o, host: uniqueHost(), queries: newParserCache(sql.Parse), conditions: newParserCache(sql.ParseCondition),
		durable: newDurability(o.NoSync), gate: newLowPriorityGate(), changing: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if e.auth, err = newAuthenticator(o.Key); err != nil {
		return nil, fmt.Errorf("key: not base64: %w", err)
	}
	if e.regions, err = newRegions(o.Regions, o.MultipleWriteRegions); err != nil {
		return nil, err
	}
	if e.db, e.lock, err = e.openStorage(dir, memory); err != nil {
		return nil, err
	}
	if err := e.loadCatalog(); err != nil {
		return nil, errors.Join(fmt.Errorf("open data directory %s: %w", dir, err), e.db.Close(), e.lock.Close())
	}
	if o.ReplicaLag > 0 {
		e.replica = newReplica(e.db, o.ReplicaLag)
	}
	e.startBackground()
	return e, nil
}

// startBackground starts the background work, which ends when stop is called.
func (e *Engine) startBackground() {
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	go func() {
		defer close(e.done)
		var others sync.WaitGroup
		if e.o.NoSync {
			others.Go(func() { e.syncLoop(ctx) })
		}
		if e.replica != nil {
			others.Go(func() { e.replica.run(ctx) })
		}
		e.purgeLoop(ctx)
		others.Wait()
	}()
}

// openStorage opens Pebble and wraps its errors for the operator.
func (e *Engine) openStorage(dir string, memory vfs.FS) (*pebble.DB, io.Closer, error) {
	o := &pebble.Options{
		MemTableSize:       memTableBytes,
		MaxOpenFiles:       maxOpenFiles,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             pebbleLogger{e},

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
	if dir == "" {
		o.FS = memory
		return e.openPebble("data", "data", o, io.NopCloser(nil))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, directoryError(dir, err)
	}
	// The lock is by name: two names of one directory must give one lock.
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
		return nil, nil, fmt.Errorf("%w: %s is open in another byline process", errInUse, dir)
	}
	o.Lock = lock
	return e.openPebble(dir, name, o, lock)
}

// openPebble opens Pebble in the directory name, called dir in errors. It takes over the lock: it
// returns or closes it.
func (e *Engine) openPebble(dir, name string, o *pebble.Options, lock io.Closer) (*pebble.DB, io.Closer, error) {
	d, err := newDisk(o.FS, name, e.writesFailed)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	o.FS = d
	o.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) {
			if e.o.Logger.Enabled(context.Background(), slog.LevelDebug) {
				e.o.Logger.Debug("pebble", "detail", err.Error())
			}
		},
		CompactionEnd: func(c pebble.CompactionInfo) {
			if c.Err != nil && !errors.Is(c.Err, errFrozen) && !errors.Is(c.Err, pebble.ErrCancelledCompaction) {
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

// Endpoint returns the URL for clients that use the engine as their transport. Each engine has a
// host of its own, because SDKs cache by host.
func (e *Engine) Endpoint() string { return "http://" + e.host + "/" }

func uniqueHost() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return "engine-" + hex.EncodeToString(b[:]) + ".localhost"
}

// Close waits for requests in progress, stops the background work and releases the data directory.
// Later requests get 503. If a write could not be made durable, the error wraps that of the first.
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
	e.releaseReplicated()
	return errors.Join(e.durable.outcome(e.db.Close()), e.lock.Close())
}

// Compact merges all earlier writes into one level of the LSM tree, for fast reads after a bulk
// load. It takes about 10 s per gigabyte; requests continue meanwhile, and ctx can cancel it. If a
// write could not be made durable, the error wraps that of the first.
func (e *Engine) Compact(ctx context.Context) error {
	e.life.RLock()
	defer e.life.RUnlock()
	if e.closed {
		return errClosed
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // Pebble would retry forever
		select {
		case <-e.durable.ended:
			stop()
		case <-ctx.Done():
		}
	}()
	return e.durable.outcome(e.db.Compact(ctx, []byte{0}, []byte{0xFF}, true))
}

var errClosed = errors.New("engine is closed")

// pebbleLogger forwards Pebble's log to slog.
type pebbleLogger struct{ *Engine }

func (l pebbleLogger) Infof(format string, args ...any) {
	if l.o.Logger.Enabled(context.Background(), slog.LevelDebug) {
		l.o.Logger.Debug("pebble", "detail", fmt.Sprintf(format, args...))
	}
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.o.Logger.Error("pebble", "detail", fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble cannot continue. The process must not continue either: later writes
// might be acknowledged and lost.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.writesFailed(fmt.Errorf(format, args...))
	panic(fmt.Sprintf("pebble: "+format, args...))
}
