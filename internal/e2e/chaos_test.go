package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
)

var (
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0: random")
	chaosFor  = flag.Duration("chaos.for", 0,
		"how long each part of TestChaos sends load; 0: 2s, and 15s in its long form")
)

// TestChaos writes to three instances on one engine, each in its own process, and kills and restarts them every few
// seconds, while the engine injects chaosFault and splits partitions. Meanwhile no projection is more than 30 s behind.
// When the load stops, every projection becomes equal to its source, in the long form within 10 s, every acknowledged
// write is stored exactly once, searches find the posts as they are, and each writer's home, bookmarks and liked posts
// are right:
//
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestChaos -v
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestChaos/engine -chaos.for=5m -v
func TestChaos(t *testing.T) {
	t.Parallel()
	for name, kills := range map[string][]victim{
		"an instance is killed":                     {oneInstance},
		"all instances are killed":                  {allInstances},
		"the engine and then an instance is killed": {theEngine, oneInstance},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runChaos(t, kills)
		})
	}
}

// victim is the kind of process that is killed.
type victim int

const (
	oneInstance victim = iota
	allInstances
	theEngine
)

const (
	chaosSplits     = 3
	chaosLag        = 30 * time.Second // the maximum lag of a projection during the load
	chaosReplicaLag = 50 * time.Millisecond
)

func runChaos(t *testing.T, kills []victim) {
	duration := testkit.Pick(2*time.Second, 15*time.Second)
	if *chaosFor > 0 {
		duration = *chaosFor
	}
	every := testkit.Pick(600*time.Millisecond, 4*time.Second) // from one kill to the next
	within := testkit.Pick(time.Minute, 10*time.Second)
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	engine := startEngine(t)
	c := &cluster{engine: engine}
	for i := range c.instances {
		c.start(t, i)
	}
	var writers []*writer
	for i := range 6 {
		w := newWriter(t, c, fmt.Sprintf("writer%d", i), rand.New(rand.NewPCG(seed, uint64(i)+1)))
		w.renameEvery = max(20*time.Second, duration/3) // as often as Byline allows by default
		w.current = true
		w.create()
		writers = append(writers, w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	stop := func() { cancel(); load.Wait() }
	defer stop()
	for _, w := range writers {
		load.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				w.step()
				pause(w.random, 0, 20*time.Millisecond)
			}
		})
	}

	lag := &lagWatch{}
	load.Go(func() { lag.run(ctx, engine) })

	began := time.Now()
	splits := []string{"posts 0", "users 0", "posts 1"}
	instances, engines := 0, 0
	for kill := 0; kill < 4 || time.Since(began) < duration; kill++ {
		next := time.NewTimer(every)
		if kill > 0 && len(splits) > 0 {
			engine.split(splits[0])
			splits = splits[1:]
		}
		if len(splits) > 0 {
			// the next one, until after the kill: instances that start read the ranges meanwhile
			engine.startSplit(splits[0])
		}
		// The kill comes during a split or after it.
		pause(random, 0, every/4)
		switch kills[kill%len(kills)] {
		case theEngine:
			engine.kill()
			pause(random, 0, every/2)
			engine.start()
			engines++
		case oneInstance:
			i := random.IntN(len(c.instances))
			c.at(i).Kill()
			pause(random, 0, every/2)
			c.start(t, i)
			instances++
		case allInstances:
			for i := range c.instances {
				c.at(i).Kill()
			}
			for i := range c.instances {
				c.start(t, i)
			}
			instances += len(c.instances)
		}
		<-next.C
	}
	stop()
	stopped := time.Now()
	pause(random, chaosReplicaLag, 2*chaosReplicaLag) // for the last writes to be on every replica
	var out, log output
	status := run(t.Context(), append([]string{"views", "verify", "--settle", within.String()}, engine.flags()...),
		&out, &log, nil)
	took := time.Since(stopped)
	if status != 0 {
		t.Errorf("views verify: status %d after %v: %s%s", status, took, out.String(), log.String())
	}
	if took > within {
		t.Errorf("the projections caught up only after %v", took)
	}
	limit := chaosLag
	if testing.Short() { // with the race detector, instances are killed soon after their start
		limit *= 2
	}
	if lag.longest > limit {
		t.Errorf("the projections were %v behind, want at most %v", lag.longest, limit)
	}
	// Each range has one lease, each lease an owner, and no job that deletes a post is left: verify ignores items that
	// such a job will delete.
	eventually(t, func() error {
		var out, log output
		if status := run(t.Context(), append([]string{"views", "status"}, engine.flags()...), &out, &log,
			nil); status != 0 {
			return errors.New(log.String())
		}
		wanted := map[string]int{"projections-posts": 1, "projections-users": 1} // the sweep of usernames is slow
		for _, processor := range []string{"projections-posts", "projections-users",
			"projections-posts"}[:chaosSplits-len(splits)] {
			wanted[processor]++
		}
		for processor, n := range wanted {
			if have := strings.Count(out.String(), "| "+processor+" "); have != n {
				return fmt.Errorf("%d leases for %d ranges of %s:\n%s", have, n, processor, out.String())
			}
		}
		if strings.Contains(out.String(), "nobody") {
			return fmt.Errorf("a lease has no owner:\n%s", out.String())
		}
		if strings.Contains(out.String(), "deletePost") {
			return fmt.Errorf("a job is left:\n%s", out.String())
		}
		return nil
	})
	operations, retries := 0, 0
	for _, w := range writers {
		operations += w.operations
		retries += w.retries
		w.checkStored()
		w.checkSearches()
		w.checkLists(writers)
	}
	checkCounts(writers)
	checkFollows(writers)
	checkTags(writers)
	t.Logf("%d operations, %d retries; %d instances and %d engines killed; %d splits; projections at most %v behind "+
		"in %d samples, and verified %v after the load stopped",
		operations, retries, instances, engines, chaosSplits-len(splits), lag.longest.Round(time.Millisecond),
		lag.samples, took.Round(time.Millisecond))
	if operations < 20 || lag.samples == 0 && testkit.Long() { // a short load may end while the engine is down
		t.Error("too few operations, or no sample of the lag")
	}
	if t.Failed() {
		for i := range c.instances {
			t.Logf("instance %d:\n%s", i, c.at(i).Log)
		}
	}
}

