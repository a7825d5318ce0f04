package emulator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// crashState is a data directory and the state of its clients.
type crashState struct {
	dir      string
	writers  []*crashWriter
	follower *crashFollower
	opening  time.Duration // the longest that a killed engine took to open
	items    int
}

// crashRow is an item as read back.
type crashRow struct {
	ID, PK, Kind string
	Version, N   int
	ETag         string `json:"_etag"`
	LSN          uint64 `json:"_lsn"`
}

func newCrashState(t *testing.T, seed uint64) *crashState {
	t.Helper()
	s := &crashState{dir: t.TempDir(), follower: &crashFollower{seen: map[crashID]crashRow{}}}
	e, err := Open(s.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	asc := azcosmos.CompositeIndexAscending
	ttl := int32(1_000_000)
	c := newContainer(t, e,
		azcosmos.ContainerProperties{DefaultTimeToLive: &ttl, IndexingPolicy: &azcosmos.IndexingPolicy{
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/kind/?"}, {Path: "/version/?"}},
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
			CompositeIndexes: [][]azcosmos.CompositeIndex{{{Path: "/kind", Order: asc}, {Path: "/version", Order: asc},
				{Path: "/id", Order: asc}}},
			FullTextIndexes: []azcosmos.FullTextIndex{{Path: "/content"}},
		}, FullTextPolicy: &azcosmos.FullTextPolicy{DefaultLanguage: "en-US",
			FullTextPaths: []azcosmos.FullTextPath{{Path: "/content", Language: "en-US"}}}})
	mustCreate(t, c, "shared", `{"id":"counter","pk":"shared","n":0}`)
	for w := range crashWriters {
		key := fmt.Sprintf("w%d", w)
		mustCreate(t, c, key, fmt.Sprintf(`{"id":"counter","pk":%q,"n":0}`, key))
		s.writers = append(s.writers,
			&crashWriter{key: key, known: map[crashID]int{}, random: rand.New(rand.NewPCG(seed, uint64(w)+1))})
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// verify opens the directory that a killed process left and checks it against the acknowledged writes.
func (s *crashState) verify(t *testing.T) {
	t.Helper()
	began := time.Now()
	e, err := Open(s.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.opening = max(s.opening, time.Since(began))
	client := newClient(t, e)
	defer client.Close()
	c, err := client.NewContainer("db", "c")
	if err != nil {
		t.Fatal(err)
	}
	found := s.readAll(t, c)
	for _, w := range s.writers {
		w.resolve(found)
	}
	s.compare(t, found)
	s.checkFeed(t, c, found)
	audit(t, e)
	var last uint64
	for _, p := range e.catalog.Load().databases["db"].containers["c"].ranges {
		last = max(last, p.synced.Load())
	}
	for _, w := range s.writers {
		if w.lsn > last {
			t.Errorf("LSN %d was acknowledged, but the engine continues after %d", w.lsn, last)
		}
	}
}

// readAll scans every partition, and compares the scan with the indexes.
func (s *crashState) readAll(t *testing.T, c *azcosmos.ContainerClient) map[crashID]crashRow {
	t.Helper()
	found := map[crashID]crashRow{}
	for _, key := range append([]string{"shared"}, s.keys()...) {
		kinds := map[string]int{}
		for _, row := range queryAll(t, c, "SELECT c.id, c.pk, c.kind, c.version, c.n, c._etag FROM c", pk(key), nil) {
			var one crashRow
			mustUnmarshal(t, []byte(row), &one)
			at := crashID{one.PK, one.ID}
			if _, twice := found[at]; twice || one.PK != key {
				t.Errorf("%v is returned twice, or in another partition", at)
			}
			found[at] = one
			kinds[one.Kind]++
		}
		for _, kind := range []string{"create", "batch", "upsert"} {
			byRange := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE c.kind = @k", pk(key),
				&azcosmos.QueryOptions{QueryParameters: params("@k", kind)})
			byComposite := queryAll(t, c,
				"SELECT VALUE c.id FROM c WHERE c.kind = @k ORDER BY c.kind, c.version, c.id", pk(key),
				&azcosmos.QueryOptions{QueryParameters: params("@k", kind)})
			if len(byRange) != kinds[kind] || len(byComposite) != kinds[kind] {
				t.Errorf("%s: the scan has %d items of kind %q, the range index %d and the composite index %d", key,
					kinds[kind], kind, len(byRange), len(byComposite))
			}
		}
		if counter, ok := found[crashID{key, "counter"}]; !ok || counter.N != kinds["batch"] {
			t.Errorf("%s: the counter is %d, want %d, the number of items", key, counter.N, kinds["batch"])
		}
	}
	return found
}

func (s *crashState) keys() (keys []string) {
	for _, w := range s.writers {
		keys = append(keys, w.key)
	}
	return keys
}

// resolve decides whether the ambiguous operation was applied: completely or not at all.
func (w *crashWriter) resolve(found map[crashID]crashRow) {
	if w.ambiguous == nil {
		return
	}
	row, ok := found[w.ambiguous.at]
	w.settle(ok && row.Version == w.ambiguous.version || !ok && w.ambiguous.kind == "delete")
}

// compare checks that the items are those of the acknowledged writes.
func (s *crashState) compare(t *testing.T, found map[crashID]crashRow) {
	t.Helper()
	rest := maps.Clone(found)
	for _, w := range s.writers {
		delete(rest, crashID{w.key, "counter"})
		for at, version := range w.known {
			if row, ok := found[at]; !ok {
				t.Errorf("an acknowledged write is lost: %v", at)
			} else if row.Version != version {
				t.Errorf("%v has version %d, want the acknowledged %d", at, row.Version, version)
			}
			delete(rest, at)
		}
	}
	delete(rest, crashID{"shared", "counter"})
	for at := range rest {
		t.Errorf("unexpected item %v: never written, or deleted", at)
	}
	s.items = len(found)
}

// checkFeed checks that the change feed has the current version of every item once, in the order of LSNs, and that
// the follower sees the same when it continues.
func (s *crashState) checkFeed(t *testing.T, c *azcosmos.ContainerClient, found map[crashID]crashRow) {
	t.Helper()
	whole := crashFollower{seen: map[crashID]crashRow{}}
	whole.drain(t, c)
	if whole.rows != len(found) {
		t.Errorf("the change feed has %d items of %d", whole.rows, len(found))
	}
	if whole.disorder != "" {
		t.Errorf("the change feed is out of order: %s", whole.disorder)
	}
	ahead := s.follower.lsn
	s.follower.drain(t, c)
	if s.follower.disorder != "" {
		t.Errorf("the follower saw the change feed out of order: %s", s.follower.disorder)
	}
	for at, row := range found {
		if whole.seen[at].ETag != row.ETag {
			t.Errorf("%v: the change feed has %+v, want %+v", at, whole.seen[at], row)
		}
		if s.follower.seen[at].ETag != row.ETag {
			t.Errorf("%v: the follower, which continued after LSN %d, has %+v, want %+v", at, ahead,
				s.follower.seen[at], row)
		}
	}
}

// crashFollower reads the change feed across crashes of the engine.
type crashFollower struct {
	token    *string
	seen     map[crashID]crashRow
	rows     int
	lsn      uint64
	disorder string
	err      error
}

// page reads one page, and reports whether it had items.
func (f *crashFollower) page(ctx context.Context, c *azcosmos.ContainerClient) bool {
	o := &azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}, MaxItemCount: 100}
	if f.token != nil {
		o.Continuation = f.token
	}
	res, err := c.ReadChangeFeed(ctx, o)
	if f.err = err; err != nil {
		return false
	}
	for _, b := range res.Items {
		var row crashRow
		if f.err = json.Unmarshal(b, &row); f.err != nil {
			return false
		}
		at := crashID{row.PK, row.ID}
		if row.LSN < f.lsn || f.seen[at].ETag == row.ETag {
			f.disorder = fmt.Sprintf("%v at LSN %d after %d, before it was %+v", at, row.LSN, f.lsn, f.seen[at])
		}
		f.seen[at], f.lsn = row, row.LSN
		f.rows++
	}
	f.token = &res.ContinuationToken
	return len(res.Items) > 0
}

func (f *crashFollower) follow(ctx context.Context, c *azcosmos.ContainerClient) {
	for ctx.Err() == nil {
		if !f.page(ctx, c) && f.err != nil {
			return // the engine was killed
		}
	}
}

func (f *crashFollower) drain(t *testing.T, c *azcosmos.ContainerClient) {
	t.Helper()
	for f.page(context.Background(), c) {
	}
	if f.err != nil {
		t.Fatal(f.err)
	}
}

func (s *crashState) report(t *testing.T, rounds int) {
	acked, deleted := 0, 0
	for _, w := range s.writers {
		acked += w.acked
		deleted += w.deleted
	}
	figures := []string{fmt.Sprintf("%d rounds: %d acknowledged writes, %d of them deletes", rounds, acked, deleted),
		fmt.Sprintf("%d items at the end, the change feed at LSN %d", s.items, s.follower.lsn),
		fmt.Sprintf("a killed engine opened within %v", s.opening.Round(time.Millisecond))}
	t.Log(strings.Join(figures, "; "))
}
