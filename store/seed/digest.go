package seed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"
)

// Digest identifies contents, whatever the order in which they were written: the sum of
// the SHA-256 of all items, modulo 2 to the 128th. The properties that Cosmos DB adds do
// not count.
type Digest struct {
	Items  int
	hi, lo uint64
}

// String returns the sum in hexadecimal.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d.hi, d.lo) }

func (d *Digest) add(other Digest) {
	lo := d.lo + other.lo
	d.hi += other.hi
	if lo < d.lo {
		d.hi++
	}
	d.lo = lo
	d.Items += other.Items
}

// addItem adds an item of a container.
func (d *Digest) addItem(container string, raw []byte) {
	var properties []string
	gjson.ParseBytes(raw).ForEach(func(name, value gjson.Result) bool {
		if !strings.HasPrefix(name.Str, "_") {
			properties = append(properties, name.Raw+":"+value.Raw)
		}
		return true
	})
	slices.Sort(properties)
	sum := sha256.Sum256([]byte(container + "\n" + strings.Join(properties, "\n")))
	d.add(Digest{1, binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])})
}

// DigestOf reads everything in the containers of a database. progress, if set, is called
// with the number of items read so far, by one goroutine at a time.
func DigestOf(ctx context.Context, client *azcosmos.Client, database string, containers []string, progress func(items int)) (Digest, error) {
	var mu sync.Mutex
	var total Digest // guarded by mu until the goroutines have ended
	var g errgroup.Group
	g.SetLimit(workers)
	read := func(name string) error {
		c, err := client.NewContainer(database, name)
		if err != nil {
			return err
		}
		pager := c.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{PageSizeHint: 1000})
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			g.Go(func() error {
				var d Digest
				for _, raw := range page.Items {
					d.addItem(name, raw)
				}
				mu.Lock()
				defer mu.Unlock()
				total.add(d)
				if progress != nil {
					progress(total.Items)
				}
				return nil
			})
		}
		return nil
	}
	var err error
	for _, name := range containers {
		if err = read(name); err != nil {
			break
		}
	}
	_ = g.Wait() // which have no errors
	return total, err
}
