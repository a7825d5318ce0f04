package changefeed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/changefeed"
)

// Any number of processes run a Processor with the same name: together they print every change of a
// container at least once, until they are interrupted.
func Example() {
	var source, leases *azcosmos.ContainerClient // leases has the partition key /id
	host, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	print := func(ctx context.Context, items [][]byte) error {
		for _, raw := range items {
			var item struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(raw, &item); err != nil {
				slog.Error("item skipped", "error", err) // an error would repeat the page forever
				continue
			}
			fmt.Println(item.ID)
		}
		return ctx.Err()
	}
	p, err := changefeed.New(source, leases, print, changefeed.Options{
		Name:   "printer",
		Owner:  fmt.Sprint(host, "-", os.Getpid()),
		Logger: slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := p.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Every process that runs a Tail receives every change from now on.
func ExampleTail() {
	var source *azcosmos.ContainerClient
	tail := changefeed.NewTail(source, func(_ context.Context, items [][]byte) error {
		fmt.Println(len(items), "changes")
		return nil
	}, changefeed.Options{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := tail.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Progress of the processors, wherever they run.
func ExampleStatus() {
	var source, leases *azcosmos.ContainerClient
	ranges, err := changefeed.Status(context.Background(), source, leases, "printer")
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range ranges {
		fmt.Printf("%s-%s: %s is %d behind\n", r.Range.MinInclusive, r.Range.MaxExclusive, r.Owner, r.Lag)
	}
}
