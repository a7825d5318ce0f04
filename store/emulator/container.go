package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/fulltext"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/sql"
)

// container is a container. Operations on its items hold mu for reading; a query only until it has
// its view. Changes of its definition or ranges hold it for writing.
type container struct {
	layout.Container
	database string // id of the database
	rid      string
	altPath  string // dbs/{db}/colls/{container}

	mu      sync.RWMutex
	deleted bool          // guarded by mu
	def     *definition   // guarded by mu; the definition itself is immutable
	ranges  []*partition  // guarded by mu; sorted by min, without gaps
	former  []formerRange // guarded by mu; the ranges that were split since the engine was opened

	// change is closed when the writer that holds or awaits mu is done. It is nil before the first writer.
	change atomic.Pointer[chan struct{}]

	revision atomic.Uint64 // the last revision of a range that splits
}

// definition is a container's properties, parsed. It is immutable.
type definition struct {
	record     containerRecord
	body       []byte // in the protocol's format
	key        partitionkey.Paths
	keyIndexed bool // the policy includes all paths of the partition key, or they are /id
	index      index.Indexes
	ttl        layout.TTL
}

// containerRecord is the stored form of a container.
type containerRecord struct {
	No         uint32                `json:"no"`
	Database   uint32                `json:"database"`
	ID         string                `json:"id"`
	ETag       string                `json:"etag"`
	Timestamp  int64                 `json:"ts"`
	Properties containerProperties   `json:"properties"`
	Ranges     []partitionkey.Record `json:"ranges"`
	Gone       []string              `json:"gone,omitempty"`
	Reindexing bool                  `json:"reindexing,omitempty"` // an index rebuild is unfinished
	Analysis   int                   `json:"analysis,omitempty"`   // version of the analysis in full-text indexes
}

