package emulator

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/query"
	"byline/store/emulator/internal/sql"
	"byline/store/emulator/jsonpart"
)

// Limits of a batch.
const (
	maxBatchOperations = 100
	maxBatchBytes      = 2 << 20
	maxBatchWritten    = 32 << 20 // with index entries: small operations can patch large items
)

// batchOp is one operation in the body of a batch.
type batchOp struct {
	kind        string // Create, Upsert, Replace, Patch, Delete or Read
	id          string
	key         string // in the header's format
	ifMatch     string
	ifNoneMatch string
	minimal     bool
	body        []byte // shares the batch's bytes
}

// batchResult is one element of the response.
type batchResult struct {
	status    int
	substatus int
	charge    float64
	etag      string
	body      []byte
}

// batch serves transactional batches and the batches of bulk mode.
func (e *Engine) batch(q *request, c *container) (*response, error) {
	if len(q.body) > maxBatchBytes {
		return nil, apierror.TooLarge()
	}
	if len(q.body) > 0 && q.body[0] == hybridRow {
		return nil, apierror.BadRequest(
			"The batch request is in HybridRow, the binary format of the .NET SDK: only JSON is supported.")
	}
	ops, err := parseBatch(q.body)
	if err != nil {
		return nil, err
	}
	const atomic, continueOnError = "X-Ms-Cosmos-Batch-Atomic", "X-Ms-Cosmos-Batch-Continue-On-Error"
	switch {
	case q.is(atomic) && q.is(continueOnError):
		return nil, apierror.BadRequest(
			"The headers '%s' and '%s' contradict each other.", strings.ToLower(atomic),
			strings.ToLower(continueOnError))
	case !q.is(atomic) && (q.get(atomic) != "" || q.get(continueOnError) != ""):
		return e.bulk(q, c, ops, q.is(continueOnError))
	}
	return e.transactionalBatch(q, c, ops)
}

// parseBatch reads the operations of a batch, which share its bytes. Item bodies are checked later,
// one by one.
func parseBatch(body []byte) (ops []batchOp, err error) {
	operations := bytes.TrimSpace(body)
	if !sql.ValidJSON(body) || operations[0] != '[' {
		return nil, apierror.BadRequest("The batch request is invalid: it is not a JSON array of operations.")
	}
	for c := range jsonpart.Children(operations) {
		if len(ops) == maxBatchOperations {
			return nil, apierror.BadRequest("Batch request has more operations than what is supported.")
		}
		op, ok := parseBatchOp(c.Value)
		if !ok {
			return nil, apierror.BadRequest("The batch request is invalid: its operation %d is not one.", len(ops))
		}
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		return nil, apierror.BadRequest("The batch request has no operations.")
	}
	return ops, nil
}

func parseBatchOp(raw []byte) (op batchOp, ok bool) {
	ok = raw[0] == '{'
	for c := range jsonpart.Children(raw) {
		switch string(sql.MemberName(c)) {
		case "operationType":
			ok = sql.ReadText(c.Value, &op.kind) && ok
		case "id":
			ok = sql.ReadText(c.Value, &op.id) && ok
		case "partitionKey":
			ok = sql.ReadText(c.Value, &op.key) && ok
		case "ifMatch":
			ok = sql.ReadText(c.Value, &op.ifMatch) && ok
		case "ifNoneMatch":
			ok = sql.ReadText(c.Value, &op.ifNoneMatch) && ok
		case "minimalReturnPreference":
			op.minimal = c.Value[0] == 't'
			ok = ok && (c.Value[0] == 't' || c.Value[0] == 'f' || c.Value[0] == 'n')
		case "resourceBody":
			op.body = slices.Clip(c.Value)
		}
	}
	return op, ok
}

// hybridRow is the first byte of a HybridRow record.
const hybridRow = 0x81

// transactionalBatch runs operations in order, each seeing the writes of those before it: all of
// them or none.
func (e *Engine) transactionalBatch(q *request, c *container, ops []batchOp) (*response, error) {
	d, err := c.definition(q.ctx)
	if err != nil {
		return nil, err
	}
	key, err := d.requestKey(q)
	if err != nil {
		return nil, err
	}
	prepared := make([]operation, len(ops))
	for i := range ops {
		prepared[i] = e.prepare(&ops[i], d, key)
	}
	results := make([]batchResult, len(ops))
	failed, failure, size := -1, error(nil), 0
	p, lsn, err := e.commit(q, c, key, true, func(t *transaction) error {
		for i := range ops {
			if err := q.ctx.Err(); err != nil { // stop early: other writers wait for the partition
				return err
			}
			res, err := prepared[i](t)
			if err == nil && t.batch.Len() > maxBatchWritten {
				err = apierror.TooLarge()
			}
			if err == nil {
				err = ops[i].checkSize(q, res, &size)
			}
			var api *apierror.Error
			if errors.As(err, &api) {
				failed, failure = i, err
				results[i] = failedOperation(api)
				if api.Status == http.StatusConflict {
					results[i].charge = charge.BatchConflict
				}
				return err
			}
			if err != nil {
				return err
			}
			results[i] = ops[i].result(q, c, res)
		}
		return nil
	})
	if err != nil && (failure == nil || !errors.Is(err, failure)) {
		return &response{container: c, partition: p, lsn: lsn}, err
	}
	resp := &response{status: http.StatusOK, container: c, partition: p, lsn: lsn,
		session: sessionToken(p, lsn)}
	if failed >= 0 {
		resp.status = http.StatusMultiStatus
		for i := range results {
			if i != failed { // rolled back, but charged
				results[i].status, results[i].etag, results[i].body = http.StatusFailedDependency, "", nil
			}
		}
	}
	resp.setResults(results)
	return resp, nil
}

