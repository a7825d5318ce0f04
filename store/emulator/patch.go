package emulator

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"byline/store/emulator/internal/sql"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/tidwall/gjson"
)

// maxPatchOperations is the service's limit.
const maxPatchOperations = 10

// patch is a partial document update.
//
// See "Partial document update in Azure Cosmos DB".
type patch struct {
	condition *sql.Bound // nil if there is none
	ops       []patchOp
	nests     bool // the document may be nested deeper afterwards
}

type patchOp struct {
	op   string // add, set, replace, remove, incr or move
	path []string
	from []string // move
	raw  []byte   // the value, normalised
}

func (e *Engine) parsePatch(body []byte) (*patch, error) {
	var in struct {
		Condition  *string `json:"condition"`
		Operations []struct {
			Op    string         `json:"op"`
			Path  string         `json:"path"`
			From  string         `json:"from"`
			Value jsontext.Value `json:"value"`
		} `json:"operations"`
	}
	if len(body) > maxItemBytes {
		return nil, tooLarge()
	}
	if err := unmarshalPatch(body, &in, &in.Operations); err != nil {
		return nil, badRequest("The patch request is invalid: it is not well-formed JSON.")
	}
	if len(in.Operations) == 0 {
		return nil, badRequest("The patch request is invalid: it has no operations.")
	}
	if len(in.Operations) > maxPatchOperations {
		return nil, badRequest("The number of patch operations can't exceed '%d'.", maxPatchOperations)
	}
	p := &patch{ops: make([]patchOp, 0, len(in.Operations))}
	if in.Condition != nil {
		query, err := e.conditions.parse(*in.Condition)
		if err != nil {
			return nil, badRequest("The patch condition is invalid: %v", err)
		}
		if p.condition, err = query.Bind(nil); err != nil {
			return nil, badRequest("The patch condition is invalid: %v", err)
		}
	}
	for i, o := range in.Operations {
		op := patchOp{op: strings.ToLower(o.Op)}
		switch op.op {
		case "add", "set", "replace", "incr":
			if o.Value == nil {
				return nil, badRequest("For Operation(%d): the operation '%s' requires a value.", i+1, o.Op)
			}
			if kind := o.Value.Kind(); kind == '{' || kind == '[' {
				if err := o.Value.Compact(); err != nil {
					return nil, badRequest("For Operation(%d): the value is invalid.", i+1)
				}
				p.nests = true
			}
			op.raw = o.Value
			if op.op == "incr" && gjson.ParseBytes(op.raw).Type != gjson.Number {
				return nil, badRequest("For Operation(%d): the value of an increment must be a number.", i+1)
			}
		case "remove":
		case "move":
			p.nests = true
			var err error
			if op.from, err = parsePointer(o.From); err != nil {
				return nil, err
			}
		default:
			return nil, badRequest("For Operation(%d): the operation '%s' is not supported.", i+1, o.Op)
		}
		var err error
		if op.path, err = parsePointer(o.Path); err != nil {
			return nil, err
		}
		p.ops = append(p.ops, op)
	}
	return p, nil
}

// unmarshalPatch reads a patch's body: the operations alone, as an array, or an
// object that has them.
func unmarshalPatch(body []byte, whole, operations any) error {
	if b := bytes.TrimSpace(body); len(b) > 0 && b[0] == '[' {
		return jsonv2.Unmarshal(b, operations, jsonv1.DefaultOptionsV1())
	}
	return jsonv2.Unmarshal(body, whole, jsonv1.DefaultOptionsV1())
}

// parsePointer reads a JSON pointer (RFC 6901) other than the whole document.
func parsePointer(s string) ([]string, error) {
	if len(s) < 2 || s[0] != '/' {
		return nil, badRequest("The patch path '%s' is invalid.", s)
	}
	path := strings.Split(s[1:], "/")
	for i, one := range path {
		if one == "" {
			return nil, badRequest("The patch path '%s' is invalid.", s)
		}
		path[i] = strings.ReplaceAll(strings.ReplaceAll(one, "~1", "/"), "~0", "~")
	}
	return path, nil
}

