package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"byline/internal/itemjson"
	"byline/store/cosmos"
)

// Times of a Runner. The owner of a job renews its claim after each slice, and during units that take longer.
const (
	// time after which no further unit of a job begins; a running unit is not cut off
	slice            = time.Second
	expiry           = 5 * time.Second        // age at which a claim that was not renewed expires
	renewal          = expiry / 3             // age at which a claim is renewed
	stopTimeout      = 400 * time.Millisecond // when Run ends: to finish a save, and again to release the claim
	retry            = time.Second            // first wait after a failure
	listInterval     = 3 * time.Second        // shortest interval of listings while there are jobs
	idleListInterval = 30 * time.Second       // interval while there are none; also the longest wait after a failure
)

// listRatio is the least ratio of the interval of listings to the duration of the last one: with many jobs a
// listing takes long and costs RU.
const listRatio = 10

const (
	slots    = 4    // jobs that a Runner works on at a time
	maxTasks = 1000 // jobs that share the slots
)

// listing selects jobs: unlike them, the leases of a change feed have no kind.
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
	Owner   string                // name of this process; running processes need different names
	Kinds   map[string]Work       // work by kind; jobs of other kinds, and of later versions, are ignored
	RU      float64               // RU per second for all jobs of the Runner together; 0: unlimited
	Pattern cosmos.Pattern        // pattern of the requests of jobs; default cosmos.Unnamed
	Clock   func() time.Time      // dates jobs; default time.Now
	Logger  *slog.Logger          // default: none
	Metrics prometheus.Registerer // runners may share it; default: none

	// Skipped is called with malformed jobs. Default: they are ignored.
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

// Runner works on the jobs of a leases container in slices, on a few at a time.
type Runner struct {
	leases  *cosmos.Container
	o       Options
	metrics *metrics
	rate    *cosmos.Rate        // nil: unlimited
	slots   *semaphore.Weighted // first come, first served
	changed chan struct{}       // signals that due or fresh was set

	mu    sync.Mutex
	due   bool                   // guarded by mu; Run must list all jobs soon
	fresh map[string]bool        // guarded by mu; ids of jobs to read now: enqueued here, or changed by others
	tasks map[string]*task       // guarded by mu; by id
	seen  map[string]observation // guarded by mu; the known jobs, by id
}

// observation is a job and since when this process has seen its claim unchanged. Only that decides whether
// the claim has expired, never the clock of another machine.
type observation struct {
	Job
	since time.Time
}

// New returns a Runner on the leases container of Account.Background.
func New(leases *cosmos.Container, o Options) (*Runner, error) {
	r := &Runner{leases: leases, o: o.withDefaults(), slots: semaphore.NewWeighted(slots),
		changed: make(chan struct{}, 1),
		fresh:   map[string]bool{}, tasks: map[string]*task{}, seen: map[string]observation{}}
	if o.RU > 0 {
		r.rate = cosmos.NewRate(o.RU)
	}
	var err error
	r.metrics, err = newMetrics(r.o)
	return r, err
}

// Enqueue creates a job. generation is the version of the subject, such as a revision: an existing job of an
// older generation restarts, and one of the same or a newer generation continues, so that a repeated change
// repeats no work. The job is durable once Enqueue returns.
func (r *Runner) Enqueue(ctx context.Context, kind, subject string, generation int64) error {
	j := Job{ID: kind + "." + subject, Kind: kind, Subject: subject, Generation: generation, Created: r.o.Clock().UTC()}
	item, err := itemjson.Encode(j)
	if err != nil {
		return err
	}
	newer := cosmos.Patch{Condition: fmt.Sprintf("from c where NOT IS_NUMBER(c.generation) OR c.generation < %d",
		generation)}
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
		if !gone(err) { // otherwise the job has ended meanwhile
			break
		}
	}
	if err != nil {
		return fmt.Errorf("enqueue job %s: %w", j.ID, err)
	}
	r.readSoon(j.ID)
	return nil
}

// gone reports whether an item does not exist.
func gone(err error) bool {
	return cosmos.HasStatus(err, http.StatusNotFound) && !cosmos.ErrorOf(err).Unavailable()
}

