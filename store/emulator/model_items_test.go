package emulator

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"pgregory.net/rapid"
)

// model is a naive implementation of one container.
type model struct {
	items  map[modelKey]*modelItem
	ttl    int32 // of the container; 0: off
	unique bool  // /u is a unique key
	now    int64
	seq    int // of the last transaction with a write
}

type modelKey struct{ pk, id string } // pk is JSON

type modelItem struct {
	modelKey
	doc     map[string]any
	etag    string // as the engine gave it; "" within a batch
	ts      int64
	seq, op int // position in the change feed
}

func newModel() model { return model{items: map[modelKey]*modelItem{}} }

func (m *model) expired(i *modelItem) bool {
	ttl, _ := i.doc["ttl"].(float64)
	if ttl == 0 {
		ttl = float64(m.ttl)
	}
	return m.ttl != 0 && ttl > 0 && float64(m.now) >= float64(i.ts)+ttl
}

func (m *model) find(k modelKey) *modelItem {
	if i := m.items[k]; i != nil && !m.expired(i) {
		return i
	}
	return nil
}

// live returns the unexpired items that pass, in the order of the change feed.
func (m *model) live(pass func(*modelItem) bool) []*modelItem {
	var out []*modelItem
	for _, i := range m.items {
		if !m.expired(i) && pass(i) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b *modelItem) int {
		if a.seq != b.seq {
			return a.seq - b.seq
		}
		return a.op - b.op
	})
	return out
}

// modelOp is one operation on one item.
type modelOp struct {
	kind    string
	id      string
	doc     map[string]any
	ifMatch *azcore.ETag
	patch   []modelPatch
	when    string // condition of a patch: c.n = 1 or so
	filter  filter
}

type modelPatch struct {
	op, path string
	value    any
}

func (r *rig) draw(t *rapid.T, kind, pk string) modelOp {
	op := modelOp{kind: kind, id: r.anyID(t)}
	if existing := r.passes(pk, nil); kind != "Create" && len(existing) > 0 &&
		rapid.IntRange(0, 3).Draw(t, "existing item") > 0 {
		op.id = rapid.SampledFrom(existing).Draw(t, "item").id
	}
	if kind == "Create" || kind == "Upsert" || kind == "Replace" {
		op.doc = r.drawDoc(t, pk, op.id)
	} else if kind == "Patch" {
		op.patch = rapid.SliceOfN(rapid.Custom(drawPatch), 1, 3).Draw(t, "patch")
		if rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
			f := drawComparison(t)
			op.when, op.filter = "from c where "+f.sql(nil), f
		}
	}
	if kind == "Create" || kind == "Read" { // azcosmos sends no If-Match with them
		return op
	}
	var tag azcore.ETag
	switch rapid.IntRange(0, 5).Draw(t, "If-Match") {
	case 0:
		tag = `"00000000-0000-0000-0000-000000000000"`
	case 1:
		if i := r.find(modelKey{pk, op.id}); i != nil {
			tag = azcore.ETag(i.etag)
		}
	case 2:
		if len(r.etags) > 0 {
			tag = azcore.ETag(rapid.SampledFrom(r.etags).Draw(t, "old etag"))
		}
	case 3:
		tag = "*"
	default:
		return op
	}
	if tag != "" {
		op.ifMatch = &tag
	}
	return op
}

func (r *rig) drawDoc(t *rapid.T, pk, id string) map[string]any {
	var key any
	if err := json.Unmarshal([]byte(pk), &key); err != nil {
		t.Fatal(err)
	}
	doc := map[string]any{"id": id, "pk": key}
	set := func(name string, values ...any) {
		if i := rapid.IntRange(-1, len(values)-1).Draw(t, name); i >= 0 {
			doc[name] = values[i]
		}
	}
	set("t", "x", "x", "y")
	set("n", -1.0, 0.0, 1.0, 2.5, 1e20, "1", nil, true)
	set("s", append([]any{"", "a", "ab", "b", "\x00", "é", 3.0}, longValues...)...)
	set("o", map[string]any{"k": 1.0}, map[string]any{"k": "1", "l": []any{1.0}}, []any{})
	set("list", []any{}, []any{1.0}, []any{1.0, "two"})
	if r.ttl != 0 {
		set("ttl", 10.0, -1.0, 100.0)
	}
	if r.unique {
		doc["u"] = rapid.IntRange(0, 6).Draw(t, "u")
		doc["u"] = float64(doc["u"].(int))
	}
	return doc
}

