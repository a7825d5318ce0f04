package emulator

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/sql"
	"byline/store/emulator/jsonpart"
)

// maxPatchOperations is the service's limit.
const maxPatchOperations = 10

// patch is a partial document update.
//
// See "Partial document update in Azure Cosmos DB".
type patch struct {
	condition *sql.Bound // nil if unconditional
	ops       []patchOp
	nests     bool // the patch can increase nesting
}

type patchOp struct {
	op   string // add, set, replace, remove, incr or move
	path []string
	from []string // move
	raw  []byte   // the value, normalised
}

func (e *Engine) parsePatch(body []byte) (*patch, error) {
	if len(body) > maxItemBytes {
		return nil, apierror.TooLarge()
	}
	if !sql.ValidJSON(body) {
		return nil, apierror.BadRequest("The patch request is invalid: it is not well-formed JSON.")
	}
	return e.parseValidPatch(body)
}

// parseValidPatch is parsePatch for valid JSON: an array of operations, or an object with one, with
// the documented names in lower case. The patch shares its bytes.
func (e *Engine) parseValidPatch(body []byte) (*patch, error) {
	if len(body) > maxItemBytes {
		return nil, apierror.TooLarge()
	}
	p, operations := new(patch), bytes.TrimSpace(body)
	if bytes.HasPrefix(operations, []byte{'{'}) {
		whole := operations
		operations = nil
		for c := range jsonpart.Children(whole) {
			switch string(sql.MemberName(c)) {
			case "condition":
				if err := p.parseCondition(e, c.Value); err != nil {
					return nil, err
				}
			case "operations":
				operations = c.Value
			}
		}
	}
	if !bytes.HasPrefix(operations, []byte{'['}) {
		return nil, apierror.BadRequest("The patch request is invalid: it has no array of operations.")
	}
	for c := range jsonpart.Children(operations) {
		if len(p.ops) == maxPatchOperations {
			return nil, apierror.BadRequest("The number of patch operations can't exceed '%d'.", maxPatchOperations)
		}
		op, err := parsePatchOp(c.Value, len(p.ops)+1)
		if err != nil {
			return nil, err
		}
		p.nests = p.nests || op.op == "move" || len(op.raw) > 0 && (op.raw[0] == '{' || op.raw[0] == '[')
		p.ops = append(p.ops, op)
	}
	if len(p.ops) == 0 {
		return nil, apierror.BadRequest("The patch request is invalid: it has no operations.")
	}
	return p, nil
}

func (p *patch) parseCondition(e *Engine, raw []byte) error {
	var text string
	if !sql.ReadText(raw, &text) {
		return apierror.BadRequest("The patch condition is invalid: it is not a string.")
	}
	if p.condition = nil; string(raw) == "null" {
		return nil
	}
	query, err := e.conditions.Parse(text)
	if err == nil {
		p.condition, err = query.Bind(nil)
	}
	if err != nil {
		return apierror.BadRequest("The patch condition is invalid: %v", err)
	}
	return nil
}

// parsePatchOp parses the nth operation.
func parsePatchOp(raw []byte, n int) (op patchOp, err error) {
	var kind, path, from string
	ok := raw[0] == '{'
	for c := range jsonpart.Children(raw) {
		switch string(sql.MemberName(c)) {
		case "op":
			ok = sql.ReadText(c.Value, &kind) && ok
		case "path":
			ok = sql.ReadText(c.Value, &path) && ok
		case "from":
			ok = sql.ReadText(c.Value, &from) && ok
		case "value":
			op.raw = c.Value
		}
	}
	if !ok {
		return op, apierror.BadRequest("Operation(%d) of the patch request is invalid.", n)
	}
	switch op.op = strings.ToLower(kind); op.op {
	case "add", "set", "replace", "incr":
		if op.raw == nil {
			return op, apierror.BadRequest("For Operation(%d): the operation '%s' requires a value.", n, kind)
		}
		if op.op == "incr" && sql.ValueOf(op.raw).Kind() != sql.Number {
			return op, apierror.BadRequest("For Operation(%d): the value of an increment must be a number.", n)
		}
		depth, spaced := sql.Survey(op.raw)
		if depth > sql.MaxNesting {
			return op, apierror.BadRequest("For Operation(%d): the value is nested more than %d levels deep.", n,
				sql.MaxNesting)
		}
		if spaced {
			op.raw = sql.Compact(op.raw)
		}
	case "remove":
	case "move":
		if op.from, err = parsePointer(from); err != nil {
			return op, err
		}
	default:
		return op, apierror.BadRequest("For Operation(%d): the operation '%s' is not supported.", n, kind)
	}
	op.path, err = parsePointer(path)
	return op, err
}