// readSoon makes Run read a job now.
func (r *Runner) readSoon(id string) {
	r.mu.Lock()
	r.fresh[id] = true
	r.mu.Unlock()
	signal(r.changed)
}

// Refresh makes Run list all jobs soon, as another process may have released some.
func (r *Runner) Refresh() {
	r.mu.Lock()
	r.due = true
	r.mu.Unlock()
	signal(r.changed)
}

// signal sends to a channel with a buffer of one, unless that is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run works on jobs until ctx ends. Then it releases them, within a second, and returns nil. It must not run
// twice at the same time.
func (r *Runner) Run(ctx context.Context) error {
	unlimited := cosmos.WithPattern(ctx, r.o.Pattern) // listings of many jobs would use up the rate
	ctx = r.rate.Limit(unlimited)
	defer r.metrics.open.Store(nil) // after the last task
	var working sync.WaitGroup
	defer working.Wait()
	next, interval := time.Now(), listInterval // time of the next listing, and the interval of listings
	for last := next.Add(-retry); ctx.Err() == nil; {
		now := time.Now()
		fresh, due := r.takeFresh()
		if due && last.Add(retry).Before(next) {
			next = last.Add(retry)
		}
		all := !now.Before(next)
		if all {
			last = now
		}
		jobs, err := r.find(unlimited, fresh, all)
		if all {
			interval = max(listInterval, listRatio*time.Since(now))
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
			next = now.Add(idleListInterval)
		}
		if err == nil {
			r.observe(jobs, all)
		}
		for _, j := range jobs {
			r.startTask(ctx, &working, j, now)
		}
		pause(ctx, r.changed, time.Until(next))
	}
	return nil
}

// observe records jobs that were read. all says that they are all the jobs.
func (r *Runner) observe(jobs []Job, all bool) {
	now := time.Now() // must not be before they were read
	r.mu.Lock()
	defer r.mu.Unlock()
	before := maps.Clone(r.seen)
	if all {
		clear(r.seen)
	}
	for _, j := range jobs {
		s := before[j.ID]
		// Enqueue changes none of them
		if s.Renewals != j.Renewals || s.Owner != j.Owner || !s.Created.Equal(j.Created) {
			s.since = now
		}
		s.Job = j
		r.seen[j.ID] = s
	}
	r.metrics.setOpen(r.seen)
}

// takeFresh returns and resets fresh and due.
func (r *Runner) takeFresh() (fresh map[string]bool, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, due = r.fresh, r.due
	r.fresh, r.due = map[string]bool{}, false
	return fresh, due
}

// find reads all jobs, or only the fresh ones.
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

// List returns all jobs, including those of unknown kinds.
func (r *Runner) List(ctx context.Context) (all []Job, err error) {
	for page, err := range r.leases.Query(ctx, cosmos.Query{Text: listing, AllPartitions: true}) {
		if err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
		all = r.decode(all, page)
	}
	return all, nil
}

// decode appends the jobs in items to to. It skips malformed ones.
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

// startTask starts to work on a job, unless another instance owns it or it is of a later version. Its claim expires if
// it is not renewed for expiry plus the wait of the job. read is a time before the job was read.
func (r *Runner) startTask(ctx context.Context, working *sync.WaitGroup, j Job, read time.Time) {
	work := r.o.Kinds[j.Kind]
	if work == nil || itemjson.IsLater(j.raw) {
		return
	}
	valid := time.Duration(0) // of the claim; a released job has none, and its work returns the remaining wait
	if j.Owner != "" && j.Owner != r.o.Owner {
		valid = expiry + j.Wait
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tasks[j.ID]; t != nil {
		if j.Generation > t.generation {
			t.wake()
		}
		return
	}
	if valid > 0 && read.Sub(r.seen[j.ID].since) < valid || len(r.tasks) == maxTasks {
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
			r.metrics.setOpen(r.seen)
		}
		r.mu.Unlock()
		if !ended {
			r.readSoon(j.ID)
		}
	})
}

// pause waits for d, but no longer than until early is ready or ctx ends. It reports whether d has passed.
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
