package emulator

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/sql"
	"byline/store/emulator/jsonpart"

	"github.com/cockroachdb/pebble/v2"
)

// Limits of the service.
const (
	maxItemBytes = 2 << 20
	maxIDBytes   = 1023
)

// newItem is an item from a client, validated and normalised: without white space between tokens
// and without system properties. Numbers and member order are unchanged.
type newItem struct {
	id  string
	ttl int32
	key partitionkey.Key
	doc []byte // taken over by the record
}

func (d *definition) parseItem(body []byte) (*newItem, error) {
	if len(body) <= maxItemBytes && !sql.ValidJSON(body) {
		return nil, invalidPayload()
	}
	return d.parseValidItem(body)
}

// parseValidItem is parseItem for valid JSON. The item may take over body.
func (d *definition) parseValidItem(body []byte) (*newItem, error) {
	if len(body) > maxItemBytes {
		return nil, apierror.TooLarge()
	}
	depth, spaced := sql.Survey(body)
	if depth > sql.MaxNesting {
		return nil, apierror.BadRequest("The document is nested more than %d levels deep.", sql.MaxNesting)
	}
	doc := body
	if spaced {
		doc = sql.Compact(body)
	}
	if len(doc) == 0 || doc[0] != '{' {
		return nil, invalidPayload()
	}
	return d.item(stripSystemProperties(doc))
}

func invalidPayload() *apierror.Error {
	return apierror.BadRequest("The request payload is invalid. Ensure to provide a valid request payload.")
}

// item extracts what the engine needs from a normalised document. It refuses repeated names on the
// paths of the id, the time to live and the partition key, because JSON readers differ in which one
// they use.
func (d *definition) item(doc []byte) (*newItem, error) {
	n := &newItem{doc: doc}
	var problem error
	found, id, ttl, keys := false, 0, 0, [3]int{} // number of occurrences
	for c := range jsonpart.Children(doc) {
		name := sql.MemberName(c)
		switch string(name) {
		case "id":
			id++
			found = sql.ReadText(c.Value, &n.id) && n.id != ""
			if len(n.id) > maxIDBytes {
				problem = apierror.BadRequest("The id is longer than %d bytes.", maxIDBytes)
			}
		case "ttl":
			ttl++
			value := sql.ValueOf(c.Value)
			if value.Kind() == sql.Null {
				break
			}
			seconds := value.Float()
			if value.Kind() != sql.Number || seconds != math.Trunc(seconds) || seconds == 0 || seconds < -1 ||
				seconds > math.MaxInt32 {
				problem = apierror.BadRequest(
					"The input ttl '%s' is invalid. Ensure to provide a nonzero positive integer less than or equal "+
						"to '2147483647', or -1 which means never expire.", c.Value)
				break
			}
			n.ttl = int32(seconds)
		}
		for i, p := range d.key.Paths {
			if p[0] == string(name) {
				keys[i]++
				if keys[i] > 1 || len(p) > 1 && repeats(c.Value, p[1:]) {
					problem = repeated(p.String())
				}
			}
		}
	}
	switch {
	case id > 1:
		return nil, repeated("/id")
	case ttl > 1:
		return nil, repeated("/ttl")
	}
	if problem != nil {
		return nil, problem
	}
	if !found {
		return nil, apierror.BadRequest(
			"The input content is invalid because the required properties - 'id; ' - are missing.")
	}
	var err error
	n.key, err = d.key.Of(doc)
	return n, err
}

// repeats reports whether a name on a path is repeated.
func repeats(doc []byte, path sql.Path) bool {
	times, deeper, position := 0, false, -1
	for c := range jsonpart.Children(doc) {
		name := sql.MemberName(c)
		if position++; doc[0] == '[' {
			name = strconv.AppendInt(nil, int64(position), 10)
		}
		if string(name) == path[0] {
			times++
			deeper = deeper || len(path) > 1 && repeats(c.Value, path[1:])
		}
	}
	return times > 1 || deeper
}

func repeated(path string) error {
	return apierror.BadRequest(
		"The input content is invalid: the property '%s', or one that it is in, occurs more than once.", path)
}

func stripSystemProperties(doc []byte) []byte {
	isSystem := func(c jsonpart.Child) bool { return layout.IsSystemProperty(string(sql.MemberName(c))) }
	system := false
	for c := range jsonpart.Children(doc) {
		system = system || isSystem(c)
	}
	if !system {
		return doc
	}
	out := append(make([]byte, 0, len(doc)), '{')
	for c := range jsonpart.Children(doc) {
		if isSystem(c) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), c.Name...), `":`...), c.Value...)
	}
	return append(out, '}')
}

// requestKey reads the partition key of a request on one item or of a transactional batch.
func (d *definition) requestKey(q *request) (partitionkey.Key, error) {
	header := q.get("X-Ms-Documentdb-Partitionkey")
	if header == "" {
		return nil, apierror.BadRequest("PartitionKey value must be supplied for this operation.")
	}
	return d.itemKey(header)
}

