package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"byline/store/cosmos"
)

// Times of a Runner. A claim is judged by its renewals, which a slice and units that take longer make.
const (
	slice    = time.Second            // of units in a turn. A unit always ends: cut off, it would never end if it takes longer
	expiry   = 5 * time.Second        // after which a claim that its owner has not renewed is void
	renewal  = expiry / 3             // the age of a claim that is renewed
	farewell = 400 * time.Millisecond // to finish a save when Run ends, and again to release the claim
	retry    = time.Second            // the first wait after a failure
	watch    = 3 * time.Second        // interval of listings while there are jobs, if one takes no longer than a tenth
	poll     = 30 * time.Second       // and while there are none; also the longest wait after a failure
)

// pauses is the least ratio of the wait between listings to the time of the last one: with many jobs a
// listing takes long, and its requests are charged for.
const pauses = 10

const (
	turns    = 4    // jobs that a Runner works on at a time
	maxTasks = 1000 // jobs of which it takes turns
)

// listing finds jobs: the leases of a change feed have no kind.
const listing = "SELECT * FROM c WHERE IS_DEFINED(c.kind)"

// Names of log attributes.
const (
	logKind          = "kind"
	logSubject       = "subject"
	logError         = "error"
	logItems         = "items"
	logRequestCharge = "requestCharge"
)

// Options of a Runner. Owner and Kinds are required.
type Options struct {
	Owner   string                // names this process; running processes need different names
	Kinds   map[string]Work       // what to do, by kind; jobs of other kinds are left alone
	RU      float64               // RU per second for all jobs of the Runner together; 0: unlimited
	Pattern cosmos.Pattern        // of the requests of jobs; default cosmos.Unnamed
	Clock   func() time.Time      // dates jobs; default time.Now
	Logger  *slog.Logger          // default: none
	Metrics prometheus.Registerer // runners may share it; default: a registry that nobody reads

	// Skipped is called with items that have a kind and are no jobs. Default: nothing is.
	Skipped func(item []byte, err error)
}

func (o Options) withDefaults() Options {
	if o.Pattern == "" {
		o.Pattern = cosmos.Unnamed
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
	if o.Skipped == nil {
		o.Skipped = func([]byte, error) {}
	}
	return o
}

// Runner works on the jobs of a leases container, in turns.
type Runner struct {
	leases  *cosmos.Container
	o       Options
	metrics *metrics
	rate    *cosmos.Rate        // nil: none
	turns   *semaphore.Weighted // first come, first served
	changed chan struct{}       // something is fresh, or due

	mu    sync.Mutex
	due   bool                // guarded by mu; all jobs are to be listed
	fresh map[string]bool     // guarded by mu; ids of jobs that were enqueued here, or changed by others meanwhile
	tasks map[string]*task    // guarded by mu; by id
	seen  map[string]sighting // guarded by mu; the jobs that are known, by id
}

// sighting is since when a claim is known. Its expiry is judged by that alone, never by the time of
// another machine.
type sighting struct {
	Job
	since time.Time
}

// New returns a Runner on the container of leases, of Account.Background.
func New(leases *cosmos.Container, o Options) (*Runner, error) {
	r := &Runner{leases: leases, o: o.withDefaults(), turns: semaphore.NewWeighted(turns), changed: make(chan struct{}, 1),
		fresh: map[string]bool{}, tasks: map[string]*task{}, seen: map[string]sighting{}}
	if o.RU > 0 {
		r.rate = cosmos.NewRate(o.RU)
	}
	var err error
	r.metrics, err = newMetrics(r.o)
	return r, err
}

// Enqueue creates a job. generation is the version of the subject that asks for it, such as a revision:
// a job of an older one begins again, and one of the same or a newer one just goes on, so that a repeated
// change repeats no work. Nothing is lost if the process ends after Enqueue has returned.
func (r *Runner) Enqueue(ctx context.Context, kind, subject string, generation int64) error {
	j := Job{ID: kind + "." + subject, Kind: kind, Subject: subject, Generation: generation, Created: r.o.Clock().UTC()}
	item, err := json.Marshal(j)
	if err != nil {
		return err
	}
	newer := cosmos.Patch{Condition: fmt.Sprintf("from c where NOT IS_NUMBER(c.generation) OR c.generation < %d", generation)}
	newer.Set("/generation", generation)
	newer.Set("/position", "")
	newer.Set("/wait", 0)
	for range 10 {
		err = r.leases.Create(ctx, j.ID, item)
		if cosmos.HasStatus(err, http.StatusConflict) {
			_, err = r.leases.Patch(ctx, j.key(), newer)
		}
		if cosmos.HasStatus(err, http.StatusPreconditionFailed) {
			return nil
		}
		if !gone(err) { // otherwise it has ended meanwhile
			break
		}
	}
	if err != nil {
		return fmt.Errorf("enqueue job %s: %w", j.ID, err)
	}
	r.look(j.ID)
	return nil
}

// gone reports whether an item does not exist.
func gone(err error) bool {
	return cosmos.HasStatus(err, http.StatusNotFound) && !cosmos.ErrorOf(err).Unavailable()
}

// look has Run read a job.
func (r *Runner) look(id string) {
	r.mu.Lock()
	r.fresh[id] = true
	r.mu.Unlock()
	signal(r.changed)
}

// Check has Run list the jobs soon: another process may have left some.
func (r *Runner) Check() {
	r.mu.Lock()
	r.due = true
	r.mu.Unlock()
	signal(r.changed)
}

// signal has a channel with a buffer of one hold a value.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run works on jobs until ctx ends. Then it releases them, within a second, and returns nil. It must
// not be called again before it has returned.
func (r *Runner) Run(ctx context.Context) error {
	unlimited := cosmos.WithPattern(ctx, r.o.Pattern) // out of the rate: of many jobs, its charge would leave nothing to do them
	ctx = cosmos.WithRate(unlimited, r.rate)
	defer r.metrics.open.Store(nil) // after the last task
	var working sync.WaitGroup
	defer working.Wait()
	next, interval := time.Now(), watch // of listings
	for last := next.Add(-retry); ctx.Err() == nil; {
		now := time.Now()
		fresh, due := r.take()
		if due && last.Add(retry).Before(next) {
			next = last.Add(retry)
		}
		all := !now.Before(next)
		if all {
			last = now
		}
		jobs, err := r.find(unlimited, fresh, all)
		if all {
			interval = max(watch, pauses*time.Since(now))
		}
		switch soon := now.Add(interval); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			r.o.Logger.Warn("jobs not found, retrying", logError, err)
			next = now.Add(retry)
		case len(jobs) > 0 && (all || soon.Before(next)):
			next = soon
		case all:
			next = now.Add(poll)
		}
		if err == nil {
			r.see(jobs, all)
		}
		for _, j := range jobs {
			r.offer(ctx, &working, j, now)
		}
		pause(ctx, r.changed, time.Until(next))
	}
	return nil
}

