package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"byline/internal/account"
	"byline/internal/console"
	"byline/store"
	"byline/store/blog"
	"byline/store/files"
	"byline/store/jobs"
	"byline/store/projection"
)

// viewsCommand are the commands that inspect and repair projections.
type viewsCommand struct {
	Status  viewsStatus  `cmd:"" help:"Show the owner and the lag of each feed range, and the jobs."`
	Verify  viewsVerify  `cmd:"" help:"Compare every view, count, name and the feed with its source. Exit status 1 if anything differs."`
	Repair  viewsRepair  `cmd:"" help:"Repair the differences that verify finds."`
	Rebuild viewsRebuild `cmd:"" help:"Replay the change feed from its beginning and repair every view. Instances may keep serving."`
}

// viewsFlags are the flags that the views commands share.
type viewsFlags struct {
	account.Flags
	account.FilesFlags
	JSON bool `name:"json" help:"One JSON object a line instead of a table."`
	console.LogFlags
}

type viewsStatus struct {
	viewsFlags
}

type viewsVerify struct {
	viewsFlags
	Settle time.Duration `name:"settle" default:"5s" help:"How long a view may lag before it counts as different."`
}

type viewsRepair struct {
	viewsFlags
}

type viewsRebuild struct {
	viewsFlags
}

// withBlog opens the store, calls do, and closes it. Progress and the log go to stderr, results to
// stdout.
func (c viewsFlags) withBlog(
	ctx context.Context, s console.Streams, do func(*store.Store, *console.Progress) error,
) (err error) {
	if err := errors.Join(c.Check(), c.CheckFiles()); err != nil {
		return err
	}
	if c.Embedded() { // Open would create an empty one
		if _, err := os.Stat(c.Data); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
	}
	m := console.NewProgress(s)
	defer m.Stop()
	db, err := c.Open(ctx, m.Log, account.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	pictures, err := c.OpenFiles(c.Flags, files.Options{Logger: m.Log, Metrics: db.Metrics})
	if err != nil {
		return err
	}
	st, err := c.Store(db, m.Log, store.Options{Files: pictures})
	if err != nil {
		return err
	}
	if err := st.Ready(ctx); err != nil && blog.CodeOf(err) != blog.Throttled { // later requests wait while throttled
		return fmt.Errorf("%s: %w", db.Where, err)
	}
	return do(st, m)
}

// withProjections runs the projections while do runs. They share the leases with the instances that
// serve.
func withProjections(ctx context.Context, st *store.Store, do func() error) (err error) {
	if err := st.Views().CheckFeed(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- st.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	return do()
}

// withProjectionsIfEmbedded is withProjections if the data is in the embedded engine: no instance has it open,
// so nothing else would apply the pending changes. Otherwise it calls do.
func (c viewsFlags) withProjectionsIfEmbedded(ctx context.Context, st *store.Store, do func() error) error {
	if c.Embedded() {
		return withProjections(ctx, st, do)
	}
	return do()
}

// rangeLine is the status of one feed range of a processor.
type rangeLine struct {
	Processor     string  `json:"processor"`
	Container     string  `json:"container"`
	MinInclusive  string  `json:"minInclusive"`
	MaxExclusive  string  `json:"maxExclusive"`
	Owner         string  `json:"owner"` // "" for none
	Generation    int64   `json:"generation"`
	BehindChanges int64   `json:"behindChanges"`
	BehindSeconds float64 `json:"behindSeconds"`
	ToRebuild     int64   `json:"toRebuild"` // changes that a rebuild has still to apply
}

// printRanges prints the status of the projections.
func (c viewsFlags) printRanges(stdout io.Writer, status []projection.Status) error {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"processor", "container", "range", "owner", "generation", "behind (changes)",
		"behind (seconds)", "to rebuild (changes)"})
	for _, r := range status {
		l := rangeLine{Processor: r.Processor, Container: r.Container, MinInclusive: r.Range.MinInclusive,
			MaxExclusive: r.Range.MaxExclusive, Owner: r.Owner,
			Generation: r.Generation, BehindChanges: r.Lag, ToRebuild: r.Replay}
		if !r.Since.IsZero() {
			l.BehindSeconds = max(0, time.Since(r.Since).Round(time.Second).Seconds())
		}
		if c.JSON {
			if err := json.NewEncoder(stdout).Encode(l); err != nil {
				return err
			}
			continue
		}
		owner := l.Owner
		if owner == "" {
			owner = "nobody"
		}
		t.AppendRow(table.Row{l.Processor, l.Container, l.MinInclusive + "-" + l.MaxExclusive, owner, l.Generation,
			l.BehindChanges, l.BehindSeconds, l.ToRebuild})
	}
	return c.print(stdout, t)
}

