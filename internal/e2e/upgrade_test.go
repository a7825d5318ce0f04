package e2e

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// upgradeFrom is the environment variable with the file of a byline of an earlier version.
const upgradeFrom = "BYLINE_TEST_UPGRADE_FROM"

// TestUpgrade_VersionsServeSideBySide replaces the instances of an earlier version one after the other, then goes back
// to it, and upgrades again, while clients write and the engine injects chaosFault. Every instance exits with status 0,
// every acknowledged write is stored exactly once, and after a rebuild every view is equal to its source.
// Before, composite indexes that this version needs are added, as docs/deploy.md says.
func TestUpgrade_VersionsServeSideBySide(t *testing.T) {
	earlier := os.Getenv(upgradeFrom)
	if earlier == "" {
		t.Skip("needs an earlier version: .ci/upgrade")
	}
	info, err := buildinfo.ReadFile(earlier)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.time" {
			t.Logf("the earlier version: %s %s", s.Key, s.Value)
		}
	}
	c := &cluster{engine: startEngine(t), program: earlier}
	for i := range c.instances {
		c.start(t, i)
	}
	seed := rand.Uint64()
	var writers []*writer
	for i := range 6 {
		w := newWriter(t, c, fmt.Sprint("writer", i), rand.New(rand.NewPCG(seed, uint64(i))))
		w.renameEvery = 2 * time.Second
		w.create()
		writers = append(writers, w)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer func() { cancel(); load.Wait() }()
	var done atomic.Int64
	for _, w := range writers {
		load.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				w.step()
				done.Add(1)
			}
		})
	}
	work := func() { // waits for writes to the versions that serve now
		t.Helper()
		until := done.Load() + 100
		testkit.WaitFor(t, func() bool { return done.Load() >= until || t.Failed() })
	}
	work()
	c.addIndexes(t)
	for _, program := range []string{"", earlier, ""} {
		c.program = program
		for i := range c.instances {
			p := c.at(i)
			if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.Cmd.Wait(); err != nil {
				t.Errorf("instance %d on SIGTERM: %v\n%s", i, err, p.Log)
			}
			c.start(t, i)
			work()
		}
	}
	cancel()
	load.Wait()
	began := time.Now()
	var out, log output
	for _, command := range []string{"rebuild", "verify"} {
		if status := run(t.Context(), append([]string{"views", command}, c.engine.flags()...), &out, &log,
			nil); status != 0 {
			t.Errorf("views %s: status %d: %s%s", command, status, &out, &log)
		}
	}
	operations, retries := 0, 0
	for _, w := range writers {
		operations, retries = operations+w.operations, retries+w.retries
		w.checkStored()
	}
	checkCounts(writers)
	t.Logf("%d operations, %d retries, 9 instances replaced; verified %v after the load stopped", operations, retries,
		time.Since(began).Round(time.Millisecond))
	if t.Failed() {
		for i := range c.instances {
			t.Logf("instance %d:\n%s", i, c.at(i).Log)
		}
	}
}

// addIndexes adds the composite indexes that this version needs, beside those of the earlier one.
func (c *cluster) addIndexes(t *testing.T) {
	t.Helper()
	key, err := azcosmos.NewKeyCredential(emulator.WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey("http://"+c.engine.address+"/", key, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, spec := range store.DatabaseSpec("blog", 0).Containers {
		container, err := client.NewContainer("blog", spec.Name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := container.Read(t.Context(), nil)
		if cosmos.HasStatus(err, http.StatusNotFound) {
			continue // this version creates it
		}
		if err != nil {
			t.Fatal(err)
		}
		policy, changed := r.ContainerProperties.IndexingPolicy, false
		for _, paths := range spec.Composite {
			var columns []azcosmos.CompositeIndex
			for _, path := range paths {
				columns = append(columns, azcosmos.CompositeIndex{Path: path, Order: azcosmos.CompositeIndexAscending})
			}
			if !slices.ContainsFunc(policy.CompositeIndexes, func(have []azcosmos.CompositeIndex) bool {
				return slices.Equal(have, columns)
			}) {
				policy.CompositeIndexes, changed = append(policy.CompositeIndexes, columns), true
			}
		}
		if !changed {
			continue
		}
		if _, err := container.Replace(t.Context(), *r.ContainerProperties, nil); err != nil {
			t.Fatal(err)
		}
	}
}