// apply returns the document after the patch. It changes doc in place if that has room.
func (p *patch) apply(doc []byte, key *partitionKeyPaths) ([]byte, error) {
	for i := range p.ops {
		op := &p.ops[i]
		for _, path := range [][]string{op.path, op.from} {
			if err := checkPatchPath(path, key); err != nil {
				return nil, err
			}
		}
		var err error
		if doc, err = op.apply(doc); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

// checkPatchPath refuses paths that a patch must not touch.
func checkPatchPath(path []string, key *partitionKeyPaths) error {
	if len(path) == 0 {
		return nil
	}
	if path[0] == "id" || isSystemProperty(path[0]) {
		return badRequest("Patch cannot change the system property '/%s'.", path[0])
	}
	for _, k := range key.paths {
		if len(path) <= len(k) && k[:len(path)].String() == sql.Path(path).String() {
			return badRequest("Patch cannot change the partition key '%s'.", k)
		}
	}
	return nil
}

func (op *patchOp) apply(doc []byte) ([]byte, error) {
	if op.op == "move" {
		return op.move(doc)
	}
	at, err := find(doc, op.path)
	if err != nil {
		return nil, err
	}
	last := op.path[len(op.path)-1]
	if at.array && last != "-" {
		if i, err := strconv.Atoi(last); err != nil || i < 0 || last != strconv.Itoa(i) {
			return nil, badRequest("The patch path '%s' is invalid: '%s' is not an index of an array.", joinPointer(op.path), last)
		}
	}
	appends := !at.array || last == "-" || last == strconv.Itoa(at.index) // if nothing is there
	switch {
	case op.op == "add" && (at.found && at.array || !at.found && appends),
		op.op == "set" && !at.found && (!at.array || last == "-"),
		op.op == "incr" && !at.found && !at.array:
		return at.insert(doc, last, op.raw), nil
	case !at.found:
		return nil, missingPath(op.path)
	case op.op == "remove":
		return at.remove(doc), nil
	case op.op == "incr":
		sum, err := increment(doc[at.value:at.end], op.raw, op.path)
		if err != nil {
			return nil, err
		}
		return slices.Replace(doc, at.value, at.end, sum...), nil
	}
	return slices.Replace(doc, at.value, at.end, op.raw...), nil
}

func (op *patchOp) move(doc []byte) ([]byte, error) {
	if len(op.path) >= len(op.from) && joinPointer(op.path[:len(op.from)]) == joinPointer(op.from) {
		return nil, badRequest("The patch path '%s' is invalid: it lies within what is moved.", joinPointer(op.path))
	}
	at, err := find(doc, op.from)
	if err != nil {
		return nil, err
	}
	if !at.found {
		return nil, missingPath(op.from)
	}
	add := patchOp{op: "add", path: op.path, raw: bytes.Clone(doc[at.value:at.end])}
	return add.apply(at.remove(doc))
}

func joinPointer(path []string) string { return "/" + strings.Join(path, "/") }

func missingPath(path []string) error {
	return badRequest("The patch path '%s' does not exist in the document.", joinPointer(path))
}

// increment adds two JSON numbers: exactly while both are whole numbers and the
// sum fits 64 bits, as floating point otherwise.
func increment(was, by []byte, path []string) ([]byte, error) {
	old := gjson.ParseBytes(was)
	if old.Type != gjson.Number {
		return nil, badRequest("The patch path '%s' is not a number.", joinPointer(path))
	}
	a, err1 := strconv.ParseInt(string(was), 10, 64)
	b, err2 := strconv.ParseInt(string(by), 10, 64)
	if sum := a + b; err1 == nil && err2 == nil && (sum > a) == (b > 0) {
		return strconv.AppendInt(nil, sum, 10), nil
	}
	sum := old.Num + gjson.ParseBytes(by).Num
	if math.IsInf(sum, 0) {
		return nil, badRequest("The increment of '%s' is out of range.", joinPointer(path))
	}
	return json.Marshal(sum)
}

// place is where a path leads in a document: to a member or an element, or else to the
// end of the object or array that has none.
type place struct {
	array      bool
	found      bool
	index      int // how many members or elements are before it
	start      int // of the member, its name included, or of the element
	value, end int // of its value
}

// find returns where a path leads. It refuses one that has nothing on the way.
func find(doc []byte, path []string) (place, error) {
	at := place{end: len(doc)}
	for i, step := range path {
		if doc[at.value] != '{' && doc[at.value] != '[' {
			return at, missingPath(path[:i])
		}
		at = at.step(doc, step)
		if !at.found && i < len(path)-1 {
			return at, missingPath(path[:i+1])
		}
	}
	return at, nil
}

// step returns the place in the object or array at p that has a name or an index.
func (p place) step(doc []byte, name string) place {
	at := place{array: doc[p.value] == '[', start: p.value + 1, value: p.value + 1, end: p.value + 1}
	wanted := -1
	if at.array {
		if k, err := strconv.Atoi(name); err == nil {
			wanted = k
		}
	}
	for c := range sql.Children(doc[p.value:p.end]) {
		at.start = at.end
		if at.index > 0 {
			at.start++ // behind the comma
		}
		at.value, at.end = p.value+c.Start, p.value+c.End
		if at.found = at.array && at.index == wanted || !at.array && string(memberName(c)) == name; at.found {
			return at
		}
		at.index++
	}
	at.start, at.value = at.end, at.end
	return at
}

// insert puts a value at a place, before what is there: an element, or, in an object, a
// member with a name.
func (p place) insert(doc []byte, name string, raw []byte) []byte {
	var b []byte
	if !p.found && p.index > 0 {
		b = append(b, ',')
	}
	if !p.array {
		b = append(append(b, quoteJSON(name)...), ':')
	}
	b = append(b, raw...)
	if p.found {
		b = append(b, ',')
	}
	return slices.Insert(doc, p.start, b...)
}

// remove takes away what is at a place, and a comma.
func (p place) remove(doc []byte) []byte {
	if p.index > 0 {
		return slices.Delete(doc, p.start-1, p.end)
	}
	if doc[p.end] == ',' {
		p.end++
	}
	return slices.Delete(doc, p.start, p.end)
}
