package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"byline/internal/console"
	"byline/store"
)

// viewsConfig is what `byline views` can be told: to look after the copies.
type viewsConfig struct {
	Status  viewsStatus  `cmd:"" help:"Show who brings the changes of each feed range to the copies, and how far behind they are."`
	Verify  viewsVerify  `cmd:"" help:"Compare every copy, count, name and the feed with its source. Exit status 1 if anything differs."`
	Repair  viewsRepair  `cmd:"" help:"Mend exactly what verify finds."`
	Rebuild viewsRebuild `cmd:"" help:"Start over from the beginning of the change feed, beside instances that serve, and mend whatever passes by."`
}

// viewsCommand is what all of these commands can be told.
type viewsCommand struct {
	cosmosConfig `embed:""`
	JSON         bool `name:"json" help:"One JSON object a line instead of a table."`
}

type viewsStatus struct {
	viewsCommand `embed:""`
}

type viewsVerify struct {
	viewsCommand `embed:""`
	Settle       time.Duration `default:"5s" help:"How long a copy may be on its way before it counts as different."`
}

type viewsRepair struct {
	viewsCommand `embed:""`
}

type viewsRebuild struct {
	viewsCommand `embed:""`
}

// views runs a command on the blog's copies. Progress and the log go to stderr,
// results to stdout.
func (c viewsCommand) views(ctx context.Context, log *slog.Logger, stderr io.Writer, do func(*store.Store, *console.Progress) error) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if c.embedded() { // which would be made anew, for nothing
		if _, err := os.Stat(c.Data); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
	}
	m := console.NewProgress(log, stderr)
	defer m.Stop()
	db, err := c.connect(ctx, m.Log, traces{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	blog, err := c.open(db, m.Log, time.Now)
	if err != nil {
		return err
	}
	if err := blog.Ready(ctx); err != nil && store.CodeOf(err) != store.Throttled { // the rest waits for as long as it takes
		return fmt.Errorf("%s: %w", db.where, err)
	}
	return do(blog, m)
}

// withProjections runs the projections while do is at work. They take their share
// of the work, or all of it if no instance serves.
func withProjections(ctx context.Context, blog *store.Store, do func() error) (err error) {
	if err := blog.CheckFeed(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- blog.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	return do()
}

// settled is withProjections where nobody else can have the data open: what is on
// its way needs somebody to bring it.
func (c viewsCommand) settled(ctx context.Context, blog *store.Store, do func() error) error {
	if c.embedded() {
		return withProjections(ctx, blog, do)
	}
	return do()
}

// rangeLine is how far a processor has come with one feed range.
type rangeLine struct {
	Processor     string  `json:"processor"`
	Container     string  `json:"container"`
	MinInclusive  string  `json:"minInclusive"`
	MaxExclusive  string  `json:"maxExclusive"`
	Owner         string  `json:"owner"` // "" if nobody
	Generation    int64   `json:"generation"`
	BehindChanges int64   `json:"behindChanges"`
	BehindSeconds float64 `json:"behindSeconds"`
	ToRebuild     int64   `json:"toRebuild"` // changes that a rebuild has still to bring
}

// printRanges prints how far the projections have come.
func (c viewsCommand) printRanges(stdout io.Writer, status []store.ProjectionStatus) error {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"processor", "container", "range", "owner", "generation", "behind (changes)", "behind (seconds)", "to rebuild (changes)"})
	for _, r := range status {
		l := rangeLine{Processor: r.Processor, Container: r.Container, MinInclusive: r.Range.MinInclusive, MaxExclusive: r.Range.MaxExclusive, Owner: r.Owner,
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
		t.AppendRow(table.Row{l.Processor, l.Container, l.MinInclusive + "-" + l.MaxExclusive, owner, l.Generation, l.BehindChanges, l.BehindSeconds, l.ToRebuild})
	}
	return c.print(stdout, t)
}

// printDifferences prints differences.
func (c viewsCommand) printDifferences(stdout io.Writer, all []store.Difference, is, want string) error {
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

func (c viewsCommand) print(stdout io.Writer, t table.Writer) error {
	if c.JSON {
		return nil
	}
	_, err := fmt.Fprintln(stdout, t.Render())
	return err
}

func (v viewsStatus) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Writer) error {
	return v.views(ctx, log, stderr, func(blog *store.Store, _ *console.Progress) error {
		status, err := blog.Projections(ctx)
		if err != nil {
			return err
		}
		return v.printRanges(stdout, status)
	})
}

// verify finds what differs.
func (c viewsCommand) verify(ctx context.Context, blog *store.Store, m *console.Progress, settle time.Duration) (found []store.Difference, err error) {
	err = blog.Verify(ctx, settle, func(done, total int) { m.Show("reading", int64(done), int64(total), 0) },
		func(d store.Difference) { found = append(found, d) })
	if err != nil && ctx.Err() != nil {
		return nil, errors.New("interrupted: nothing was compared to the end")
	}
	return found, err
}

func (v viewsVerify) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Writer) error {
	var found []store.Difference
	err := v.views(ctx, log, stderr, func(blog *store.Store, m *console.Progress) error {
		return v.settled(ctx, blog, func() (err error) {
			found, err = v.verify(ctx, blog, m, v.Settle)
			return err
		})
	})
	if err == nil {
		err = v.printDifferences(stdout, found, "is", "should be")
	}
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%d differences; byline views repair mends them", len(found))
	}
	log.Info("every copy is equal to its source")
	return nil
}