func drawPatch(t *rapid.T) modelPatch {
	paths := []string{"/n", "/s", "/t", "/o/k", "/o", "/list/0", "/list/-", "/list/2", "/u", "/new", "/new/deep",
		"/ttl"}
	p := modelPatch{op: rapid.SampledFrom([]string{"set", "add", "replace", "remove", "incr"}).Draw(t, "op"),
		path: rapid.SampledFrom(paths).Draw(t, "path")}
	if p.op == "add" && rapid.Bool().Draw(t, "element") {
		p.path = rapid.SampledFrom([]string{"/list/0", "/list/1", "/list/2", "/list/-"}).Draw(t, "path")
	}
	switch p.op {
	case "incr":
		p.value = float64(rapid.IntRange(-2, 2).Draw(t, "by"))
	case "set", "add", "replace":
		p.value = rapid.SampledFrom([]any{1.0, 2.5, "a", "x", true, []any{5.0}, map[string]any{"k": 9.0}}).Draw(t,
			"value")
	}
	return p
}

// apply applies an operation to the model. It returns the status that the protocol requires, and the item written or
// read.
func (m *model) apply(op *modelOp, pk string) (status int, after *modelItem) {
	k := modelKey{pk, op.id}
	old := m.find(k)
	stale := old != nil && op.ifMatch != nil && *op.ifMatch != "*" && string(*op.ifMatch) != old.etag
	status = http.StatusOK
	switch {
	case op.kind == "Create" && old != nil:
		return http.StatusConflict, nil
	case op.kind == "Create" || op.kind == "Upsert" && old == nil:
		status = http.StatusCreated
	case old == nil:
		return http.StatusNotFound, nil
	case op.kind == "Read":
		return http.StatusOK, old
	case stale:
		return http.StatusPreconditionFailed, nil
	case op.kind == "Delete":
		delete(m.items, k)
		return http.StatusNoContent, nil
	}
	doc := op.doc
	if op.kind == "Patch" {
		if op.filter != nil && op.filter.eval(old.doc) != yes {
			return http.StatusPreconditionFailed, nil
		}
		var ok bool
		if doc, ok = patched(old.doc, op.patch); !ok {
			return http.StatusBadRequest, nil
		}
		if ttl, ok := doc["ttl"]; ok && ttl != nil {
			if n, ok := ttl.(float64); !ok || n != float64(int(n)) || n == 0 || n < -1 {
				return http.StatusBadRequest, nil
			}
		}
	}
	if m.unique {
		for _, i := range m.items {
			if i.pk == pk && i.id != op.id && !m.expired(i) && equalJSON(i.doc["u"], doc["u"]) &&
				has(i.doc, "u") == has(doc, "u") {
				return http.StatusConflict, nil
			}
		}
	}
	after = &modelItem{modelKey: k, doc: doc, ts: m.now}
	m.items[k] = after
	return status, after
}

func has(doc map[string]any, name string) bool { _, ok := doc[name]; return ok }

// patched returns a document with a patch applied, or false if the patch is invalid for it.
func patched(doc map[string]any, ops []modelPatch) (map[string]any, bool) {
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, false
	}
	root := map[string]any{}
	if json.Unmarshal(b, &root) != nil {
		return nil, false
	}
	for _, p := range ops {
		steps := strings.Split(p.path[1:], "/")
		if !patchAt(root, steps, p, func(v any) { root = v.(map[string]any) }) {
			return nil, false
		}
	}
	return root, true
}

