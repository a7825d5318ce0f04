package projection

import (
	"context"
	"slices"
	"sync"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// sums adds up counters. One caller at a time writes, for all that wait, so that a process does not compete with
// itself for the items.
type sums struct {
	*base
	counters timelineCounters
	idle     chan struct{} // has a value while no caller writes

	mu      sync.Mutex
	waiting []*addition // guarded by mu
}

// addition is the months that one caller waits for.
type addition struct {
	groups [][]monthKey // not yet added up; of the caller that writes
}

func newSums(b *base) *sums {
	s := &sums{base: b, counters: timelineCounters{b}, idle: make(chan struct{}, 1)}
	s.idle <- struct{}{}
	return s
}

// add copies the counters of months to the items of their timelines. Those of a group, such as the tags of a post,
// change together. If ctx has a deadline, a batch that has begun may end up to sumsTimeout later.
func (s *sums) add(ctx context.Context, groups [][]monthKey) error {
	if len(groups) == 0 {
		return nil
	}
	mine := &addition{groups: groups}
	s.mu.Lock()
	s.waiting = append(s.waiting, mine)
	s.mu.Unlock()
	defer s.leave(mine)
	select {
	case <-ctx.Done():
		return stored.Error("add up counts", ctx.Err())
	case <-s.idle:
	}
	done, err := len(mine.groups) == 0, error(nil)
	if !done {
		err = s.addWaiting(ctx, mine)
	}
	s.idle <- struct{}{}
	if done && cosmos.SessionFrom(ctx) != nil {
		// The session learns of a write that another caller has made.
		_, err = s.feed.ReadPrimary(ctx, stored.TimelineKey(blog.AllPosts))
	}
	return stored.Error("add up counts", err)
}

// leave removes an addition, whether it is done or not.
func (s *sums) leave(a *addition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(b *addition) bool { return a == b })
}

// sumsTimeout limits a batch for a caller with a deadline.
const sumsTimeout = 3 * time.Second

// addWaiting does mine, and what other callers wait for as far as batches have space for it.
func (s *sums) addWaiting(ctx context.Context, mine *addition) error {
	alone := false // others' additions may have failed
	for len(mine.groups) > 0 {
		additions := []*addition{mine}
		if !alone {
			s.mu.Lock()
			for _, a := range s.waiting {
				if a != mine {
					additions = append(additions, a)
				}
			}
			s.mu.Unlock()
		}
		months, taken := nextBatch(additions)
		if err := s.addBatch(ctx, months); err != nil {
			if len(taken) == 1 || ctx.Err() != nil {
				return err
			}
			alone = true
			continue
		}
		for a, n := range taken {
			a.groups = a.groups[n:]
		}
	}
	return nil
}

// nextBatch returns the months of as many groups as one transactional batch can write, and how many of each addition.
func nextBatch(additions []*addition) (months map[monthKey]bool, taken map[*addition]int) {
	months, taken = map[monthKey]bool{}, map[*addition]int{}
	timelines := map[blog.Timeline]bool{}
	for _, a := range additions {
		for _, group := range a.groups {
			more := map[blog.Timeline]bool{}
			for _, m := range group {
				if !timelines[m.timeline] {
					more[m.timeline] = true
				}
			}
			if len(timelines) > 0 && len(timelines)+len(more) > cosmos.MaxBatch {
				return months, taken
			}
			for _, m := range group {
				months[m], timelines[m.timeline] = true, true
			}
			taken[a]++
		}
	}
	return months, taken
}

// addBatch copies the counters of months. If ctx has a deadline, the batch has a deadline of its own: the rest of the
// caller's may be too short, and the next caller's likewise.
func (s *sums) addBatch(ctx context.Context, months map[monthKey]bool) error {
	if _, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), sumsTimeout)
		defer cancel()
	}
	return s.counters.copyMonths(ctx, months)
}
