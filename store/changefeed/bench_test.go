package changefeed_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/changefeed"
)

// changes makes BenchmarkCatchUp long, as in
//
//	go test ./store/changefeed -run '^$' -bench CatchUp -benchtime 1x -changes 1000000
var changes = flag.Int("changes", 20_000, "number of changes in BenchmarkCatchUp")

// BenchmarkCatchUp measures how fast a new processor reads a long feed of small items: the cost of
// reading, leases and checkpoints. The handler only counts.
func BenchmarkCatchUp(b *testing.B) {
	w := newWorld(b)
	w.fill(*changes)
	n := 0
	for b.Loop() {
		var handled atomic.Int64
		done := make(chan struct{})
		p, err := changefeed.New(w.source, w.leases, func(_ context.Context, items [][]byte) error {
			if handled.Add(int64(len(items))) == int64(*changes) {
				close(done)
			}
			return nil
		}, changefeed.Options{Name: fmt.Sprint("bench", n), Owner: "one"})
		if err != nil {
			b.Fatal(err)
		}
		n++
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- p.Run(ctx) }()
		<-done
		b.ReportMetric(float64(*changes)/time.Since(began).Seconds(), "changes/s")
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}

// fill writes n items of half a kilobyte to the source.
func (w *world) fill(n int) {
	w.t.Helper()
	const body = `{"id":"%d","pk":"%[1]d","text":"%0400[1]d"}`
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				id := fmt.Sprint(i)
				if _, err := w.source.CreateItem(context.Background(), azcosmos.NewPartitionKeyString(id),
					fmt.Appendf(nil, body, i), nil); err != nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