// patchAt applies one operation within v; put replaces v in its parent.
func patchAt(v any, steps []string, p modelPatch, put func(any)) bool {
	name, last := steps[0], len(steps) == 1
	switch v := v.(type) {
	case map[string]any:
		old, ok := v[name]
		if !last {
			return ok && patchAt(old, steps[1:], p, func(n any) { v[name] = n })
		}
		switch {
		case p.op == "remove" && ok:
			delete(v, name)
		case p.op == "set" || p.op == "add" || p.op == "replace" && ok || p.op == "incr" && !ok:
			v[name] = p.value
		case p.op == "incr":
			n, ok := old.(float64)
			if ok {
				v[name] = n + p.value.(float64)
			}
			return ok
		default:
			return false
		}
		return true
	case []any:
		at, err := strconv.Atoi(name)
		if name == "-" {
			at, err = len(v), nil
		}
		if err != nil || at > len(v) {
			return false
		}
		if !last {
			return at < len(v) && patchAt(v[at], steps[1:], p, func(n any) { v[at] = n })
		}
		switch {
		case p.op == "add" || p.op == "set" && name == "-":
			put(slices.Insert(slices.Clone(v), at, p.value))
		case at == len(v):
			return false
		case p.op == "set" || p.op == "replace":
			v[at] = p.value
		case p.op == "remove":
			put(slices.Delete(slices.Clone(v), at, at+1))
		case p.op == "incr":
			n, ok := v[at].(float64)
			if ok {
				v[at] = n + p.value.(float64)
			}
			return ok
		}
		return true
	}
	return false
}

func (op *modelOp) patchOperations() azcosmos.PatchOperations {
	var ops azcosmos.PatchOperations
	for _, p := range op.patch {
		switch p.op {
		case "set":
			ops.AppendSet(p.path, p.value)
		case "add":
			ops.AppendAdd(p.path, p.value)
		case "replace":
			ops.AppendReplace(p.path, p.value)
		case "remove":
			ops.AppendRemove(p.path)
		case "incr":
			ops.AppendIncrement(p.path, int64(p.value.(float64)))
		}
	}
	if op.when != "" {
		ops.SetCondition(op.when)
	}
	return ops
}

