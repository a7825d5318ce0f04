package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"byline/graph/auth"
	"byline/graph/globalid"
	"byline/internal/testkit"
	"byline/store/cosmos"
	"byline/store/stored"
)

// Sizes of the jobs of TestJobs.
var (
	jobPosts   = testkit.Pick(100, 10_000) // which share jobItems comments of the user who is renamed
	jobItems   = testkit.Pick(2000, 100_000)
	jobWriters = testkit.Pick(20, 200)
	jobKills   = testkit.Pick(1, 10)
	jobRU      = testkit.Pick("5000", "20000")
	jobLongest = testkit.Pick(time.Minute, 10*time.Minute)
	jobProbes  = 4 // writers who wait for their summaries
	jobPostIDs = []string{"deleted-undisturbed", "deleted-killed"}
	jobHosts   = 8 // authors of the posts
	// from one write of a writer to the next, half of it at random
	jobInterval = testkit.Pick(300*time.Millisecond, 2*time.Second)
)

// TestJobs renames a user with many comments, and deletes posts with many comments and likes, while other users
// write: the summaries of their posts follow within a second. If instances are killed repeatedly meanwhile, a job
// costs the same, within 5 %. The long form has 100,000 items and 200 writers:
//
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestJobs -v
func TestJobs(t *testing.T) {
	testkit.Heavy(t)
	t.Parallel()
	type step func(*testing.T, *jobCluster)
	busy := auth.DemoUserID("busy")
	rename := func(name string) step {
		return func(t *testing.T, c *jobCluster) { do(t, c.at(0), "busy", updateUser, map[string]any{"name": name}) }
	}
	remove := func(id string) step {
		return func(t *testing.T, c *jobCluster) {
			do(t, c.at(0), "host0", `mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`,
				map[string]any{"id": globalid.ID{Kind: globalid.Post, Key: id}.String()})
		}
	}
	named := func(name string) step {
		q := cosmos.Query{Text: "SELECT c.id FROM c WHERE c.userId = @id AND c.userUsername != @name",
			AllPartitions: true}
		return func(t *testing.T, c *jobCluster) { c.checkNone(t, q.With("@id", busy).With("@name", name)) }
	}
	gone := func(id string) step {
		return func(t *testing.T, c *jobCluster) {
			c.checkNone(t,
				cosmos.Query{Text: "SELECT c.id FROM c WHERE c.type NOT IN ('post', 'deletedPost')", Partition: id})
		}
	}
	for _, kind := range []struct {
		name, job               string
		first, second           step
		checkFirst, checkSecond step
		secondJob               string
	}{
		{"rename", "rename." + busy, rename("busybody"), rename("busier"), named("busybody"), named("busier"),
			"rename." + busy},
		{"post", "deletePost." + jobPostIDs[0], remove(jobPostIDs[0]), remove(jobPostIDs[1]), gone(jobPostIDs[0]),
			gone(jobPostIDs[1]), "deletePost." + jobPostIDs[1]},
	} {
		t.Run(kind.name, func(t *testing.T) {
			if !testkit.Long() { // the long form measures the lag of other users
				t.Parallel()
			}
			c := newJobCluster(t)
			var lags []time.Duration
			undisturbed, took := c.run(t, kind.job, func() {
				kind.first(t, c)
			}, func(ctx context.Context) { lags = c.writeAsOthers(t, ctx) })
			kind.checkFirst(t, c)
			killed, tookKilled := c.run(t, kind.secondJob, func() {
				kind.second(t, c)
			}, func(ctx context.Context) { c.kill(t, ctx) })
			kind.checkSecond(t, c)
			if slices.Sort(lags); len(lags) == 0 {
				t.Fatal("the lag of others was not measured")
			}
			t.Logf("undisturbed %.0f RU in %v, with %d kills %.0f RU (%+.1f %%) in %v; lag of others p50 %v, p99 %v, "+
				"of %d",
				undisturbed, took.Round(time.Second), jobKills, killed, 100*(killed/undisturbed-1),
				tookKilled.Round(time.Second),
				percentile(lags, 50).Round(time.Millisecond), percentile(lags, 99).Round(time.Millisecond), len(lags))
			if killed > 1.05*undisturbed || killed < .95*undisturbed {
				t.Errorf("with kills the job took %.0f RU, and %.0f RU without", killed, undisturbed)
			}
			if p99 := percentile(lags, 99); testkit.Long() && p99 > time.Second {
				t.Errorf("p99 of the lag of others is %v", p99)
			}
		})
	}
}

// TestJobs_Stop sends SIGTERM to the instance that runs a job: it exits within two seconds and releases the job, and
// the other instance resumes it before the claim would have expired.
func TestJobs_Stop(t *testing.T) {
	testkit.Heavy(t)
	t.Parallel()
	const expiry = 5 * time.Second
	c := newJobCluster(t)
	job := "rename." + auth.DemoUserID("busy")
	read := func() (j struct {
		Owner string
		Items int
	}) {
		item, err := c.leases.Read(t.Context(), stored.Key(job, job))
		if err != nil {
			t.Fatal(err)
		}
		if item.Value != nil {
			if err := json.Unmarshal(item.Value, &j); err != nil {
				t.Fatal(err)
			}
		}
		return j
	}
	for i := range c.instances { // instance 0 alone runs the job until it is stopped
		c.at(i).Kill()
	}
	c.rate = "500"
	c.start(0)
	do(t, c.at(0), "busy", updateUser, map[string]any{"name": "busybody"})
	eventually(t, func() error {
		if read().Items == 0 {
			return errors.New("nothing is renamed yet")
		}
		return nil
	})
	c.start(1)
	owner, began := read().Owner, time.Now()
	if err := c.at(0).Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.at(0).Cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, c.at(0).Log)
	}
	stopped := time.Since(began)
	left := read()
	eventually(t, func() error {
		if j := read(); j.Owner == owner || j.Owner == "" || j.Items <= left.Items {
			return fmt.Errorf("%s has renamed %d items", j.Owner, j.Items)
		}
		return nil
	})
	continued := time.Since(began)
	t.Logf("stopped after %v, continued after %v", stopped.Round(time.Millisecond), continued.Round(time.Millisecond))
	if stopped > 2*time.Second || continued > stopped+expiry {
		t.Errorf("stopped after %v, continued after %v", stopped, continued)
	}
	if left.Owner == owner {
		t.Errorf("%s has stopped and still has the job: %s", owner, c.at(0).Log)
	}
}
