package emulator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"byline/internal/jsonpart"
	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
)

// Limits of the service.
const (
	maxItemBytes = 2 << 20
	maxIDBytes   = 1023
	maxKeyBytes  = 2048 // of one component of a partition key
	maxNesting   = 128
)

// record is one item. It is stored as a header of headerBytes and the client's JSON. doc is that
// JSON followed by the system properties, which derive from the header.
type record struct {
	lsn    uint64
	op     uint16
	rid    uint64
	ts     int64
	ttl    int32 // of the item: 0 none, -1 never
	client int   // length of the client's JSON without its closing brace
	size   int   // length of the document
	doc    []byte
}

const (
	recordVersion = 1
	headerBytes   = 1 + 8 + 2 + 8 + 8 + 4
)

var errCorrupt = errors.New("corrupt item record")

func (r *record) append(dst []byte) []byte {
	dst = append(dst, recordVersion)
	dst = binary.BigEndian.AppendUint64(dst, r.lsn)
	dst = binary.BigEndian.AppendUint16(dst, r.op)
	dst = binary.BigEndian.AppendUint64(dst, r.rid)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ts))
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.ttl))
	return r.appendClientDoc(dst)
}

// readRecord decodes a stored value and copies what it keeps. The document is built in *buf, or in
// a new buffer if buf is nil.
func (c *container) readRecord(b []byte, buf *[]byte) (record, error) {
	r, err := readHeader(b)
	if err != nil {
		return record{}, err
	}
	if buf == nil {
		buf = new([]byte)
	}
	r.finish(c, b[headerBytes:], *buf)
	*buf = r.doc
	return r, nil
}

// readHeader decodes the header of a stored value.
func readHeader(b []byte) (record, error) {
	if len(b) < headerBytes+len("{}") || b[0] != recordVersion {
		return record{}, errCorrupt
	}
	return record{
		lsn: binary.BigEndian.Uint64(b[1:]),
		op:  binary.BigEndian.Uint16(b[9:]),
		rid: binary.BigEndian.Uint64(b[11:]),
		ts:  int64(binary.BigEndian.Uint64(b[19:])),
		ttl: int32(binary.BigEndian.Uint32(b[27:])),
	}, nil
}

// appendClientDoc appends the client's JSON.
func (r *record) appendClientDoc(dst []byte) []byte {
	return append(append(dst, r.doc[:r.client]...), '}')
}

// etag returns the item's ETag with its quotes.
func (r *record) etag(container uint32) string {
	return string(appendETag(make([]byte, 0, 64), container, r, `"`))
}

func appendETag(dst []byte, container uint32, r *record, quote string) []byte {
	dst = append(dst, quote...)
	dst = appendHex(dst, r.lsn&0xFFFFFFFF, 8)
	dst = appendHex(append(dst, '-'), r.lsn>>32, 4)
	dst = appendHex(append(dst, '-'), uint64(container), 4)
	dst = appendHex(append(dst, '-'), uint64(r.op), 4)
	dst = appendHex(append(dst, '-'), uint64(r.ts), 8)
	return append(append(dst, "0000"...), quote...)
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, "0123456789abcdef"[v>>(4*i)&0xF])
	}
	return dst
}

// finish builds the document in buf, if that is large enough: the client's JSON and the system
// properties. buf may be client itself.
func (r *record) finish(c *container, client, buf []byte) {
	b := slices.Grow(buf[:0], len(client)+len(c.selfLink)+systemBytes)
	b = append(b, client[:len(client)-1]...)
	r.client = len(b)
	b = append(b, `,"_rid":"`...) // there is a member before: the id
	at := len(b)
	b = appendItemRID(b, c.ridBytes, r.rid)
	rid := b[at:]
	b = append(append(append(b, `","_self":"`...), c.selfLink...), "docs/"...)
	b = append(append(b, rid...), `/","_etag":"`...)
	b = appendETag(b, c.no, r, `\"`)
	b = append(b, `","_attachments":"attachments/","_ts":`...)
	b = strconv.AppendInt(b, r.ts, 10)
	r.doc = append(b, '}')
	r.size = len(r.doc)
}

// systemBytes bounds the size of the system properties without the container's link.
const systemBytes = 200

func isSystemProperty(name string) bool {
	switch name {
	case "_rid", "_self", "_etag", "_attachments", "_ts", "_lsn":
		return true
	}
	return false
}