// rLock locks mu for reading, unless ctx ends while it is locked for writing.
func (c *container) rLock(ctx context.Context) error {
	for !c.mu.TryRLock() {
		select {
		case <-*c.change.Load():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// lock locks mu for writing.
func (c *container) lock() {
	done := make(chan struct{})
	c.change.Store(&done) // before locking: readers that fail to lock wait for it
	c.mu.Lock()
}

func (c *container) unlock() {
	c.mu.Unlock()
	close(*c.change.Load())
}

// define returns the definition of a record.
func (r containerRecord) define() (*definition, error) {
	p := r.Properties
	d := &definition{record: r}
	d.key = partitionkey.Paths{Version: p.PartitionKey.Version, Multi: p.PartitionKey.Kind == "MultiHash"}
	for _, s := range p.PartitionKey.Paths {
		path, err := index.ParsePath(s)
		if err != nil || len(path) == 0 {
			return nil, apierror.BadRequest("The partition key path '%s' is invalid.", s)
		}
		d.key.Paths = append(d.key.Paths, path)
	}
	if p.DefaultTTL != nil {
		d.ttl = layout.TTL{Enabled: true, Seconds: int32(*p.DefaultTTL)}
	}
	var err error
	if d.index, err = index.New(p.IndexingPolicy, p.UniqueKeyPolicy, p.FullText); err != nil {
		return nil, err
	}
	d.keyIndexed = !slices.ContainsFunc(d.key.Paths,
		func(p sql.Path) bool { return !d.index.Includes(p) && !slices.Equal(p, sql.Path{"id"}) })
	props, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	rid := layout.EncodeRID(layout.ContainerRIDBytes(r.Database, r.No))
	d.body = append(props[:len(props)-1],
		fmt.Sprintf(
			`,"_rid":%q,"_self":"dbs/%s/colls/%s/","_etag":%q,"_docs":"docs/","_sprocs":"sprocs/","_triggers":"triggers/","_udfs":"udfs/","_conflicts":"conflicts/","_ts":%d}`,
			rid, layout.DatabaseRID(r.Database), rid, r.ETag, r.Timestamp)...)
	return d, nil
}

// open returns the container of a record.
func (r containerRecord) open(d *database) (*container, error) {
	def, err := r.define()
	if err != nil {
		return nil, err
	}
	raw := layout.ContainerRIDBytes(r.Database, r.No)
	c := &container{
		Container: layout.Container{No: r.No, RID: raw,
			SelfLink: "dbs/" + d.rid + "/colls/" + layout.EncodeRID(raw) + "/"},
		database: d.ID, rid: layout.EncodeRID(raw), def: def,
		altPath: "dbs/" + d.ID + "/colls/" + r.ID,
	}
	for _, rr := range r.Ranges {
		part, err := rr.Open()
		if err != nil {
			return nil, err
		}
		c.ranges = append(c.ranges, &partition{Range: part})
	}
	return c, nil
}

func (e *Engine) recoverLSNs(c *container) error {
	for _, p := range c.ranges {
		lsn, err := storedLSN(e.db, c, p)
		if err != nil {
			return err
		}
		p.lsn = lsn
		p.applied.Store(p.lsn)
		p.synced.Store(p.lsn)
	}
	return nil
}

// rangeOfLocked returns the physical partition of an effective partition key. The caller holds mu.
func (c *container) rangeOfLocked(epk []byte) *partition {
	return c.ranges[partitionkey.Search(len(c.ranges), func(i int) *partitionkey.Range {
		return &c.ranges[i].Range
	}, epk)]
}

// rangeByIDLocked finds a physical partition by its id, or, for the .NET and Java SDKs, by
// "<container resource id>,<id>". The caller holds mu.
func (c *container) rangeByIDLocked(id string) (*partition, error) {
	id = strings.TrimPrefix(id, c.rid+",")
	for _, p := range c.ranges {
		if p.ID() == id {
			return p, nil
		}
	}
	return nil, apierror.RangeGone()
}

// containers serves /dbs/{db}/colls: create, query and list.
func (e *Engine) containers(q *request) (*response, error) {
	d := e.catalog.Load().databases[q.segments[1]]
	if d == nil {
		return nil, apierror.OwnerNotFound()
	}
	var bodies [][]byte
	if q.method == http.MethodGet || isQuery(q) {
		for _, c := range sortedByNo(d.containers, func(c *container) uint32 { return c.No }) {
			if err := c.rLock(q.ctx); err != nil {
				return nil, err
			}
			bodies = append(bodies, c.def.body)
			c.mu.RUnlock()
		}
	}
	switch {
	case q.method == http.MethodPost && isQuery(q):
		return e.queryMetadata(q, "DocumentCollections", d.rid, bodies)
	case q.method == http.MethodPost:
		return e.createContainer(q)
	case q.method == http.MethodGet:
		return listResponse("DocumentCollections", d.rid, bodies), nil
	}
	return nil, apierror.MethodNotAllowed()
}

func (e *Engine) createContainer(q *request) (*response, error) {
	props, err := parseContainerProperties(q.body)
	if err != nil {
		return nil, err
	}
	content, err := offerFromHeaders(q)
	if err != nil {
		return nil, err
	}
	var made *container
	var def *definition // captured: another request may replace it at once
	err = e.changeMeta(q.ctx, func(m *metaChange) error {
		d := m.database(q.segments[1])
		if d == nil {
			return apierror.OwnerNotFound()
		}
		if d.containers[props.ID] != nil {
			return &apierror.Error{Status: 409, Code: "Conflict",
				Message: "Collection with specified id or name already exists.", Charge: charge.Metadata}
		}
		no, ts := m.number(), e.o.Clock().Unix()
		r := containerRecord{No: no, Database: d.No, ID: props.ID, ETag: quoteETag(layout.FormatETag(no, 0, 0, ts)),
			Timestamp:  ts,
			Properties: *props, Analysis: fulltext.Version}
		key := partitionkey.Paths{Version: props.PartitionKey.Version, Multi: props.PartitionKey.Kind == "MultiHash"}
		r.Ranges = key.Split(e.o.Partitions)
		if made, err = r.open(d); err != nil {
			return err
		}
		d.containers[props.ID], def = made, made.def
		if content == nil && !m.sharesThroughput(d) {
			content = &offerContent{Throughput: defaultThroughput}
		}
		if content != nil {
			if err := m.addOffer(made.rid, made.SelfLink, content, ts); err != nil {
				return err
			}
		}
		return m.set(layout.MetaContainer, no, r)
	})
	if err != nil {
		return nil, err
	}
	return &response{status: http.StatusCreated, body: def.body, etag: def.record.ETag,
		charge: charge.Metadata, container: made}, nil
}

func (m *metaChange) sharesThroughput(d *database) bool {
	for _, o := range m.cat.offers {
		if o.ResourceRID == d.rid {
			return true
		}
	}
	return false
}

// container serves /dbs/{db}/colls/{container}: read, replace and delete.
func (e *Engine) container(q *request) (*response, error) {
	c, err := e.lookup(q)
	if err != nil {
		var api *apierror.Error
		if errors.As(err, &api) && e.catalog.Load().databases[q.segments[1]] != nil {
			return nil, apierror.ResourceNotFound()
		}
		return nil, err
	}
	switch q.method {
	case http.MethodGet:
		if err := c.rLock(q.ctx); err != nil {
			return nil, err
		}
		defer c.mu.RUnlock()
		if etag := c.def.record.ETag; q.notModified(etag) {
			return &response{status: http.StatusNotModified, etag: etag, charge: charge.Metadata, container: c}, nil
		}
		p := c.ranges[0]
		lsn := p.synced.Load()
		return &response{status: http.StatusOK, body: c.def.body, etag: c.def.record.ETag,
			charge: charge.Metadata, container: c,
			session: sessionToken(p, lsn), lsn: lsn}, nil
	case http.MethodPut:
		return e.replaceContainer(q, c)
	case http.MethodDelete:
		err := e.changeMeta(q.ctx, func(m *metaChange) error {
			d := m.database(q.segments[1])
			if d == nil || d.containers[q.segments[3]] != c {
				return apierror.ResourceNotFound()
			}
			def, err := c.definition(q.ctx)
			if err != nil {
				return err
			}
			if err := checkIfMatch(q.get("If-Match"), def.record.ETag); err != nil {
				return err
			}
			delete(d.containers, q.segments[3])
			return m.dropContainer(c)
		})
		if err != nil {
			return nil, err
		}
		return &response{status: http.StatusNoContent, charge: charge.Metadata}, nil
	}
	return nil, apierror.MethodNotAllowed()
}

// dropContainer deletes a container with its items.
func (m *metaChange) dropContainer(c *container) error {
	m.lock(c)
	m.onCommit = append(m.onCommit, func() { c.deleted = true })
	for _, kind := range layout.ContainerKinds {
		if err := m.batch.DeleteRange(layout.AppendKind(nil, kind, c.No), layout.AppendKind(nil, kind, c.No+1),
			nil); err != nil {
			return err
		}
	}
	if err := m.dropOffer(c.rid); err != nil {
		return err
	}
	return m.remove(layout.MetaContainer, c.No)
}

// replaceContainer replaces the time to live and the indexing policy. It rebuilds the index before
// it responds.
func (e *Engine) replaceContainer(q *request, c *container) (*response, error) {
	props, err := parseContainerProperties(q.body)
	if err != nil {
		return nil, err
	}
	var def *definition
	err = e.changeMeta(q.ctx, func(m *metaChange) error {
		m.lock(c)
		if c.deleted {
			return apierror.ResourceNotFound()
		}
		old := c.def
		if err := checkIfMatch(q.get("If-Match"), old.record.ETag); err != nil {
			return err
		}
		was, is := old.record.Properties, props
		if is.ID != was.ID || is.PartitionKey.Kind != was.PartitionKey.Kind ||
			!slices.Equal(is.PartitionKey.Paths, was.PartitionKey.Paths) {
			return apierror.BadRequest("Document collection partition key cannot be changed.")
		}
		if !is.UniqueKeyPolicy.Same(was.UniqueKeyPolicy) {
			return apierror.BadRequest("The unique key policy of a container cannot be changed.")
		}
		is.PartitionKey.Version, is.UniqueKeyPolicy = was.PartitionKey.Version, was.UniqueKeyPolicy
		r := old.record
		r.Properties, r.Timestamp, r.Analysis = *props, e.o.Clock().Unix(), fulltext.Version
		r.ETag = quoteETag(layout.FormatETag(c.No, uint64(m.number()), 0, r.Timestamp))
		if def, err = r.define(); err != nil {
			return err
		}
		if def.sameIndex(old) {
			m.onCommit = append(m.onCommit, func() { c.def = def })
			return m.set(layout.MetaContainer, c.No, r)
		}
		return m.reindex(c, def)
	})
	if err != nil {
		return nil, err
	}
	return &response{status: http.StatusOK, body: def.body, etag: def.record.ETag, charge: charge.Metadata,
		container: c,
		extra:     []string{"X-Ms-Documentdb-Collection-Index-Transformation-Progress", "100"}}, nil
}