// pause waits for a random time.
func pause(random *rand.Rand, least, most time.Duration) {
	// the test needs random moments, so there is no event to wait for
	time.Sleep(least + time.Duration(random.Int64N(int64(most-least))))
}

// lagWatch polls the lag of the projections. While the lag cannot be read, it assumes that they make no progress.
type lagWatch struct {
	longest time.Duration
	samples int
}

func (l *lagWatch) run(ctx context.Context, engine *engineProcess) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	since := time.Now()
	for ctx.Err() == nil {
		at := time.Now()
		if behind, err := lagOf(ctx, engine); err == nil {
			l.samples++
			since = at.Add(-behind)
		}
		if ctx.Err() == nil { // otherwise the reading was canceled
			l.longest = max(l.longest, time.Since(since))
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

// lagOf returns the age of the oldest change that a projection has not applied.
func lagOf(ctx context.Context, engine *engineProcess) (longest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var out, log output
	if status := run(ctx, append([]string{"views", "status", "--json"}, engine.flags()...), &out, &log,
		nil); status != 0 {
		return 0, errors.New(log.String())
	}
	for lines := json.NewDecoder(strings.NewReader(out.String())); ; {
		var r struct {
			Processor     string
			BehindSeconds float64
		}
		if err := lines.Decode(&r); errors.Is(err, io.EOF) {
			return longest, nil
		} else if err != nil {
			return 0, err
		}
		if strings.HasPrefix(r.Processor, "projections-") { // the sweep of usernames is slow
			longest = max(longest, time.Duration(r.BehindSeconds*float64(time.Second)))
		}
	}
}