// jobLine is the status of a job.
type jobLine struct {
	Kind          string  `json:"kind"`
	Subject       string  `json:"subject"`
	Items         int64   `json:"items"`         // done so far
	PositionSaved bool    `json:"positionSaved"` // otherwise it is at its beginning
	RequestCharge float64 `json:"requestCharge"` // RU, so far
	AgeSeconds    float64 `json:"ageSeconds"`
	Owner         string  `json:"owner"`       // "" for none
	WaitSeconds   float64 `json:"waitSeconds"` // after the last save, before it continues
}

// printJobs prints the status of the jobs, the oldest first. Without jobs it prints no table.
func (c viewsFlags) printJobs(stdout io.Writer, all []jobs.Job) error {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"job", "subject", "items", "position", "RU", "age (seconds)", "owner", "wait (seconds)"})
	slices.SortFunc(all, func(a, b jobs.Job) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, j := range all {
		l := jobLine{Kind: j.Kind, Subject: j.Subject, Items: j.Items, PositionSaved: j.Position != "",
			RequestCharge: math.Round(100*j.RequestCharge) / 100,
			Owner:         j.Owner, WaitSeconds: j.Wait.Seconds()}
		if !j.Created.IsZero() {
			l.AgeSeconds = max(0, time.Since(j.Created).Round(time.Second).Seconds())
		}
		if c.JSON {
			if err := json.NewEncoder(stdout).Encode(l); err != nil {
				return err
			}
			continue
		}
		position := "beginning"
		if l.PositionSaved {
			position = "saved"
		}
		t.AppendRow(table.Row{l.Kind, l.Subject, l.Items, position, fmt.Sprintf("%.2f", l.RequestCharge), l.AgeSeconds,
			cmp.Or(l.Owner, "none"), l.WaitSeconds})
	}
	if len(all) == 0 {
		return nil
	}
	return c.print(stdout, t)
}

// printDifferences prints differences.
func (c viewsFlags) printDifferences(stdout io.Writer, all []projection.Difference, is, want string) error {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"kind", "partition", "item", is, want})
	for _, d := range all {
		if c.JSON {
			if err := json.NewEncoder(stdout).Encode(d); err != nil {
				return err
			}
			continue
		}
		t.AppendRow(table.Row{d.Kind, d.Partition, d.ID, d.Have, d.Want})
	}
	if len(all) == 0 {
		return nil
	}
	return c.print(stdout, t)
}

func (c viewsFlags) print(stdout io.Writer, t table.Writer) error {
	if c.JSON {
		return nil
	}
	_, err := fmt.Fprintln(stdout, t.Render())
	return err
}

func (v *viewsStatus) Run(ctx context.Context, s console.Streams) error {
	return v.withBlog(ctx, s, func(st *store.Store, _ *console.Progress) error {
		status, err := st.Views().Status(ctx)
		if err != nil {
			return err
		}
		jobs, err := st.Views().Jobs(ctx)
		if err != nil {
			return err
		}
		return errors.Join(v.printRanges(s.Stdout, status), v.printJobs(s.Stdout, jobs))
	})
}

// verify returns the differences between the views and their sources.
func (c viewsFlags) verify(
	ctx context.Context, st *store.Store, m *console.Progress, settle time.Duration,
) (found []projection.Difference, err error) {
	err = st.Views().Verify(ctx, settle, func(done, total int) { m.Show("reading", int64(done), int64(total), 0) },
		func(d projection.Difference) { found = append(found, d) })
	if err != nil && ctx.Err() != nil {
		return nil, errors.New("interrupted: the comparison is incomplete")
	}
	return found, err
}

