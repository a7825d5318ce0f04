package emulator

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/query"
)

func isQuery(q *request) bool {
	return q.is("X-Ms-Documentdb-Isquery") || q.is("X-Ms-Documentdb-Query") ||
		strings.HasPrefix(q.get("Content-Type"), "application/query+json")
}

// listResponse returns a list of resources.
func listResponse(name, rid string, rows [][]byte) *response {
	return &response{status: http.StatusOK, body: query.List(name, rid, rows),
		charge: charge.Metadata, items: len(rows), counted: true}
}

// setPage completes the response by a page of a query.
func (resp *response) setPage(page *query.Page) *response {
	resp.status, resp.body, resp.charge = http.StatusOK, page.Body, page.Charge
	resp.items, resp.counted = page.Rows, true
	resp.continuation, resp.extra = page.Continuation, page.Header
	return resp
}

// queryMetadata serves a query over databases, containers or offers.
func (e *Engine) queryMetadata(q *request, name, rid string, bodies [][]byte) (*response, error) {
	r, err := e.queries.Parse(q.header, q.body)
	if err != nil {
		return nil, err
	}
	page, err := r.Over(name, rid, bodies)
	if err != nil {
		return nil, err
	}
	return new(response).setPage(page), nil
}

// query serves a query over items, or the request for its plan.
func (e *Engine) query(q *request, c *container) (*response, error) {
	r, err := e.queries.Parse(q.header, q.body)
	if err != nil {
		return nil, err
	}
	if r.IsPlanRequest() {
		body, err := r.Plan()
		if err != nil {
			return nil, err
		}
		return &response{status: http.StatusOK, body: body, charge: charge.Metadata, container: c}, nil
	}
	return e.runQuery(q, c, r)
}

// listItems serves the list of a container's items.
func (e *Engine) listItems(q *request, c *container) (*response, error) {
	h := q.header.Clone()
	h.Set("X-Ms-Documentdb-Query-Enablecrosspartition", "true")
	r, err := e.queries.Parse(h, []byte(`{"query":"SELECT * FROM c"}`))
	if err != nil {
		return nil, err
	}
	return e.runQuery(q, c, r)
}

// runQuery serves a page of a query over items.
func (e *Engine) runQuery(q *request, c *container, r *query.Request) (resp *response, err error) {
	run, err := e.openQuery(q, c, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	p := run.partitions([]*partitionkey.Range{run.Range()})[0]
	resp = (&response{container: c, partition: p, payers: run.partitions(run.Reads())}).at(e, run.view.at(p))
	if err := e.admit(q, resp.payers...); err != nil {
		return resp, err
	}
	for _, one := range resp.payers {
		if err := checkSession(one, one.applied.Load(), q.get("X-Ms-Session-Token")); err != nil {
			return resp, err
		}
	}
	page, err := run.Page(q.ctx)
	if err != nil {
		return resp, err
	}
	for _, p := range run.partitions(run.Scope()) {
		if err := e.durable.waitSynced(q.ctx, p, p.applied.Load()); err != nil {
			return nil, err
		}
	}
	return resp.setPage(page), nil
}

// openedQuery is a query of a state of the database.
type openedQuery struct {
	*query.Query
	view   view         // released
	ranges []*partition // of the container
}

// openQuery opens a query of the state that the request sees.
func (e *Engine) openQuery(q *request, c *container, r *query.Request) (*openedQuery, error) {
	if err := c.rLock(q.ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	if c.deleted {
		return nil, apierror.OwnerNotFound()
	}
	o := &openedQuery{ranges: c.ranges}
	var err error
	if o.Query, err = r.On(e.queriedLocked(c)); err != nil {
		return nil, err
	}
	if o.view, err = e.viewLocked(c, o.partitions(o.Scope()), q.get("X-Ms-Session-Token")); err != nil {
		return nil, err
	}
	defer o.view.release()
	if err := o.Open(o.view); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// queriedLocked describes a container to a query. The caller holds mu.
func (e *Engine) queriedLocked(c *container) query.Container {
	d, all := c.def, c.ranges
	ranges := make([]*partitionkey.Range, len(all))
	for i, p := range all {
		ranges[i] = &p.Range
	}
	return query.Container{Container: &c.Container, ResourceID: c.rid, Key: &d.key, KeyIndexed: d.keyIndexed,
		Indexes: &d.index, TTL: d.ttl, Ranges: ranges,
		Size: func(r *partitionkey.Range) (items, bytes int, err error) {
			s, err := e.sizeOfPartition(c, partitionsOf(all, []*partitionkey.Range{r})[0])
			return s.items, s.bytes, err
		}}
}

// partitions returns the physical partitions of some of the container's ranges.
func (o *openedQuery) partitions(of []*partitionkey.Range) []*partition {
	return partitionsOf(o.ranges, of)
}

// partitionsOf returns the physical partitions of all that have the ranges.
func partitionsOf(all []*partition, ranges []*partitionkey.Range) []*partition {
	found := make([]*partition, 0, len(ranges))
	for _, p := range all {
		if slices.Contains(ranges, &p.Range) {
			found = append(found, p)
		}
	}
	return found
}
