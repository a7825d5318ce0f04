package emulator

import (
	"context"
	"errors"
	"net/http"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/partitionkey"
)

// bulk runs a batch that is not atomic, as SDKs send them in bulk mode. Each operation is its own
// transaction in the logical partition that it names, in order. No operation runs once the client is
// gone, nor, unless continueOnError, after a failure. All operations must be in the physical
// partition that the request names; otherwise the client's routing map is stale, the response is
// 410 and nothing is done.
//
// bulk returns once all writes are durable. It also waits whenever the pending writes exceed
// maxBatchWritten.
func (e *Engine) bulk(q *request, c *container, ops []batchOp, continueOnError bool) (*response, error) {
	prepared := make([]bulkOp, len(ops))
	p, err := e.prepareBulk(q, c, ops, prepared)
	if err != nil {
		return &response{container: c, partition: p}, err
	}
	if err := e.admit(q, p); err != nil {
		return &response{container: c, partition: p}, err
	}
	// Applied writes cannot be undone, so wait for their outcome even if the client is gone.
	ctx := context.WithoutCancel(q.ctx)
	resp := (&response{container: c, partition: p}).at(e, p.synced.Load())
	results := make([]batchResult, len(ops))
	status, size, done, settled := http.StatusOK, 0, 0, 0
	settle := func() {
		for ; settled < done; settled++ {
			op := &prepared[settled]
			in, lsn, err := op.t.finish(ctx, op.err)
			var api *apierror.Error
			switch {
			case errors.As(err, &api):
				results[settled], status = failedOperation(api), http.StatusMultiStatus
			case err != nil:
				e.o.Logger.Error("operation of a batch failed", "operation", ops[settled].kind, "err", err)
				results[settled], status = batchResult{status: http.StatusServiceUnavailable}, http.StatusMultiStatus
			default:
				results[settled] = ops[settled].result(q, c, op.res)
			}
			if lsn > 0 { // a child, if the partition was split meanwhile
				resp.partition = in
				resp.at(e, lsn)
			}
			*op = bulkOp{}
		}
	}
	written := 0 // bytes not settled yet
	for i := range prepared {
		if q.ctx.Err() != nil {
			break
		}
		op := &prepared[i]
		done++
		if op.err == nil {
			op.err = q.injected.batchFailure(i)
		}
		if op.err == nil {
			op.t = transaction{e: e, c: c, key: op.key}
			op.err = op.t.apply(ctx, func(t *transaction) (err error) {
				if op.res, err = op.run(t); err == nil {
					err = ops[i].checkSize(q, op.res, &size)
				}
				written += t.batch.Len()
				return err
			})
		}
		if op.err != nil && !continueOnError {
			break
		}
		if written > maxBatchWritten {
			settle()
			written = 0
		}
	}
	settle()
	for i := done; i < len(results); i++ {
		results[i], status = batchResult{status: http.StatusFailedDependency}, http.StatusMultiStatus
	}
	resp.status = status
	resp.setResults(results)
	return resp, nil
}

// bulkOp is one operation of a bulk request.
type bulkOp struct {
	key partitionkey.Key
	run operation
	t   transaction
	res opResult
	err error // from preparing or applying it
}

// prepareBulk parses the operations and returns the physical partition of the request.
func (e *Engine) prepareBulk(q *request, c *container, ops []batchOp, prepared []bulkOp) (*partition, error) {
	if err := c.rLock(q.ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	if c.deleted {
		return nil, apierror.OwnerNotFound()
	}
	d, header := c.def, q.get("X-Ms-Documentdb-Partitionkey")
	var p *partition
	if id := q.get("X-Ms-Documentdb-Partitionkeyrangeid"); id != "" {
		var err error
		if p, err = c.rangeByIDLocked(id); err != nil {
			return nil, err
		}
	} else {
		key, err := d.requestKey(q)
		if err != nil {
			return nil, err
		}
		p = c.rangeOfLocked(d.key.AppendEPK(nil, key))
	}
	for i := range ops {
		text := ops[i].key
		if text == "" {
			text = header
		}
		if text == "" {
			prepared[i].err = apierror.BadRequest("PartitionKey value must be supplied for this operation.")
			continue
		}
		key, err := d.itemKey(text)
		if err != nil {
			prepared[i].err = err
			continue
		}
		if !p.Holds(d.key.AppendEPK(nil, key)) {
			return p, apierror.RangeGone()
		}
		prepared[i].key, prepared[i].run = key, e.prepare(&ops[i], d, key)
	}
	return p, nil
}
