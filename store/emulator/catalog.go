package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/fulltext"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
)

// catalog is all metadata. It is immutable: a change replaces it.
type catalog struct {
	databases map[string]*database // by id
	offers    map[string]*offer    // by id
}

// database is immutable.
type database struct {
	databaseRecord
	rid        string
	body       []byte                // in the protocol's format
	containers map[string]*container // by id
}

// databaseRecord is the stored form of a database.
type databaseRecord struct {
	No        uint32 `json:"no"`
	ID        string `json:"id"`
	ETag      string `json:"etag"`
	Timestamp int64  `json:"ts"`
}

func (r databaseRecord) open() *database {
	d := &database{databaseRecord: r, rid: layout.DatabaseRID(r.No), containers: map[string]*container{}}
	d.body = fmt.Appendf(nil,
		`{"id":%s,"_rid":%q,"_self":"dbs/%s/","_etag":%q,"_colls":"colls/","_users":"users/","_ts":%d}`,
		sql.AppendQuoted(nil, []byte(r.ID)), d.rid, d.rid, r.ETag, r.Timestamp)
	return d
}

// loadCatalog reads the metadata, and the last LSN of every physical partition.
func (e *Engine) loadCatalog() error {
	cat := &catalog{databases: map[string]*database{}, offers: map[string]*offer{}}
	byNo := map[uint32]*database{}
	var unfinished []*container
	if err := e.eachMeta(layout.MetaDatabase, func(b []byte) error {
		var r databaseRecord
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		d := r.open()
		cat.databases[d.ID], byNo[d.No] = d, d
		return nil
	}); err != nil {
		return err
	}
	if err := e.eachMeta(layout.MetaContainer, func(b []byte) error {
		var r containerRecord
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		d := byNo[r.Database]
		if d == nil {
			return fmt.Errorf("container %d belongs to no database", r.No)
		}
		c, err := r.open(d)
		if err != nil {
			return err
		}
		d.containers[r.ID] = c
		if r.Reindexing || r.Analysis != fulltext.Version && c.def.index.HasTexts() {
			unfinished = append(unfinished, c)
		}
		return e.recoverLSNs(c)
	}); err != nil {
		return err
	}
	if err := e.eachMeta(layout.MetaOffer, func(b []byte) error {
		var o offer
		if err := json.Unmarshal(b, &o); err != nil {
			return err
		}
		cat.offers[o.id()] = &o
		return nil
	}); err != nil {
		return err
	}
	if err := e.eachMeta(layout.MetaNext, func(b []byte) error { return json.Unmarshal(b, &e.next) }); err != nil {
		return err
	}
	if e.next == 0 {
		e.next = 1
	}
	e.catalog.Store(cat)
	for _, c := range unfinished {
		if err := e.finishReindex(c); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) eachMeta(kind byte, fn func([]byte) error) error {
	prefix := []byte{layout.KindMeta, kind}
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.PrefixEnd(prefix)})
	if err != nil {
		return err
	}
	defer it.Close()
	for it.First(); it.Valid(); it.Next() {
		if err := fn(it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}

// metaChange prepares a change of metadata.
type metaChange struct {
	e     *Engine
	batch *pebble.Batch
	cat   *catalog // a copy, to be modified

	locked   []*container // until the change is visible
	onCommit []func()
}

// lock blocks all operations on a container until the change is visible.
func (m *metaChange) lock(c *container) {
	c.lock()
	m.locked = append(m.locked, c)
}

// changeMeta runs fn, commits durably what it prepared, and makes it visible. Nothing happens if
// ctx ends while it waits for another change.
func (e *Engine) changeMeta(ctx context.Context, fn func(*metaChange) error) error {
	select {
	case e.changing <- struct{}{}:
		defer func() { <-e.changing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.durable.failed.Load() != nil {
		return notDurable()
	}
	old := e.catalog.Load()
	m := &metaChange{e: e, batch: e.db.NewBatch(),
		cat: &catalog{databases: maps.Clone(old.databases), offers: maps.Clone(old.offers)}}
	defer m.batch.Close()
	defer func() {
		for _, c := range m.locked {
			c.unlock()
		}
	}()
	next := e.next
	if err := fn(m); err != nil {
		e.next = next
		return err
	}
	if err := m.set(layout.MetaNext, 0, e.next); err != nil {
		return err
	}
	if err := e.durable.outcome(e.db.Apply(m.batch, pebble.Sync)); err != nil {
		e.writesFailed(err)
		return notDurable()
	}
	for _, fn := range m.onCommit {
		fn()
	}
	e.catalog.Store(m.cat)
	if e.replica != nil {
		e.replica.catchUp()
	}
	return nil
}

// applyPart applies one part of a change that is too large for one batch. It fails after a failed
// write, because Pebble would keep further parts in memory.
func (e *Engine) applyPart(batch *pebble.Batch) error {
	return e.durable.outcome(e.db.Apply(batch, pebble.NoSync))
}

// number allocates a number. Numbers are never reused.
func (m *metaChange) number() uint32 {
	n := m.e.next
	m.e.next++
	return n
}

func (m *metaChange) set(kind byte, no uint32, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return m.batch.Set(layout.MetaKey(kind, no), b, nil)
}

func (m *metaChange) remove(kind byte, no uint32) error {
	return m.batch.Delete(layout.MetaKey(kind, no), nil)
}

// database returns a copy of a database to be changed, or nil if it does not exist.
func (m *metaChange) database(id string) *database {
	d := m.cat.databases[id]
	if d == nil {
		return nil
	}
	changed := *d
	changed.containers = maps.Clone(d.containers)
	m.cat.databases[id] = &changed
	return &changed
}

// resolveRIDs replaces the resource ids of a database and a container in a path by their names: the
// .NET and Java SDKs address resources by id. It reports whether the path has resource ids, and
// returns the last one, which is that of the resource or of a feed's parent. Unknown ones are unchanged.
func (cat *catalog) resolveRIDs(path []string) (last string, ok bool) {
	if len(path) < 2 || path[0] != "dbs" || cat.databases[path[1]] != nil {
		return "", false
	}
	if raw, err := layout.RIDEncoding.DecodeString(path[1]); err != nil || len(raw) != layout.DatabaseRIDBytes {
		return "", false
	}
	last = path[len(path)&^1-1]
	for _, d := range cat.databases {
		if d.rid != path[1] {
			continue
		}
		path[1] = d.ID
		for id, c := range d.containers {
			if len(path) >= 4 && c.rid == path[3] {
				path[3] = id
				break
			}
		}
		break
	}
	return last, true
}

// lookup finds the container of a request's path.
func (e *Engine) lookup(q *request) (*container, error) {
	if d := e.catalog.Load().databases[q.segments[1]]; d != nil {
		if c := d.containers[q.segments[3]]; c != nil {
			return c, nil
		}
	}
	return nil, apierror.OwnerNotFound()
}

// databases serves /dbs: create, query and list.
func (e *Engine) databases(q *request) (*response, error) {
	switch {
	case q.method == http.MethodPost && isQuery(q):
		return e.queryMetadata(q, "Databases", "", e.databaseBodies())
	case q.method == http.MethodPost:
		return e.createDatabase(q)
	case q.method == http.MethodGet:
		return listResponse("Databases", "", e.databaseBodies()), nil
	}
	return nil, apierror.MethodNotAllowed()
}

func (e *Engine) databaseBodies() [][]byte {
	var all [][]byte
	for _, d := range sortedByNo(e.catalog.Load().databases, func(d *database) uint32 { return d.No }) {
		all = append(all, d.body)
	}
	return all
}

func (e *Engine) createDatabase(q *request) (*response, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(q.body, &in); err != nil {
		return nil, apierror.BadRequest("The request payload is invalid. Ensure to provide a valid request payload.")
	}
	if err := checkSupported("database", bytes.TrimSpace(q.body), "id"); err != nil {
		return nil, err
	}
	if err := checkResourceID(in.ID); err != nil {
		return nil, err
	}
	content, err := offerFromHeaders(q)
	if err != nil {
		return nil, err
	}
	var made *database
	err = e.changeMeta(q.ctx, func(m *metaChange) error {
		if m.cat.databases[in.ID] != nil {
			return &apierror.Error{Status: 409, Code: "Conflict",
				Message: "Database with specified id or name already exists.", Charge: charge.Metadata}
		}
		no, ts := m.number(), e.o.Clock().Unix()
		made = databaseRecord{No: no, ID: in.ID, ETag: quoteETag(layout.FormatETag(0, uint64(no), 0, ts)),
			Timestamp: ts}.open()
		m.cat.databases[in.ID] = made
		if content != nil {
			if err := m.addOffer(made.rid, "dbs/"+made.rid+"/", content, ts); err != nil {
				return err
			}
		}
		return m.set(layout.MetaDatabase, no, made.databaseRecord)
	})
	if err != nil {
		return nil, err
	}
	return &response{status: http.StatusCreated, body: made.body, etag: made.ETag, charge: charge.Metadata}, nil
}

// database serves /dbs/{db}: read and delete.
func (e *Engine) database(q *request) (*response, error) {
	id := q.segments[1]
	switch q.method {
	case http.MethodGet:
		d := e.catalog.Load().databases[id]
		if d == nil {
			return nil, apierror.ResourceNotFound()
		}
		if q.notModified(d.ETag) {
			return &response{status: http.StatusNotModified, etag: d.ETag, charge: charge.Metadata}, nil
		}
		return &response{status: http.StatusOK, body: d.body, etag: d.ETag, charge: charge.Metadata}, nil
	case http.MethodDelete:
		err := e.changeMeta(q.ctx, func(m *metaChange) error {
			d := m.cat.databases[id]
			if d == nil {
				return apierror.ResourceNotFound()
			}
			if err := checkIfMatch(q.get("If-Match"), d.ETag); err != nil {
				return err
			}
			for _, c := range d.containers {
				if err := m.dropContainer(c); err != nil {
					return err
				}
			}
			delete(m.cat.databases, id)
			if err := m.dropOffer(d.rid); err != nil {
				return err
			}
			return m.remove(layout.MetaDatabase, d.No)
		})
		if err != nil {
			return nil, err
		}
		return &response{status: http.StatusNoContent, charge: charge.Metadata}, nil
	}
	return nil, apierror.MethodNotAllowed()
}

// checkResourceID validates the name of a database or container. encoding/json has replaced invalid
// Unicode by U+FFFD, so names with U+FFFD are refused.
func checkResourceID(id string) error {
	switch {
	case id == "":
		return apierror.BadRequest(
			"The input content is invalid because the required properties - 'id; ' - are missing.")
	case utf8.RuneCountInString(id) > 255 || strings.ContainsAny(id, "/\\?#\uFFFD") ||
		strings.ContainsFunc(id, unicode.IsControl) || strings.HasSuffix(id, " "):
		return apierror.BadRequest(
			"The input name '%s' is invalid. Ensure to provide a unique non-empty string less than '255' characters.",
			id)
	}
	return nil
}

func quoteETag(tag string) string { return `"` + tag + `"` }
