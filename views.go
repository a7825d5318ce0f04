package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"byline/store"
)

// viewsConfig is what `byline views` can be told: to look after the copies.
type viewsConfig struct {
	Status viewsStatus `cmd:"" help:"Show who brings the changes of each feed range to the copies, and how far behind they are."`
	Verify viewsVerify `cmd:"" help:"Compare every copy, count, name and the feed with its source. Exit status 1 if anything differs."`
	Repair viewsRepair `cmd:"" help:"Mend exactly what verify finds."`
}

type viewsStatus struct {
	cosmosConfig `embed:""`
}

type viewsVerify struct {
	cosmosConfig `embed:""`
	JSON         bool          `name:"json" help:"One JSON object a line for each difference."`
	Settle       time.Duration `default:"5s" help:"How long a copy may be on its way before it counts as different."`
}

type viewsRepair struct {
	cosmosConfig `embed:""`
}

// views runs a command on the blog's copies. Progress goes to the log, results to
// stdout. With mend, copies that are on their way in an embedded engine arrive.
func (c cosmosConfig) views(ctx context.Context, log *slog.Logger, mend bool, do func(*store.Store) error) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	db, err := c.connect(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	blog, err := c.open(db, log, time.Now)
	if err != nil {
		return err
	}
	if err := blog.Ready(ctx); err != nil {
		return fmt.Errorf("%s: %w", db.where, err)
	}
	if mend && c.embedded() {
		// Nobody else can have the engine open, so what is on its way needs somebody
		// to bring it.
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- blog.Run(running) }()
		defer func() {
			stop()
			err = errors.Join(err, <-done)
		}()
	}
	return do(blog)
}

// progress reports how many items have been read, once a second.
func progress(log *slog.Logger) func(int) {
	told := time.Now()
	return func(items int) {
		if time.Since(told) >= time.Second {
			told = time.Now()
			log.Info("reading", logDone, items)
		}
	}
}

func (v viewsStatus) run(ctx context.Context, log *slog.Logger, stdout io.Writer) error {
	return v.views(ctx, log, false, func(blog *store.Store) error {
		status, err := blog.Projections(ctx)
		if err != nil {
			return err
		}
		t := table.NewWriter()
		t.SetOutputMirror(stdout)
		t.AppendHeader(table.Row{"container", "range", "owner", "generation", "behind (changes)", "behind (seconds)"})
		for _, r := range status {
			seconds := 0.0
			if !r.Since.IsZero() {
				seconds = time.Since(r.Since).Round(time.Second).Seconds()
			}
			owner := r.Owner
			if owner == "" {
				owner = "nobody"
			}
			t.AppendRow(table.Row{r.Container, r.Range.MinInclusive + "-" + r.Range.MaxExclusive, owner, r.Generation, r.Lag, seconds})
		}
		t.Render()
		return nil
	})
}

func (v viewsVerify) run(ctx context.Context, log *slog.Logger, stdout io.Writer) error {
	return v.views(ctx, log, true, func(blog *store.Store) error {
		found := 0
		t := table.NewWriter()
		t.SetOutputMirror(stdout)
		t.AppendHeader(table.Row{"kind", "partition", "item", "is", "should be"})
		var failed error
		err := blog.Verify(ctx, v.Settle, progress(log), func(d store.Difference) {
			found++
			if v.JSON {
				failed = errors.Join(failed, json.NewEncoder(stdout).Encode(d))
				return
			}
			t.AppendRow(table.Row{d.Kind, d.Partition, d.ID, d.Have, d.Want})
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		if found == 0 {
			log.Info("every copy is equal to its source")
			return nil
		}
		if !v.JSON {
			t.Render()
		}
		return fmt.Errorf("%d differences; byline views repair mends them", found)
	})
}

func (v viewsRepair) run(ctx context.Context, log *slog.Logger) error {
	return v.views(ctx, log, true, func(blog *store.Store) error {
		var found []store.Difference
		err := blog.Verify(ctx, 5*time.Second, progress(log), func(d store.Difference) { found = append(found, d) })
		if err != nil {
			return err
		}
		for _, d := range found {
			if err := blog.Repair(ctx, d); err != nil {
				return err
			}
			log.Info("mended", logKind, d.Kind, logPartition, d.Partition, logItem, d.ID)
		}
		log.Info("every copy is equal to its source", logDone, len(found))
		return nil
	})
}