// newItem is an item from a client, validated and normalised: without white space between tokens
// and without system properties. Numbers and member order are unchanged.
type newItem struct {
	id  string
	ttl int32
	key partitionKey
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
	depth, spaced := survey(body)
	if depth > maxNesting {
		return nil, apierror.BadRequest("The document is nested more than %d levels deep.", maxNesting)
	}
	doc := body
	if spaced {
		doc = compact(body)
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
		name := memberName(c)
		switch string(name) {
		case "id":
			id++
			found = readText(c.Value, &n.id) && n.id != ""
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
			if value.Kind() != sql.Number || seconds != math.Trunc(seconds) || seconds == 0 || seconds < -1 || seconds > math.MaxInt32 {
				problem = apierror.BadRequest("The input ttl '%s' is invalid. Ensure to provide a nonzero positive integer less than or equal to '2147483647', or -1 which means never expire.", c.Value)
				break
			}
			n.ttl = int32(seconds)
		}
		for i, p := range d.key.paths {
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
		return nil, apierror.BadRequest("The input content is invalid because the required properties - 'id; ' - are missing.")
	}
	var err error
	n.key, err = d.key.of(doc)
	return n, err
}

// repeats reports whether a name on a path is repeated.
func repeats(doc []byte, path sql.Path) bool {
	times, deeper, position := 0, false, -1
	for c := range jsonpart.Children(doc) {
		name := memberName(c)
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

// memberName returns the decoded name of a member. It shares the member's bytes unless it has
// escapes.
func memberName(c jsonpart.Child) []byte {
	if bytes.IndexByte(c.Name, '\\') < 0 {
		return c.Name
	}
	return []byte(sql.ValueOf(slices.Concat([]byte{'"'}, c.Name, []byte{'"'})).String())
}

func repeated(path string) error {
	return apierror.BadRequest("The input content is invalid: the property '%s', or one that it is in, occurs more than once.", path)
}

func tooDeep(doc []byte) bool {
	depth, _ := survey(doc)
	return depth > maxNesting
}

// survey returns the nesting depth of a document, and whether there is white space between its
// tokens. It stops beyond maxNesting.
func survey(doc []byte) (deepest int, spaced bool) {
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = jsonpart.StringEnd(doc, i) - 1
		case '{', '[':
			if depth++; depth > deepest {
				if deepest = depth; deepest > maxNesting {
					return deepest, spaced
				}
			}
		case '}', ']':
			depth--
		case ' ', '\t', '\n', '\r':
			spaced = true
		}
	}
	return deepest, spaced
}

// compact returns a copy of valid JSON without white space between tokens.
func compact(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			end := jsonpart.StringEnd(doc, i)
			out = append(out, doc[i:end]...)
			i = end - 1
		case ' ', '\t', '\n', '\r':
		default:
			out = append(out, doc[i])
		}
	}
	return out
}

func stripSystemProperties(doc []byte) []byte {
	isSystem := func(c jsonpart.Child) bool { return isSystemProperty(string(memberName(c))) }
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
func (d *definition) requestKey(q *request) (partitionKey, error) {
	header := q.get("X-Ms-Documentdb-Partitionkey")
	if header == "" {
		return nil, apierror.BadRequest("PartitionKey value must be supplied for this operation.")
	}
	return d.itemKey(header)
}

// itemKey parses a complete partition key in the format of the header.
func (d *definition) itemKey(text string) (partitionKey, error) {
	key, err := parsePartitionKey(text)
	if err != nil {
		return nil, err
	}
	if len(key) == 0 { // all components undefined
		key = make(partitionKey, len(d.key.paths))
	}
	if len(key) < len(d.key.paths) {
		return nil, apierror.PartitionKeyMismatch("PartitionKey supplied in x-ms-partitionkey header has fewer components than defined in the the collection.")
	}
	if len(key) > len(d.key.paths) {
		return nil, apierror.BadRequest("Partition key provided has more components than the container's definition.")
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
	switch q.kind {
	case Read:
		return e.readItem(q, c, id)
	case Create, Upsert:
		return e.writeItem(q, c, func(d *definition) (operation, error) {
			n, err := d.parseItem(q.body)
			return func(t *transaction) (opResult, error) {
				if q.kind == Upsert {
					return t.upsert(n, match)
				}
				return t.create(n)
			}, err
		})
	case Replace:
		return e.writeItem(q, c, func(d *definition) (operation, error) {
			n, err := d.parseItem(q.body)
			return func(t *transaction) (opResult, error) { return t.replace(id, n, match) }, err
		})
	case Patch:
		return e.writeItem(q, c, func(d *definition) (operation, error) {
			p, err := e.parsePatch(q.body)
			return func(t *transaction) (opResult, error) { return t.patch(id, p, match) }, err
		})
	case Delete:
		return e.writeItem(q, c, func(d *definition) (operation, error) {
			return func(t *transaction) (opResult, error) { return t.delete(id, match) }, nil
		})
	case Batch:
		return e.batch(q, c)
	case Query:
		if q.method == http.MethodGet {
			return e.listItems(q, c)
		}
		return e.query(q, c)
	case ChangeFeed:
		if mode := q.get("A-Im"); !strings.EqualFold(mode, "Incremental Feed") {
			return nil, apierror.BadRequest("The change feed mode '%s' is not supported: only the latest versions are kept.", mode)
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
	k := c.def.key.appendPartition(appendKind(buf[:0], kindItem, c.no), key)
	p := c.rangeOfLocked(k[5 : 5+c.def.key.epkLength()])
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
		if err := e.durable.waitSynced(q.ctx, p, p.applied.Load()); err != nil { // the absence may be a delete that is not durable yet
			return nil, err
		}
		return resp.at(e, view.at(p)), apierror.ItemNotFound()
	} else if err != nil {
		return nil, err
	}
	defer closer.Close()
	r, err := c.readRecord(v, nil)
	if err != nil {
		return nil, err
	}
	if err := e.durable.waitSynced(q.ctx, p, r.lsn); err != nil {
		return nil, err
	}
	resp.at(e, max(view.at(p), r.lsn))
	if c.def.expired(&r, e.o.Clock) {
		return resp, apierror.ItemNotFound()
	}
	resp.etag = r.etag(c.no)
	if q.notModified(resp.etag) {
		resp.status, resp.charge = http.StatusNotModified, charge.NotModified
		return resp, nil
	}
	resp.status, resp.charge = http.StatusOK, charge.Read(len(r.doc))
	resp.body = r.doc
	return resp, nil
}
