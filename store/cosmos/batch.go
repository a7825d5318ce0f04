package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/internal/sleep"
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
	if c.isBackground {
		ctx = ignoreRetryWindow(ctx)
	} else {
		ctx = ensureRetryWindow(ctx)
	}
	for contended, throttled := firstPause, firstPause; ; {
		r, x, err := c.execute(ctx, partition, b)
		if err != nil {
			return BatchResult{}, c.writeError(ctx, partition, err)
		}
		result, refused := resultOf(r)
		if refused == nil {
			if !b.NoItems {
				result.Items = x.items
			}
			return result, nil
		}
		c.meter.refused(refused.Status, refused.Substatus)
		var wait time.Duration
		switch {
		case refused.Status == statusRetryWith && contended <= lastPause:
			wait, contended = jittered(contended), 2*contended
		case refused.Status == http.StatusTooManyRequests:
			wait, throttled = max(jittered(throttled), refused.RetryAfter), doubled(throttled)
		default:
			return BatchResult{}, refused
		}
		if !scopeOf(ctx).retryWindow.allows(wait, c.retryBudget) {
			return BatchResult{}, refused
		}
		if !sleep.For(ctx, wait) {
			return BatchResult{}, wrap(ctx.Err())
		}
	}
}

// execute executes the operations once. azcosmos refuses an empty batch, so it gets a placeholder,
// which withRequestBody replaces.
func (c *Container) execute(ctx context.Context, partition string, b *Batch) (azcosmos.TransactionalBatchResponse, *rawBodies, error) {
	placeholder := c.client.NewTransactionalBatch(partitionKey(partition))
	placeholder.DeleteItem("", nil)
	var o *azcosmos.TransactionalBatchOptions
	if !b.NoItems {
		o = &azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true}
	}
	ctx, x := withRequestBody(ctx, append(b.json, ']'))
	x.operations = b.count
	r, err := c.client.ExecuteTransactionalBatch(ctx, placeholder, o)
	return r, x, err
}

// resultOf returns the result of a batch, or the error with which Cosmos DB refused it. azcosmos omits
// the substatus and the retry-after of an operation.
func resultOf(r azcosmos.TransactionalBatchResponse) (BatchResult, *Error) {
	if r.Success {
		return BatchResult{Failed: -1, Status: http.StatusOK}, nil
	}
	var operations []struct {
		Status     int     `json:"statusCode"`
		Substatus  int     `json:"subStatusCode"`
		RetryAfter float64 `json:"retryAfterMilliseconds"`
	}
	body, err := runtime.Payload(r.RawResponse)
	if err == nil {
		err = json.Unmarshal(body, &operations)
	}
	if err != nil {
		return BatchResult{}, &Error{Err: fmt.Errorf("results of a batch: %w", err)}
	}
	for i, o := range operations {
		switch {
		case o.Status < 300 || o.Status == http.StatusFailedDependency:
		case slices.Contains([]int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed}, o.Status):
			return BatchResult{Failed: i, Status: o.Status}, nil
		default:
			refused := &Error{Status: o.Status, RetryAfter: max(0, time.Duration(o.RetryAfter*float64(time.Millisecond))), Err: fmt.Errorf("operation %d of a batch: status %d, substatus %d", i, o.Status, o.Substatus)}
			if o.Substatus != 0 {
				refused.Substatus = strconv.Itoa(o.Substatus)
			}
			return BatchResult{}, refused
		}
	}
	return BatchResult{}, &Error{Status: http.StatusInternalServerError, Err: errors.New("a batch failed without the status of an operation")}
}

// CreateAll creates the items of one partition, which are JSON objects, in transactional batches. A
// batch whose first item exists was executed before: it is skipped, and exists is true. conflict is
// true if another item of a batch exists; nothing of that batch was created.
func (c *Container) CreateAll(ctx context.Context, partition string, items [][]byte) (exists, conflict bool, err error) {
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
