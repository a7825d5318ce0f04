package emulator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"byline/store/emulator/internal/query"
	"byline/store/emulator/internal/sql"
	"byline/store/emulator/internal/storage"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const maxNewRanges = 256 // physical partitions of a new container

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
	}
	return nil
}

// Engine is an account: databases, containers and items in one data directory. It is safe for
// concurrent use.
type Engine struct {
	o    Options // with defaults
	db   *pebble.DB
	lock io.Closer // of the data directory
	host string
	auth *authenticator

	life   sync.RWMutex // held for reading while a request runs, for writing by Close
	closed bool         // guarded by life

	changing chan struct{}           // semaphore of metadata changes
	next     uint32                  // guarded by changing: the next number to allocate
	catalog  atomic.Pointer[catalog] // replaced under changing

	durable    *durability
	background backgroundSlot
	replica    *replica // nil without Options.ReplicaLag
	queries    *query.Engine
	conditions sql.Cache // of patches

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
	e := &Engine{o: o, host: uniqueHost(), queries: query.New(o.Clock), conditions: sql.NewCache(sql.ParseCondition),
		durable: newDurability(o.NoSync), background: make(backgroundSlot, 1), changing: make(chan struct{}, 1),
		done: make(chan struct{})}
	var err error
	if e.auth, err = newAuthenticator(o.Key); err != nil {
		return nil, fmt.Errorf("key: not base64: %w", err)
	}
	if e.db, e.lock, err = storage.Open(dir, memory, o.Logger, e.writesFailed); err != nil {
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