func (v viewsRepair) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Writer) error {
	var found, mended []store.Difference
	var failed error
	err := v.views(ctx, log, stderr, func(blog *store.Store, m *console.Progress) error {
		return v.settled(ctx, blog, func() (err error) {
			if found, err = v.verify(ctx, blog, m, 5*time.Second); err != nil {
				return err
			}
			for i, d := range found {
				if err := blog.Repair(ctx, d); ctx.Err() != nil {
					return fmt.Errorf("interrupted: %d of %d are mended", i, len(found))
				} else if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s %s: %w", d.Kind, d.ID, err))
				} else {
					mended = append(mended, d)
				}
				m.Show("mending", int64(i+1), int64(len(found)), 0)
			}
			return nil
		})
	})
	err = errors.Join(err, v.printDifferences(stdout, mended, "was", "is"))
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("%d of %d could not be mended: %w", len(found)-len(mended), len(found), failed))
	}
	if err == nil && len(found) == 0 {
		log.Info("every copy is equal to its source")
	} else if err == nil {
		log.Info("mended; the copies of posts whose counts were wrong follow through the change feed", logDone, len(mended))
	}
	return err
}

// followEvery is how often a rebuild is looked at.
const followEvery = 250 * time.Millisecond

func (v viewsRebuild) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Writer) error {
	var status []store.ProjectionStatus
	err := v.views(ctx, log, stderr, func(blog *store.Store, m *console.Progress) (err error) {
		if err := blog.Rebuild(ctx); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted before everything was sent back to the beginning: run it again")
			}
			return err
		}
		// How much there is to do is looked at before the work begins.
		if status, err = blog.Projections(ctx); err == nil {
			total := map[string]int64{}
			showRebuild(m, total, status)
			err = withProjections(ctx, blog, func() error {
				for left := true; left && err == nil; left = showRebuild(m, total, status) {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(followEvery):
					}
					status, err = blog.Projections(ctx)
				}
				return err
			})
		}
		if err != nil && ctx.Err() != nil {
			return errors.New("interrupted: the rebuild goes on in the instances that serve, or in the next that starts; byline views status shows what is left")
		}
		return err
	})
	if err != nil {
		return err
	}
	log.Info("rebuilt")
	return v.printRanges(stdout, status)
}

// showRebuild shows how far a rebuild has come, and reports whether anything is
// left. total is what there was of each container.
func showRebuild(m *console.Progress, total map[string]int64, status []store.ProjectionStatus) bool {
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