// parsePointer parses a JSON pointer (RFC 6901) other than the root.
func parsePointer(s string) ([]string, error) {
	if len(s) < 2 || s[0] != '/' {
		return nil, apierror.BadRequest("The patch path '%s' is invalid.", s)
	}
	path := strings.Split(s[1:], "/")
	for i, one := range path {
		if one == "" {
			return nil, apierror.BadRequest("The patch path '%s' is invalid.", s)
		}
		path[i] = strings.ReplaceAll(strings.ReplaceAll(one, "~1", "/"), "~0", "~")
	}
	return path, nil
}

// apply returns the patched document. It reuses doc's capacity.
func (p *patch) apply(doc []byte, key *partitionkey.Paths) ([]byte, error) {
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

// checkPatchPath refuses the id, system properties and the partition key.
func checkPatchPath(path []string, key *partitionkey.Paths) error {
	if len(path) == 0 {
		return nil
	}
	if path[0] == "id" || layout.IsSystemProperty(path[0]) {
		return apierror.BadRequest("Patch cannot change the system property '/%s'.", path[0])
	}
	for _, k := range key.Paths {
		if len(path) <= len(k) && k[:len(path)].String() == sql.Path(path).String() {
			return apierror.BadRequest("Patch cannot change the partition key '%s'.", k)
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
			return nil, apierror.BadRequest(
				"The patch path '%s' is invalid: '%s' is not an index of an array.", joinPointer(op.path), last)
		}
	}
	appends := !at.array || last == "-" || last == strconv.Itoa(at.index) // if nothing is found
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
		return nil, apierror.BadRequest(
			"The patch path '%s' is invalid: it lies within the moved value.", joinPointer(op.path))
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
	return apierror.BadRequest("The patch path '%s' does not exist in the document.", joinPointer(path))
}

// increment adds two JSON numbers: exactly if both are integers and the sum fits 64 bits, otherwise
// in floating point.
func increment(old, by []byte, path []string) ([]byte, error) {
	value := sql.ValueOf(old)
	if value.Kind() != sql.Number {
		return nil, apierror.BadRequest("The patch path '%s' is not a number.", joinPointer(path))
	}
	a, err1 := strconv.ParseInt(string(old), 10, 64)
	b, err2 := strconv.ParseInt(string(by), 10, 64)
	if sum := a + b; err1 == nil && err2 == nil && (sum > a) == (b > 0) {
		return strconv.AppendInt(nil, sum, 10), nil
	}
	sum := value.Float() + sql.ValueOf(by).Float()
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return nil, apierror.BadRequest("The increment of '%s' is out of range.", joinPointer(path))
	}
	return json.Marshal(sum)
}

// location is where a path leads in a document: a member or element, or, if missing, the end of its
// parent.
type location struct {
	array      bool
	found      bool
	index      int // number of members or elements before it
	start      int // start of the element, or of the member with its name
	value, end int // span of its value
}

// find locates a path. All of it but the last step must exist.
func find(doc []byte, path []string) (location, error) {
	at := location{end: len(doc)}
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

// step locates a name or index in the object or array at p.
func (p location) step(doc []byte, name string) location {
	at := location{array: doc[p.value] == '[', start: p.value + 1, value: p.value + 1, end: p.value + 1}
	wanted := -1
	if at.array {
		if k, err := strconv.Atoi(name); err == nil {
			wanted = k
		}
	}
	for c := range jsonpart.Children(doc[p.value:p.end]) {
		at.start = at.end
		if at.index > 0 {
			at.start++ // after the comma
		}
		at.value, at.end = p.value+c.Start, p.value+c.End
		if at.found = at.array && at.index == wanted || !at.array && string(sql.MemberName(c)) == name; at.found {
			return at
		}
		at.index++
	}
	at.start, at.value = at.end, at.end
	return at
}

// insert inserts a value: an element before the existing one, or a member with a name.
func (p location) insert(doc []byte, name string, raw []byte) []byte {
	var b []byte
	if !p.found && p.index > 0 {
		b = append(b, ',')
	}
	if !p.array {
		b = append(sql.AppendQuoted(b, []byte(name)), ':')
	}
	b = append(b, raw...)
	if p.found {
		b = append(b, ',')
	}
	return slices.Insert(doc, p.start, b...)
}

// remove deletes the value, with a comma.
func (p location) remove(doc []byte) []byte {
	if p.index > 0 {
		return slices.Delete(doc, p.start-1, p.end)
	}
	if doc[p.end] == ',' {
		p.end++
	}
	return slices.Delete(doc, p.start, p.end)
}
