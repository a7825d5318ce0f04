package projection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// view is something that the projections keep equal to its source. Each view is a type with files of its own, which New
// makes from the base and from the types below it. Some are also projectors or replayers.
type view interface {
	kind() Kind

	// suspects lists what may be wrong after all items were read. Concurrent writes may have caused it.
	suspects(context.Context, *scan) ([]Difference, error)

	// compare compares a possible difference with its source. It returns nil if they match, and otherwise the
	// difference with what there is, and what there should be.
	compare(context.Context, Difference) (*Difference, error)

	// repair makes the view match its source again, where compare has found a difference. Its writes are conditional:
	// if a condition fails, the caller compares the difference again.
	repair(context.Context, Difference) error
}

// projector is a view to which changes of the posts container are applied. Other views are written with their source,
// by another view or by a job, or have their source in another container.
type projector interface {
	project(context.Context, postChanges) error
}

// replayer is a view that a rebuild compares after a page of changed posts was applied.
type replayer interface {
	replaySuspects(context.Context, map[string]*blog.Post) ([]Difference, error)
}

// postChanges are the changes in a page of the change feed of the posts container.
type postChanges struct {
	posts    map[string]*blog.Post // the last change of each post, tombstones included
	authored []blog.Authored       // posts, comments and likes that are not deleted
	authors  map[string]*blog.User // of these, by id; without a name of a malformed user
	likes    []changedLike         // of these
}

// changedLike is a like as the change feed has it.
type changedLike struct {
	blog.LikeItem
	Written int64 `json:"_ts"` // seconds
}

// registry has all views. New sets them: some views use the registry.
type registry struct {
	*base
	views []view // in the order in which changes are applied to them
}

// of returns the view of a kind of difference.
func (r *registry) of(k Kind) (view, error) {
	for _, view := range r.views {
		if view.kind() == k {
			return view, nil
		}
	}
	return nil, &blog.Error{Code: blog.Internal, Op: "verify", Err: fmt.Errorf("unknown kind %q", k)}
}

// suspects lists the differences found by reading, which concurrent writes may have caused.
func (r *registry) suspects(ctx context.Context, s *scan) ([]Difference, error) {
	var found []Difference
	for _, view := range r.views {
		suspects, err := view.suspects(ctx, s)
		if err != nil {
			return nil, err
		}
		found = append(found, suspects...)
	}
	slices.SortFunc(found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.ID, b.ID))
	})
	return slices.Compact(found), nil // a former tombstone may be missing as an entry, too
}

// verify reports what still differs after the settle time, of what a scan makes suspect.
func (r *registry) verify(ctx context.Context, s *scan, settle time.Duration, report func(Difference)) error {
	suspects, err := r.suspects(ctx, s)
	if err != nil {
		return err
	}
	settled := time.NewTimer(settle)
	defer settled.Stop()
	over := false
	for {
		if suspects, err = r.compareAll(ctx, suspects); err != nil {
			return err
		}
		if over {
			for _, d := range suspects {
				report(d)
			}
		}
		if over || len(suspects) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return stored.Error("verify", ctx.Err())
		case <-settled.C:
			over = true
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// compareAll compares possible differences again, several at a time: during a rename there are
// thousands.
func (r *registry) compareAll(ctx context.Context, suspects []Difference) ([]Difference, error) {
	found := make([]*Difference, len(suspects))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, d := range suspects {
		g.Go(func() (err error) {
			found[i], err = r.compare(ctx, d)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var differences []Difference
	for _, d := range found {
		if d != nil {
			differences = append(differences, *d)
		}
	}
	return differences, nil
}

// compare compares a possible difference with its source again. It returns nil if they match.
func (r *registry) compare(ctx context.Context, d Difference) (*Difference, error) {
	if !d.addressable() {
		d.Have, d.Want = "", "unknown: the id cannot be used in a request"
		return &d, nil
	}
	view, err := r.of(d.Kind)
	if err != nil {
		return nil, err
	}
	wrong, err := view.compare(ctx, d)
	switch {
	case errors.Is(err, blog.ErrMalformed):
		d.Have, d.Want = "", "unknown: the source is malformed"
		return &d, nil
	case blog.CodeOf(err) == blog.Conflict:
		d.Have, d.Want = "", "unknown: the post keeps changing"
		return &d, nil
	}
	return wrong, err
}

// repair fixes one difference, if it still exists: see Views.Repair.
func (r *registry) repair(ctx context.Context, d Difference) error {
	const op = "repair"
	ctx = r.account.Begin(ctx, Repair)
	for range 10 {
		now, err := r.compare(ctx, d)
		if now == nil || err != nil {
			return err
		}
		d = *now
		if !d.addressable() {
			return &blog.Error{Code: blog.Conflict, Op: op,
				Message: fmt.Sprintf("%s %q cannot be addressed", d.Kind, d.ID)}
		}
		view, err := r.of(d.Kind)
		if err != nil {
			return err
		}
		err = view.repair(ctx, d)
		if errors.Is(err, blog.ErrMalformed) {
			return &blog.Error{Code: blog.Conflict, Op: op,
				Message: fmt.Sprintf("the source of %s %s cannot be read", d.Kind, d.ID), Err: err}
		}
		if errors.Is(err, itemjson.ErrLater) {
			return &blog.Error{Code: blog.Conflict, Op: op,
				Message: fmt.Sprintf("%s %s is of a later version of Byline: repair it with that", d.Kind, d.ID),
				Err:     err}
		}
		if !cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound) {
			if err != nil {
				return stored.Error(op, err)
			}
			continue // compare again
		}
	}
	return &blog.Error{Code: blog.Conflict, Op: op, Message: fmt.Sprintf("%s %s keeps changing", d.Kind, d.ID)}
}

// repairAll repairs differences, several at a time. It logs and skips conflicts and writes refused by full
// partitions, which Verify reports.
func (r *registry) repairAll(ctx context.Context, suspects []Difference) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, d := range suspects {
		g.Go(func() error {
			err := r.repair(ctx, d)
			switch blog.CodeOf(err) {
			case blog.LimitReached:
				r.metrics.skipped.Inc()
				fallthrough
			case blog.Conflict:
				r.o.Logger.Warn("not repaired", logKind, d.Kind, logPartition, d.Partition, logItem, d.ID, logError,
					err)
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// repairReplayed repairs what a rebuild compares for a page of changed posts. Their summaries are replayed with the
// users container.
func (r *registry) repairReplayed(ctx context.Context, posts map[string]*blog.Post) error {
	if len(posts) == 0 {
		return nil
	}
	var all []Difference
	for _, view := range r.views {
		replayer, ok := view.(replayer)
		if !ok {
			continue
		}
		suspects, err := replayer.replaySuspects(ctx, posts)
		if err != nil {
			return err
		}
		all = append(all, suspects...)
	}
	return r.repairAll(ctx, all)
}

// differences returns possible differences of items.
func differences(k Kind, items []cosmos.Key) (all []Difference) {
	for _, key := range items {
		all = append(all, Difference{Kind: k, Partition: key.Partition, ID: key.ID})
	}
	return all
}
