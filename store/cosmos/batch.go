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
func (b *Batch) Create(item []byte) { b.write("Create", item) }

// Upsert creates or replaces an item.
func (b *Batch) Upsert(item []byte) { b.write("Upsert", item) }

func (b *Batch) write(what string, item []byte) {
	b.begin(what)
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

// DeleteIf deletes an item that has the ETag. One with another fails with 412.
func (b *Batch) DeleteIf(id string, etag ETag) {
	b.begin("Delete")
	b.json = appendString(append(b.json, `,"id":`...), id)
	b.json = appendString(append(b.json, `,"ifMatch":`...), string(etag))
	b.end()
}

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
	Status int      // why: 404, 409 or 412
}

// Err returns why nothing took effect, nil if all did.
func (r BatchResult) Err() error {
	if r.Failed < 0 {
		return nil
	}
	return &Error{Status: r.Status, Err: fmt.Errorf("operation %d of a batch: status %d", r.Failed, r.Status)}
}

// Batch executes a batch. An operation that is refused for another reason than the state of its
// item is an error of the batch. One that met another write of the same item, or was throttled,
// is executed again, as single writes are.
func (c *Container) Batch(ctx context.Context, partition string, b *Batch) (BatchResult, error) {
	if c.patient {
		ctx = withRetries(ctx, withoutEnd)
	} else {
		ctx = withSomeRetries(ctx)
	}
	for contended, throttled := firstPause, firstPause; ; {
		r, x, err := c.execute(ctx, partition, b)
		if err != nil {
			return BatchResult{}, c.written(ctx, partition, err)
		}
		result, refused := resultOf(r)
		if refused == nil {
			if !b.NoItems {
				result.Items, err = x.bodies(b.count)
			}
			return result, wrap(err)
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
		if !scopeOf(ctx).retries.allows(wait, c.retryBudget) {
			return BatchResult{}, refused
		}
		if !sleep(ctx, wait) {
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

// resultOf returns the result of a batch, or why Cosmos DB did not apply it. azcosmos leaves the
// substatus and the retry-after of an operation out.
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
			refused := &Error{Status: o.Status, RetryAfter: time.Duration(o.RetryAfter * float64(time.Millisecond)), Err: fmt.Errorf("operation %d of a batch: status %d, substatus %d", i, o.Status, o.Substatus)}
			if o.Substatus != 0 {
				refused.Substatus = strconv.Itoa(o.Substatus)
			}
			return BatchResult{}, refused
		}
	}
	return BatchResult{}, &Error{Status: http.StatusInternalServerError, Err: errors.New("a batch failed without the status of an operation")}
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
		there = there || r.Failed == 0
		conflict = conflict || r.Failed > 0 // a create is refused for nothing else
	}
	return there, conflict, nil
}
