package emulator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"pgregory.net/rapid"
)

// checkpoint is a position in the change feed.
type checkpoint struct {
	token string // "": the beginning
	seq   int    // of the last transaction that it has seen
}

// readFeed drains the change feed from a position. It records the end of each page as a checkpoint.
func (r *rig) readFeed(t *rapid.T, token string, size int32, more func(*azcosmos.ChangeFeedOptions)) []map[string]any {
	o := azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}, MaxItemCount: size}
	if token != "" {
		o.Continuation = &token
	}
	if more != nil {
		more(&o)
	}
	var docs []map[string]any
	for {
		res, err := r.c.ReadChangeFeed(context.Background(), &o)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range res.Items {
			docs = append(docs, parsed(t, b))
		}
		if o.PartitionKey == nil && size > 0 && len(r.checkpoints) < 20 {
			seq := r.seq
			if res.Count > 0 {
				last := docs[len(docs)-1]
				pk, _ := json.Marshal(last["pk"])
				if i := r.find(modelKey{string(pk), last["id"].(string)}); i != nil {
					seq = i.seq
				}
			}
			r.checkpoints = append(r.checkpoints, checkpoint{res.ContinuationToken, seq})
		}
		if res.Count == 0 {
			return docs
		}
		o.Continuation = &res.ContinuationToken
	}
}

// checkFeed compares what was read from a checkpoint with the items written since: each once, in its current version,
// in the order of the last writes.
func (r *rig) checkFeed(t *rapid.T, docs []map[string]any, from checkpoint) {
	r.sameFeed(t, docs, r.live(func(i *modelItem) bool { return i.seq > from.seq }))
}

func (r *rig) sameFeed(t *rapid.T, docs []map[string]any, want []*modelItem) {
	if len(docs) != len(want) {
		t.Fatalf("the change feed has %d items, the model %d", len(docs), len(want))
	}
	lsn, seq := 0.0, 0
	for n, doc := range docs {
		i := want[n]
		if doc["id"] != i.doc["id"] || !equalJSON(doc["pk"], i.doc["pk"]) {
			t.Fatalf("item %d of the change feed is %v, the model has %v", n, doc, i.doc)
		}
		r.same(t, i, doc)
		switch is := doc["_lsn"].(float64); {
		case i.seq == seq && is != lsn, i.seq != seq && is <= lsn:
			t.Fatalf("item %d has LSN %v after %v", n, is, lsn)
		default:
			lsn, seq = is, i.seq
		}
	}
}

// feed reads the change feed from any checkpoint, in pages of any size.
func (r *rig) feed(t *rapid.T) {
	size := int32(rapid.IntRange(1, 4).Draw(t, "page size"))
	if rapid.IntRange(0, 3).Draw(t, "one key") == 0 {
		pk := r.anyKey(t)
		key := keyOf(pk)
		docs := r.readFeed(t, "", size, func(o *azcosmos.ChangeFeedOptions) { o.PartitionKey = &key })
		r.sameFeed(t, docs, r.passes(pk, nil))
		return
	}
	from := checkpoint{}
	if len(r.checkpoints) > 0 {
		at := rapid.IntRange(-1, len(r.checkpoints)-1).Draw(t, "checkpoint")
		if at >= 0 {
			from = r.checkpoints[at]
			r.checkpoints = append(r.checkpoints[:at], r.checkpoints[at+1:]...)
		}
	}
	r.checkFeed(t, r.readFeed(t, from.token, size, nil), from)
}

// feedSince reads the change feed from a time.
func (r *rig) feedSince(t *rapid.T) {
	since := r.now - rapid.Int64Range(-1, 60).Draw(t, "seconds ago")
	from := time.Unix(since, 0)
	docs := r.readFeed(t, "", int32(rapid.IntRange(1, 4).Draw(t, "page size")), func(o *azcosmos.ChangeFeedOptions) {
		o.StartFrom = &from
	})
	r.sameFeed(t, docs, r.live(func(i *modelItem) bool { return i.ts >= since }))
}

// pages is a query that is read page by page while items change and the engine is reopened.
type pages struct {
	text   string
	pk     string // "": all partitions
	filter filter
	params []azcosmos.QueryParameter
	token  *string
	begun  map[modelKey]string // what matched when it began, by etag
	seen   map[modelKey]string
}

func (r *rig) openPages(t *rapid.T) {
	q := r.drawQuery(t)
	q.top, q.limit = -1, -1
	b := drawBinder(t)
	p := &pages{begun: map[modelKey]string{}, seen: map[modelKey]string{}, filter: q.filter}
	if rapid.Bool().Draw(t, "one key") {
		p.pk = r.anyKey(t)
		if always, _ := r.policy.sorts(q.orderBy); !always {
			q.orderBy = nil
		}
	} else {
		q.orderBy = nil
	}
	p.text = q.text("*", b)
	if b != nil {
		p.params = b.params
	}
	for _, i := range r.passes(p.pk, p.filter) {
		p.begun[i.modelKey] = i.etag
	}
	r.pages = append(r.pages, p)
	r.page(t, len(r.pages)-1)
}

func (r *rig) nextPages(t *rapid.T) {
	if len(r.pages) == 0 {
		t.Skip("no open query")
	}
	r.page(t, rapid.IntRange(0, len(r.pages)-1).Draw(t, "which"))
}

// page reads one page. An item that does not change meanwhile must be returned exactly once, and a returned item must
// match at that moment.
func (r *rig) page(t *rapid.T, at int) {
	p := r.pages[at]
	key := azcosmos.NewPartitionKey()
	if p.pk != "" {
		key = keyOf(p.pk)
	}
	res, err := r.c.NewQueryItemsPager(p.text, key,
		&azcosmos.QueryOptions{PageSizeHint: int32(rapid.IntRange(1, 3).Draw(t, "page size")),
			ContinuationToken: p.token, QueryParameters: p.params}).NextPage(context.Background())
	if err != nil {
		t.Fatalf("%s: %v", p.text, err)
	}
	for _, row := range res.Items {
		doc := parsed(t, row)
		pk, _ := json.Marshal(doc["pk"])
		i := r.find(modelKey{string(pk), doc["id"].(string)})
		if i == nil || p.filter != nil && p.filter.eval(i.doc) != yes || p.pk != "" && p.pk != i.pk {
			t.Fatalf("%s: a page has %s, which does not match", p.text, row)
		}
		r.same(t, i, doc)
		if p.seen[i.modelKey] == i.etag {
			t.Fatalf("%s: %s is returned twice", p.text, row)
		}
		p.seen[i.modelKey] = i.etag
	}
	if p.token = res.ContinuationToken; p.token != nil && *p.token != "" {
		return
	}
	for k, etag := range p.begun {
		if i := r.find(k); i != nil && i.etag == etag && p.seen[k] != etag {
			t.Fatalf("%s: %v is missing", p.text, k)
		}
	}
	r.pages = append(r.pages[:at], r.pages[at+1:]...)
}
