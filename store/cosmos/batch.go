package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// MaxBatch is how many operations a transactional batch may have.
const MaxBatch = 100

// Batch is a transactional batch of operations on one partition, as "Transactional batch
// operations in Azure Cosmos DB" has them. The zero value has none.
type Batch struct {
	NoItems bool // the items that are read or written are not returned

	json  []byte // without the last bracket
	count int
}

// Create creates an item.
func (b *Batch) Create(item []byte) {
	b.begin("Create")
	b.json = append(append(slices.Grow(b.json, len(item)+64), `,"resourceBody":`...), item...)
	b.end()
}

// Patch changes an item. IfMatch and ReturnItem of the patch do not count.
func (b *Batch) Patch(id string, p Patch) {
	b.begin("Patch")
	b.json = appendString(append(b.json, `,"id":`...), id)
	b.json = p.appendTo(append(b.json, `,"resourceBody":`...))
	b.end()
}

// Read reads an item.
func (b *Batch) Read(id string) { b.on("Read", id) }

// Delete deletes an item.
func (b *Batch) Delete(id string) { b.on("Delete", id) }

func (b *Batch) on(what, id string) {
	b.begin(what)
	b.json = appendString(append(b.json, `,"id":`...), id)
	b.end()
}

func (b *Batch) begin(what string) {
	if b.count == 0 {
		b.json = append(make([]byte, 0, 512), '[')
	} else {
		b.json = append(b.json, ',')
	}
	b.json = append(append(append(b.json, `{"operationType":"`...), what...), '"')
	b.count++
}

func (b *Batch) end() { b.json = append(b.json, '}') }

// BatchResult says what became of a batch: all of it took effect, or nothing.
type BatchResult struct {
	Items  [][]byte // of each operation, nil of one that returns none; nil if nothing took effect
	Failed int      // the operation that could not be applied; -1 if all took effect
	Status int      // why
}

// Batch executes a batch. One that met another write of the same item is executed again, as
// single writes are.
func (c *Container) Batch(ctx context.Context, partition string, b *Batch) (BatchResult, error) {
	for pause := firstPause; ; pause *= 2 {
		r, x, err := c.execute(ctx, partition, b)
		if err != nil {
			return BatchResult{}, wrap(err)
		}
		result := resultOf(r)
		if result.Status != statusRetryWith || pause > lastPause {
			if !b.NoItems {
				result.Items, err = x.bodies(b.count)
			}
			return result, wrap(err)
		}
		if !sleep(ctx, jittered(pause)) {
			return BatchResult{}, wrap(ctx.Err())
		}
	}
}

// execute executes the operations once. In their place azcosmos is given one that is of no
// consequence, since it does not execute none.
func (c *Container) execute(ctx context.Context, partition string, b *Batch) (azcosmos.TransactionalBatchResponse, *exchange, error) {
	none := c.client.NewTransactionalBatch(partitionKey(partition))
	none.DeleteItem("", nil)
	var o *azcosmos.TransactionalBatchOptions
	if !b.NoItems {
		o = &azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true}
	}
	within, x := sending(ctx, append(b.json, ']'))
	r, err := c.client.ExecuteTransactionalBatch(within, none, o)
	return r, x, err
}

func resultOf(r azcosmos.TransactionalBatchResponse) BatchResult {
	if r.Success {
		return BatchResult{Failed: -1, Status: http.StatusOK}
	}
	for i, o := range r.OperationResults {
		if o.StatusCode >= 300 && o.StatusCode != http.StatusFailedDependency {
			return BatchResult{Failed: i, Status: int(o.StatusCode)}
		}
	}
	return BatchResult{Failed: 0, Status: http.StatusInternalServerError} // it does not say
}

// CreateAll creates the items of one partition, which are JSON objects, in transactional
// batches. A batch whose first item exists was executed before: it is skipped, and there is
// true. conflict is true if another of its items exists, and nothing of the batch was created.
func (c *Container) CreateAll(ctx context.Context, partition string, items [][]byte) (there, conflict bool, err error) {
	for some := range slices.Chunk(items, MaxBatch) {
		b := Batch{NoItems: true}
		for _, item := range some {
			b.Create(item)
		}
		r, err := c.Batch(ctx, partition, &b)
		if err != nil {
			return false, false, err
		}
		switch {
		case r.Failed < 0:
		case r.Failed == 0 && r.Status == http.StatusConflict:
			there = true
		case r.Status == http.StatusConflict:
			conflict = true
		default:
			return false, false, &Error{Status: r.Status, Err: fmt.Errorf("operation %d of a batch: status %d", r.Failed, r.Status)}
		}
	}
	return there, conflict, nil
}
