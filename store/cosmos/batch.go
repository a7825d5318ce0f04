package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// MaxBatch is the largest number of operations in a transactional batch.
const MaxBatch = 100

// Batch is a transactional batch of operations on one partition, as in "Transactional batch
// operations in Azure Cosmos DB". The zero value has none.
type Batch struct {
	NoItems bool // do not return the items read or written

	operations []func(*azcosmos.TransactionalBatch)
}

// Create creates an item.
func (b *Batch) Create(item []byte) {
	b.add(func(to *azcosmos.TransactionalBatch) { to.CreateItem(item, nil) })
}

// Upsert creates or replaces an item.
func (b *Batch) Upsert(item []byte) {
	b.add(func(to *azcosmos.TransactionalBatch) { to.UpsertItem(item, nil) })
}

// ReplaceIf replaces an item if it has the ETag, and fails with 412 otherwise.
func (b *Batch) ReplaceIf(id string, item []byte, etag ETag) {
	o := &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &etag}
	b.add(func(to *azcosmos.TransactionalBatch) { to.ReplaceItem(escape(id), item, o) })
}

// Patch changes an item. It ignores IfMatch and ReturnItem of the patch.
func (b *Batch) Patch(id string, p Patch) {
	b.add(func(to *azcosmos.TransactionalBatch) { to.PatchItem(escape(id), p.operations(), nil) })
}

// Read reads an item.
func (b *Batch) Read(id string) {
	b.add(func(to *azcosmos.TransactionalBatch) { to.ReadItem(escape(id), nil) })
}

// Delete deletes an item.
func (b *Batch) Delete(id string) {
	b.add(func(to *azcosmos.TransactionalBatch) { to.DeleteItem(escape(id), nil) })
}

// DeleteIf deletes an item if it has the ETag, and fails with 412 otherwise.
func (b *Batch) DeleteIf(id string, etag ETag) {
	o := &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &etag}
	b.add(func(to *azcosmos.TransactionalBatch) { to.DeleteItem(escape(id), o) })
}

func (b *Batch) add(operation func(*azcosmos.TransactionalBatch)) {
	b.operations = append(b.operations, operation)
}

// BatchResult is the outcome of a batch: all of its operations took effect, or none.
type BatchResult struct {
	Items  [][]byte // by operation, nil for one that returns none; nil if the batch failed
	Failed int      // index of the operation that failed; -1 if the batch took effect
	Status int      // of the operation that failed: 404, 409 or 412
}

// Err returns the error of a failed batch, and nil if the batch took effect.
func (r BatchResult) Err() error {
	if r.Failed < 0 {
		return nil
	}
	return &Error{Status: r.Status, Err: fmt.Errorf("operation %d of a batch: status %d", r.Failed, r.Status)}
}

// Batch executes a batch. An operation that fails for another reason than the state of its item (404,
// 409, 412) is an error of the batch. A batch that was throttled (429) or conflicted with a concurrent
// write (449) is repeated, as single writes are.
func (c *Container) Batch(ctx context.Context, partition string, b *Batch) (BatchResult, error) {
	x, err := c.execute(ctx, partition, b)
	if err != nil {
		return BatchResult{}, c.writeError(ctx, partition, err)
	}
	if x.status != 0 {
		return BatchResult{Failed: x.failed, Status: x.status}, nil
	}
	result := BatchResult{Failed: -1, Status: http.StatusOK}
	if !b.NoItems {
		result.Items = x.items
	}
	return result, nil
}

// execute executes the operations.
func (c *Container) execute(ctx context.Context, partition string, b *Batch) (*rawBodies, error) {
	all := c.client.NewTransactionalBatch(partitionKey(partition))
	for _, add := range b.operations {
		add(&all)
	}
	ctx, x := withResponseBody(ctx)
	x.operations = len(b.operations)
	_, err := c.client.ExecuteTransactionalBatch(ctx, all,
		&azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: !b.NoItems})
	return x, err
}

// CreateAll creates the items of one partition, which are JSON objects, in transactional batches. A
// batch whose first item exists was executed before: it is skipped, and exists is true. conflict is
// true if another item of a batch exists; nothing of that batch was created.
func (c *Container) CreateAll(
	ctx context.Context, partition string, items [][]byte,
) (exists, conflict bool, err error) {
	for some := range slices.Chunk(items, MaxBatch) {
		b := Batch{NoItems: true}
		for _, item := range some {
			b.Create(item)
		}
		r, err := c.Batch(ctx, partition, &b)
		if err != nil {
			return false, false, err
		}
		exists = exists || r.Failed == 0
		conflict = conflict || r.Failed > 0 // a create fails for no other reason
	}
	return exists, conflict, nil
}