// itemKey parses a complete partition key in the format of the header.
func (d *definition) itemKey(text string) (partitionkey.Key, error) {
	key, err := d.key.Parse(text)
	if err != nil {
		return nil, err
	}
	if len(key) < len(d.key.Paths) {
		return nil, apierror.PartitionKeyMismatch(
			"PartitionKey supplied in x-ms-partitionkey header has fewer components than defined in the the collection.")
	}
	return key, nil
}

// items serves /dbs/{db}/colls/{container}/docs and /docs/{id}.
func (e *Engine) items(q *request) (*response, error) {
	c, err := e.lookup(q)
	if err != nil {
		return nil, err
	}
	if rid := q.get("X-Ms-Cosmos-Intended-Collection-Rid"); rid != "" && rid != c.rid {
		return nil, apierror.Recreated(rid)
	}
	id := q.segments[len(q.segments)-1] // for kinds that name an item; assigned once, so that closures copy it
	match := q.get("If-Match")
	switch kind := q.classify(); kind {
	case kindRead:
		return e.readItem(q, c, id)
	case kindCreate, kindUpsert:
		return e.writeItem(q, c, func(d *definition) (operation, error) {
			n, err := d.parseItem(q.body)
			return func(t *transaction) (opResult, error) {
				if kind == kindUpsert {
					return t.upsert(n, match)
				}
				return t.create(n)
			}, err
		})
	case kindReplace:
		return e.writeItem(q, c, func(d *definition) (operation, error) {
			n, err := d.parseItem(q.body)
			return func(t *transaction) (opResult, error) { return t.replace(id, n, match) }, err
		})
	case kindPatch:
		return e.writeItem(q, c, func(d *definition) (operation, error) {
			p, err := e.parsePatch(q.body)
			return func(t *transaction) (opResult, error) { return t.patch(id, p, match) }, err
		})
	case kindDelete:
		return e.writeItem(q, c, func(d *definition) (operation, error) {
			return func(t *transaction) (opResult, error) { return t.delete(id, match) }, nil
		})
	case kindBatch:
		return e.batch(q, c)
	case kindQuery:
		if q.method == http.MethodGet {
			return e.listItems(q, c)
		}
		return e.query(q, c)
	case kindChangeFeed:
		if mode := q.get("A-Im"); !strings.EqualFold(mode, "Incremental Feed") {
			return nil, apierror.BadRequest(
				"The change feed mode '%s' is not supported: only the latest versions are kept.", mode)
		}
		return e.changeFeed(q, c)
	}
	return nil, apierror.MethodNotAllowed()
}

// readItem serves a point read.
func (e *Engine) readItem(q *request, c *container, id string) (*response, error) {
	if err := c.rLock(q.ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	if c.deleted {
		return nil, apierror.OwnerNotFound()
	}
	key, err := c.def.requestKey(q)
	if err != nil {
		return nil, err
	}
	var buf [256]byte
	k := c.def.key.AppendPartition(layout.AppendKind(buf[:0], layout.KindItem, c.No), key)
	p := c.rangeOfLocked(k[5 : 5+c.def.key.EPKLength()])
	resp := &response{container: c, partition: p}
	if err := e.admit(q, p); err != nil {
		return resp, err
	}
	token := q.get("X-Ms-Session-Token")
	if err := checkSession(p, p.applied.Load(), token); err != nil {
		return resp.at(e, p.synced.Load()), err
	}
	view, err := e.viewLocked(c, []*partition{p}, token)
	if err != nil {
		return resp.at(e, view.at(p)), err
	}
	v, closer, err := view.Get(append(k, id...))
	view.release()
	if errors.Is(err, pebble.ErrNotFound) {
		// the absence may be a delete that is not durable yet
		if err := e.durable.waitSynced(q.ctx, p, p.applied.Load()); err != nil {
			return nil, err
		}
		return resp.at(e, view.at(p)), apierror.ItemNotFound()
	} else if err != nil {
		return nil, err
	}
	defer closer.Close()
	r, err := c.ReadRecord(v, nil)
	if err != nil {
		return nil, err
	}
	if err := e.durable.waitSynced(q.ctx, p, r.LSN); err != nil {
		return nil, err
	}
	resp.at(e, max(view.at(p), r.LSN))
	if c.def.ttl.Expired(&r, e.o.Clock) {
		return resp, apierror.ItemNotFound()
	}
	resp.etag = r.ETag(c.No)
	if q.notModified(resp.etag) {
		resp.status, resp.charge = http.StatusNotModified, charge.NotModified
		return resp, nil
	}
	resp.status, resp.charge = http.StatusOK, charge.Read(len(r.Doc))
	resp.body = r.Doc
	return resp, nil
}