func (op *modelOp) body(t *rapid.T) []byte {
	b, err := json.Marshal(op.doc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// write runs one operation on its own.
func (r *rig) write(t *rapid.T, kind string) {
	ctx, pk := context.Background(), r.anyKey(t)
	op := r.draw(t, kind, pk)
	key, o := keyOf(pk),
		&azcosmos.ItemOptions{IfMatchEtag: op.ifMatch, EnableContentResponseOnWrite: rapid.Bool().Draw(t, "content")}
	var res azcosmos.ItemResponse
	var err error
	switch kind {
	case "Create":
		res, err = r.c.CreateItem(ctx, key, op.body(t), o)
	case "Upsert":
		res, err = r.c.UpsertItem(ctx, key, op.body(t), o)
	case "Replace":
		res, err = r.c.ReplaceItem(ctx, key, op.id, op.body(t), o)
	case "Patch":
		res, err = r.c.PatchItem(ctx, key, op.id, op.patchOperations(), o)
	case "Delete":
		res, err = r.c.DeleteItem(ctx, key, op.id, o)
	}
	got := statusOf(err)
	if err == nil {
		got = res.RawResponse.StatusCode
	}
	want, item := r.apply(&op, pk)
	if got != want {
		t.Fatalf("got status %d, want %d: %+v in %s: %v", got, want, op, pk, err)
	}
	if err != nil {
		return
	}
	r.session(t, res.SessionToken)
	r.wrote()
	if item == nil {
		return
	}
	item.etag, item.seq = string(res.ETag), r.seq
	r.etags = append(r.etags, item.etag)
	if o.EnableContentResponseOnWrite {
		r.same(t, item, parsed(t, res.Value))
	} else if len(res.Value) > 0 {
		t.Fatalf("unrequested body: %s", res.Value)
	}
}

// wrote records a transaction with a write.
func (r *rig) wrote() { r.seq++; r.times[r.now] = struct{}{} }

// batch runs several operations in one transactional batch.
func (r *rig) batch(t *rapid.T) {
	pk := r.anyKey(t)
	b := r.c.NewTransactionalBatch(keyOf(pk))
	before := r.items
	r.items = maps.Clone(before)
	n := rapid.IntRange(1, 5).Draw(t, "operations")
	var want []int
	var read []*modelItem // items in the results
	failed, wrote := -1, false
	for i := range n {
		op := r.draw(t,
			rapid.SampledFrom([]string{"Create", "Upsert", "Upsert", "Replace", "Patch", "Delete", "Read"}).Draw(t,
				"kind"), pk)
		o := &azcosmos.TransactionalBatchItemOptions{IfMatchETag: op.ifMatch}
		switch op.kind {
		case "Create":
			b.CreateItem(op.body(t), o)
		case "Upsert":
			b.UpsertItem(op.body(t), o)
		case "Replace":
			b.ReplaceItem(op.id, op.body(t), o)
		case "Patch":
			b.PatchItem(op.id, op.patchOperations(), o)
		case "Delete":
			b.DeleteItem(op.id, o)
		case "Read":
			b.ReadItem(op.id, o)
		}
		status, item := http.StatusFailedDependency, (*modelItem)(nil)
		if failed < 0 {
			if status, item = r.apply(&op, pk); status >= 400 {
				failed = i
			} else if op.kind != "Read" {
				wrote = true
				if item != nil {
					item.op = i
				}
			}
		}
		want, read = append(want, status), append(read, item)
	}
	if failed >= 0 {
		r.items = before
		for i := range failed {
			want[i] = http.StatusFailedDependency
		}
	}
	out, err := r.c.ExecuteTransactionalBatch(context.Background(), b,
		&azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(statuses(out), want) || out.Success != (failed < 0) {
		t.Fatalf("batch: got %v, want %v", statuses(out), want)
	}
	if failed >= 0 || !wrote {
		return
	}
	r.session(t, &out.SessionToken)
	r.wrote()
	for i, item := range read {
		if item == nil {
			continue
		}
		one := out.OperationResults[i]
		if item.etag == "" {
			item.seq = r.seq
		}
		if item.seq == r.seq { // written here, or read after a write here
			item.etag = string(one.ETag)
			r.etags = append(r.etags, item.etag)
		}
		r.same(t, item, parsed(t, one.ResourceBody))
	}
}

func (r *rig) read(t *rapid.T) {
	pk := r.anyKey(t)
	op := r.draw(t, "Read", pk)
	want, item := r.apply(&op, pk)
	res, err := r.c.ReadItem(context.Background(), keyOf(pk), op.id, nil)
	if err != nil {
		if statusOf(err) != want {
			t.Fatalf("read of %s in %s: got %v, want %d", op.id, pk, err, want)
		}
		return
	}
	if item == nil {
		t.Fatalf("read %s, which does not exist", res.Value)
	}
	r.same(t, item, parsed(t, res.Value))
	if string(res.ETag) != item.etag {
		t.Fatalf("ETag %s, want %s", res.ETag, item.etag)
	}
}

func (r *rig) readMany(t *rapid.T) {
	var ids []azcosmos.ItemIdentity
	wanted := map[modelKey]bool{}
	for range rapid.IntRange(1, 6).Draw(t, "identities") {
		k := modelKey{r.anyKey(t), r.anyID(t)}
		if !wanted[k] {
			ids = append(ids, azcosmos.ItemIdentity{ID: k.id, PartitionKey: keyOf(k.pk)})
		}
		wanted[k] = true
	}
	res, err := r.c.ReadManyItems(context.Background(), ids, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range res.Items {
		doc := parsed(t, b)
		pk, _ := json.Marshal(doc["pk"])
		k := modelKey{string(pk), doc["id"].(string)}
		if i := r.find(k); i == nil || !wanted[k] {
			t.Fatalf("read many returned %s", b)
		} else {
			r.same(t, i, doc)
		}
		delete(wanted, k)
	}
	for k := range wanted {
		if r.find(k) != nil {
			t.Fatalf("read many did not return %v", k)
		}
	}
}