func (v *viewsVerify) Run(ctx context.Context, s console.Streams) error {
	var found []projection.Difference
	err := v.withBlog(ctx, s, func(st *store.Store, m *console.Progress) error {
		return v.withProjectionsIfEmbedded(ctx, st, func() (err error) {
			found, err = v.verify(ctx, st, m, v.Settle)
			return err
		})
	})
	if err == nil {
		err = v.printDifferences(s.Stdout, found, "is", "should be")
	}
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%d differences: to repair them, run byline views repair", len(found))
	}
	s.Log.Info("every view is equal to its source")
	return nil
}

func (v *viewsRepair) Run(ctx context.Context, s console.Streams) error {
	var found, repaired []projection.Difference
	var failed error
	err := v.withBlog(ctx, s, func(st *store.Store, m *console.Progress) error {
		return v.withProjectionsIfEmbedded(ctx, st, func() (err error) {
			if found, err = v.verify(ctx, st, m, 5*time.Second); err != nil {
				return err
			}
			for i, d := range found {
				if err := st.Views().Repair(ctx, d); ctx.Err() != nil {
					return fmt.Errorf("interrupted: %d of %d are repaired", i, len(found))
				} else if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s %s: %w", d.Kind, d.ID, err))
				} else {
					repaired = append(repaired, d)
				}
				m.Show("repairing", int64(i+1), int64(len(found)), 0)
			}
			return nil
		})
	})
	err = errors.Join(err, v.printDifferences(s.Stdout, repaired, "was", "is"))
	if failed != nil {
		err = errors.Join(err,
			fmt.Errorf("%d of %d could not be repaired: %w", len(found)-len(repaired), len(found), failed))
	}
	if err == nil && len(found) == 0 {
		s.Log.Info("every view is equal to its source")
	} else if err == nil {
		s.Log.Info("repaired; the change feed updates the summaries of posts with repaired counts", "done",
			len(repaired))
	}
	return err
}

// followEvery is the interval at which the status of a rebuild is read.
const followEvery = 250 * time.Millisecond

func (v *viewsRebuild) Run(ctx context.Context, s console.Streams) error {
	var status []projection.Status
	err := v.withBlog(ctx, s, func(st *store.Store, m *console.Progress) (err error) {
		if err := st.Views().Rebuild(ctx); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted before every lease was reset: run it again")
			}
			return err
		}
		// The total is read before the work begins.
		if status, err = st.Views().Status(ctx); err == nil {
			total := map[string]int64{}
			showRebuild(m, total, status)
			err = withProjections(ctx, st, func() error {
				for left := true; left && err == nil; left = showRebuild(m, total, status) {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(followEvery):
					}
					status, err = st.Views().Status(ctx)
				}
				return err
			})
		}
		if err != nil && ctx.Err() != nil {
			return errors.New(
				"interrupted: the instances that serve, or the next that starts, resume the rebuild; byline views " +
					"status shows its progress")
		}
		return err
	})
	if err != nil {
		return err
	}
	s.Log.Info("rebuilt")
	return v.printRanges(s.Stdout, status)
}

// showRebuild shows the progress of a rebuild, and reports whether anything is left. total is
// the number of changes of each container.
func showRebuild(m *console.Progress, total map[string]int64, status []projection.Status) bool {
	left, behind := map[string]int64{}, map[string]int64{}
	over := true
	for _, r := range status {
		left[r.Container] += r.Replay
		if r.Replay > 0 {
			behind[r.Container] += r.Lag
			over = false
		}
	}
	for _, container := range slices.Sorted(maps.Keys(left)) {
		total[container] = max(total[container], left[container]) // more when a range was split
		if n := total[container]; n > 0 {
			m.Show("rebuilding "+container, n-left[container], n, behind[container])
		}
	}
	return !over
}
