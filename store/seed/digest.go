package seed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator/jsonpart"
)

// Digest identifies contents independently of the order of writes: the sum of the SHA-256 of all items
// without system properties, modulo 2 to the 128th.
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
	for p := range jsonpart.Children(raw) {
		if !bytes.HasPrefix(p.Name, []byte("_")) {
			properties = append(properties, fmt.Sprintf("%q:%s", p.Name, p.Value))
		}
	}
	slices.Sort(properties)
	sum := sha256.Sum256([]byte(container + "\n" + strings.Join(properties, "\n")))
	d.add(Digest{1, binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])})
}

// DigestOf returns the digest of all items in the containers of a database. The container of searches may be missing:
// it has no items then. progress, if set, is called with the number of items read so far, by one goroutine at a time.
func DigestOf(
	ctx context.Context, account *cosmos.Account, database string, containers []string, progress func(items int),
) (Digest, error) {
	var mu sync.Mutex
	var total Digest // guarded by mu until the goroutines have ended
	var g errgroup.Group
	g.SetLimit(workers)
	read := func(name string) error {
		c, err := account.Container(database, name)
		if err != nil {
			return err
		}
		for items, err := range c.Query(ctx,
			cosmos.Query{Text: "SELECT * FROM c", AllPartitions: true, PageSize: 1000}) {
			if e := cosmos.ErrorOf(err); e != nil && e.NoContainer() && name == blog.SearchContainer {
				return nil // the account lacks the capability
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			g.Go(func() error {
				var d Digest
				for _, raw := range items {
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
	_ = g.Wait() // the goroutines return no errors
	return total, err
}