// see records jobs that were found, which may be all.
func (r *Runner) see(jobs []Job, all bool) {
	now := time.Now() // not before they were read
	r.mu.Lock()
	defer r.mu.Unlock()
	before := maps.Clone(r.seen)
	if all {
		clear(r.seen)
	}
	for _, j := range jobs {
		s := before[j.ID]
		if s.Renewals != j.Renewals || s.Owner != j.Owner || !s.Created.Equal(j.Created) { // Enqueue changes none of them
			s.since = now
		}
		s.Job = j
		r.seen[j.ID] = s
	}
	r.metrics.show(r.seen)
}

// take returns which jobs are to be read, and whether all are soon.
func (r *Runner) take() (fresh map[string]bool, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, due = r.fresh, r.due
	r.fresh, r.due = map[string]bool{}, false
	return fresh, due
}

// find reads all jobs, or only some.
func (r *Runner) find(ctx context.Context, fresh map[string]bool, all bool) ([]Job, error) {
	if all {
		return r.List(ctx)
	}
	var keys []cosmos.Key
	for id := range fresh {
		keys = append(keys, cosmos.Key{Partition: id, ID: id})
	}
	items, err := r.leases.ReadMany(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err) // the next listing finds them
	}
	return r.decode(nil, items), nil
}

// List returns all jobs, also those of kinds that the Runner does not know.
func (r *Runner) List(ctx context.Context) (all []Job, err error) {
	for page, err := range r.leases.Query(ctx, cosmos.Query{Text: listing, AllPartitions: true}) {
		if err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
		all = r.decode(all, page)
	}
	return all, nil
}

// decode appends the jobs among items. It skips what is malformed.
func (r *Runner) decode(to []Job, items [][]byte) []Job {
	for _, item := range items {
		j, err := decode(item)
		if err != nil {
			r.o.Skipped(item, err)
			continue
		}
		to = append(to, j)
	}
	return to
}

// offer begins to work on a job that was read at a time, or later, unless another instance does: one that
// has not renewed its claim for expiry, and the wait of the job, does not.
func (r *Runner) offer(ctx context.Context, working *sync.WaitGroup, j Job, read time.Time) {
	work := r.o.Kinds[j.Kind]
	if work == nil {
		return
	}
	void := time.Duration(0) // the work of a job that was released returns what is left of its wait
	if j.Owner != "" && j.Owner != r.o.Owner {
		void = expiry + j.Wait
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tasks[j.ID]; t != nil {
		if j.Generation > t.generation {
			t.wake()
		}
		return
	}
	if void > 0 && read.Sub(r.seen[j.ID].since) < void || len(r.tasks) == maxTasks {
		return
	}
	t := newTask(ctx, r, j, work)
	r.tasks[j.ID] = t
	working.Go(func() {
		ended := t.run()
		r.mu.Lock()
		delete(r.tasks, j.ID)
		if ended {
			delete(r.seen, j.ID)
			r.metrics.show(r.seen)
		}
		r.mu.Unlock()
		if !ended {
			r.look(j.ID)
		}
	})
}

// pause waits until d has passed, early is closed or has a value, or ctx ends. It reports whether d has
// passed.
func pause(ctx context.Context, early <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-early:
	case <-t.C:
		return true
	}
	return false
}