// setResults sets the body and charge of a batch response.
func (resp *response) setResults(results []batchResult) {
	resp.items, resp.counted = len(results), true
	size := 0
	for _, r := range results {
		resp.charge += r.charge
		size += len(r.body) + 160 // for the envelope
	}
	resp.body = appendBatchResults(make([]byte, 0, size), results)
}

func failedOperation(err *apierror.Error) batchResult {
	return batchResult{status: err.Status, substatus: err.Substatus, charge: err.Charge}
}

// returnsItem reports whether the response includes the item that was read or written.
func (op *batchOp) returnsItem(q *request) bool {
	return op.kind == "Read" || !op.minimal && !q.minimal()
}

// checkSize adds the returned item to the size of the response, and refuses an operation if that then
// exceeds the limit: a small request can read or patch a large item repeatedly.
func (op *batchOp) checkSize(q *request, res opResult, size *int) error {
	if res.rec == nil || !op.returnsItem(q) {
		return nil
	}
	if *size > 0 && *size+len(res.rec.Doc) > query.MaxPageBytes {
		return apierror.BatchResponseFull()
	}
	*size += len(res.rec.Doc)
	return nil
}

// result returns the response element of an operation that succeeded.
func (op *batchOp) result(q *request, c *container, res opResult) batchResult {
	r := batchResult{status: res.status, charge: res.charge}
	if res.rec != nil {
		r.etag = res.rec.ETag(c.No)
		if op.returnsItem(q) {
			r.body = res.rec.Doc
		}
	}
	return r
}

// prepare parses an operation on the logical partition of a key. Errors are reported when the
// operation runs.
func (e *Engine) prepare(op *batchOp, d *definition, key partitionkey.Key) operation {
	fail := func(err error) operation {
		return func(*transaction) (opResult, error) { return opResult{}, err }
	}
	if op.ifNoneMatch != "" {
		return fail(apierror.BadRequest("'ifNoneMatch' of a batch operation is not supported."))
	}
	if op.key != "" {
		own, err := d.itemKey(op.key)
		if err != nil {
			return fail(err)
		}
		if !own.Equal(key) {
			return fail(apierror.PartitionKeyMismatch(
				"The partition key of the operation doesn't match the one specified in the header."))
		}
	}
	switch op.kind {
	case "Create", "Upsert", "Replace":
		n, err := d.parseValidItem(op.body)
		if err != nil {
			return fail(err)
		}
		switch op.kind {
		case "Create":
			return func(t *transaction) (opResult, error) { return t.create(n) }
		case "Upsert":
			return func(t *transaction) (opResult, error) { return t.upsert(n, op.ifMatch) }
		}
		return func(t *transaction) (opResult, error) { return t.replace(op.id, n, op.ifMatch) }
	case "Patch":
		p, err := e.parseValidPatch(op.body)
		if err != nil {
			return fail(err)
		}
		return func(t *transaction) (opResult, error) { return t.patch(op.id, p, op.ifMatch) }
	case "Delete":
		return func(t *transaction) (opResult, error) { return t.delete(op.id, op.ifMatch) }
	case "Read":
		return func(t *transaction) (opResult, error) { return t.read(op.id) }
	}
	return fail(apierror.BadRequest("The batch operation type '%s' is invalid.", op.kind))
}

func appendBatchResults(dst []byte, results []batchResult) []byte {
	dst = append(dst, '[')
	for i, r := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"statusCode":`...), int64(r.status), 10)
		if r.substatus != 0 {
			dst = strconv.AppendInt(append(dst, `,"subStatusCode":`...), int64(r.substatus), 10)
		}
		dst = append(append(dst, `,"requestCharge":`...), charge.Format(r.charge)...)
		if r.etag != "" {
			dst = strconv.AppendQuote(append(dst, `,"eTag":`...), r.etag)
		}
		if r.body != nil {
			dst = append(append(dst, `,"resourceBody":`...), r.body...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

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
