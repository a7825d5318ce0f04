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

	json  []byte // without the closing bracket
	count int
}

// Create creates an item.
func (b *Batch) Create(item []byte) { b.write("Create", item) }

// Upsert creates or replaces an item.
func (b *Batch) Upsert(item []byte) { b.write("Upsert", item) }

func (b *Batch) write(what string, item []byte) {
	b.begin(what)
	b.json = append(append(slices.Grow(b.json, len(item)+64), `,"resourceBody":`...), item...)
	b.end()
}

// ReplaceIf replaces an item if it has the ETag, and fails with 412 otherwise.
func (b *Batch) ReplaceIf(id string, item []byte, etag ETag) {
	b.begin("Replace")
	b.json = appendString(append(b.json, `,"id":`...), id)
	b.json = appendString(append(b.json, `,"ifMatch":`...), string(etag))
	b.json = append(append(b.json, `,"resourceBody":`...), item...)
	b.end()
}

// Patch changes an item. It ignores IfMatch and ReturnItem of the patch.
func (b *Batch) Patch(id string, p Patch) {
	b.begin("Patch")
	b.json = appendString(append(b.json, `,"id":`...), id)
	b.json = p.appendTo(append(b.json, `,"resourceBody":`...))
	b.end()
}

// Read reads an item.
func (b *Batch) Read(id string) { b.byID("Read", id) }

// Delete deletes an item.
func (b *Batch) Delete(id string) { b.byID("Delete", id) }

// DeleteIf deletes an item if it has the ETag, and fails with 412 otherwise.
func (b *Batch) DeleteIf(id string, etag ETag) {
	b.begin("Delete")
	b.json = appendString(append(b.json, `,"id":`...), id)
	b.json = appendString(append(b.json, `,"ifMatch":`...), string(etag))
	b.end()
}

func (b *Batch) byID(what, id string) {
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

// execute executes the operations. azcosmos refuses an empty batch, so it gets a placeholder, which
// withRequestBody replaces.
func (c *Container) execute(ctx context.Context, partition string, b *Batch) (*rawBodies, error) {
	placeholder := c.client.NewTransactionalBatch(partitionKey(partition))
	placeholder.DeleteItem("", nil)
	var o *azcosmos.TransactionalBatchOptions
	if !b.NoItems {
		o = &azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true}
	}
	ctx, x := withRequestBody(ctx, append(b.json, ']'))
	x.operations = b.count
	_, err := c.client.ExecuteTransactionalBatch(ctx, placeholder, o)
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
