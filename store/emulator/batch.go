package emulator

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// Limits of a transactional batch.
const (
	maxBatchOperations = 100
	maxBatchBytes      = 2 << 20
)

// batchOp is one operation of a transactional batch, as it stands in the body.
type batchOp struct {
	Type    string          `json:"operationType"`
	ID      string          `json:"id"`
	IfMatch string          `json:"ifMatch"`
	Body    json.RawMessage `json:"resourceBody"`
}

// batchResult is one element of the answer.
type batchResult struct {
	status    int
	substatus int
	charge    float64
	etag      string
	body      []byte
}

// batch runs a transactional batch: its operations in order, each seeing what
// those before it did, all of them or none.
func (e *Engine) batch(q *request, c *container) (*response, error) {
	if len(q.body) > maxBatchBytes {
		return nil, tooLarge()
	}
	var ops []batchOp
	if err := json.Unmarshal(q.body, &ops); err != nil {
		return nil, badRequest("The batch request is invalid: it is not a JSON array of operations.")
	}
	if len(ops) == 0 {
		return nil, badRequest("The batch request has no operations.")
	}
	if len(ops) > maxBatchOperations {
		return nil, badRequest("Batch request has more operations than what is supported.")
	}
	d, err := c.definition()
	if err != nil {
		return nil, err
	}
	key, err := d.requestKey(q)
	if err != nil {
		return nil, err
	}
	prepared := make([]operation, len(ops))
	for i := range ops {
		prepared[i] = ops[i].prepare(d)
	}
	results := make([]batchResult, len(ops))
	failed, failure := -1, error(nil)
	p, lsn, err := e.commit(q, c, key, true, func(t *transaction) error {
		for i := range ops {
			res, err := prepared[i](t)
			var api *apiError
			if errors.As(err, &api) {
				failed, failure = i, err
				results[i] = batchResult{status: api.status, substatus: api.substatus, charge: api.charge}
				if api.status == http.StatusConflict {
					results[i].charge = chargeBatchConflict
				}
				return err
			}
			if err != nil {
				return err
			}
			results[i] = batchResult{status: res.status, charge: res.charge}
			if res.rec != nil {
				results[i].etag = res.rec.etag(c.no)
				if !q.minimal() || ops[i].Type == "Read" {
					results[i].body = res.rec.doc
				}
			}
		}
		return nil
	})
	if err != nil && (failure == nil || !errors.Is(err, failure)) {
		return &response{container: c, partition: p, lsn: lsn}, err
	}
	resp := &response{status: http.StatusOK, container: c, partition: p, lsn: lsn, session: sessionToken(p, lsn), items: len(ops), counted: true}
	if failed >= 0 {
		resp.status = http.StatusMultiStatus
		for i := range results {
			if i != failed { // an operation that ran is rolled back, but was paid for
				results[i].status, results[i].etag, results[i].body = http.StatusFailedDependency, "", nil
			}
		}
	}
	resp.body = appendBatchResults(nil, results)
	for _, r := range results {
		resp.charge += r.charge
	}
	return resp, nil
}

// prepare parses an operation. What is wrong with it is reported when its turn
// comes.
func (op *batchOp) prepare(d *definition) operation {
	fail := func(err error) operation {
		return func(*transaction) (opResult, error) { return opResult{}, err }
	}
	switch op.Type {
	case "Create", "Upsert", "Replace":
		n, err := d.parseItem(op.Body)
		if err != nil {
			return fail(err)
		}
		switch op.Type {
		case "Create":
			return func(t *transaction) (opResult, error) { return t.create(n) }
		case "Upsert":
			return func(t *transaction) (opResult, error) { return t.upsert(n, op.IfMatch) }
		}
		return func(t *transaction) (opResult, error) { return t.replace(op.ID, n, op.IfMatch) }
	case "Patch":
		p, err := parsePatch(op.Body)
		if err != nil {
			return fail(err)
		}
		return func(t *transaction) (opResult, error) { return t.patch(op.ID, p, op.IfMatch) }
	case "Delete":
		return func(t *transaction) (opResult, error) { return t.delete(op.ID, op.IfMatch) }
	case "Read":
		return func(t *transaction) (opResult, error) { return t.read(op.ID) }
	}
	return fail(badRequest("The batch operation type '%s' is invalid.", op.Type))
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
		dst = append(append(dst, `,"requestCharge":`...), formatCharge(r.charge)...)
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
