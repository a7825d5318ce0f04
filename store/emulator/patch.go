package emulator

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"byline/store/emulator/internal/sql"

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
			Op    string          `json:"op"`
			Path  string          `json:"path"`
			From  string          `json:"from"`
			Value json.RawMessage `json:"value"`
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
			var buf bytes.Buffer
			if err := json.Compact(&buf, o.Value); err != nil {
				return nil, badRequest("For Operation(%d): the value is invalid.", i+1)
			}
			op.raw = buf.Bytes()
			if op.op == "incr" && gjson.ParseBytes(op.raw).Type != gjson.Number {
				return nil, badRequest("For Operation(%d): the value of an increment must be a number.", i+1)
			}
		case "remove":
		case "move":
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
		return json.Unmarshal(b, operations)
	}
	return json.Unmarshal(body, whole)
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

// apply returns the document after the patch. It does not change doc.
func (p *patch) apply(doc []byte, key *partitionKeyPaths) ([]byte, error) {
	root := &jsonNode{raw: doc}
	for i := range p.ops {
		op := &p.ops[i]
		for _, path := range [][]string{op.path, op.from} {
			if err := checkPatchPath(path, key); err != nil {
				return nil, err
			}
		}
		if err := op.apply(root); err != nil {
			return nil, err
		}
	}
	return root.append(make([]byte, 0, len(doc)+256)), nil
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

func (op *patchOp) apply(root *jsonNode) error {
	if op.op == "move" {
		return op.move(root)
	}
	parent, last, err := root.parentOf(op.path)
	if err != nil {
		return err
	}
	if parent.isArray() {
		return op.applyElement(parent, last)
	}
	at := parent.member(last)
	switch op.op {
	case "add", "set":
		parent.setMember(at, last, op.raw)
	case "replace":
		if at < 0 {
			return missingPath(op.path)
		}
		parent.setMember(at, last, op.raw)
	case "remove":
		if at < 0 {
			return missingPath(op.path)
		}
		parent.removeAt(at)
	case "incr":
		if at < 0 {
			parent.setMember(at, last, op.raw)
			return nil
		}
		sum, err := increment(parent.children[at].append(nil), op.raw, op.path)
		if err != nil {
			return err
		}
		parent.setMember(at, last, sum)
	}
	return nil
}

func (op *patchOp) applyElement(parent *jsonNode, last string) error {
	n := len(parent.children)
	at := n
	if last != "-" {
		i, err := strconv.Atoi(last)
		if err != nil || i < 0 || last != strconv.Itoa(i) {
			return badRequest("The patch path '%s' is invalid: '%s' is not an index of an array.", joinPointer(op.path), last)
		}
		at = i
	}
	switch op.op {
	case "add":
		if at > n {
			return missingPath(op.path)
		}
		parent.insertAt(at, op.raw)
	case "set":
		if last == "-" {
			parent.insertAt(n, op.raw)
			return nil
		}
		if at >= n {
			return missingPath(op.path)
		}
		parent.children[at] = &jsonNode{raw: op.raw}
	case "replace":
		if at >= n {
			return missingPath(op.path)
		}
		parent.children[at] = &jsonNode{raw: op.raw}
	case "remove":
		if at >= n {
			return missingPath(op.path)
		}
		parent.removeAt(at)
	case "incr":
		if at >= n {
			return missingPath(op.path)
		}
		sum, err := increment(parent.children[at].append(nil), op.raw, op.path)
		if err != nil {
			return err
		}
		parent.children[at] = &jsonNode{raw: sum}
	}
	return nil
}

func (op *patchOp) move(root *jsonNode) error {
	if len(op.path) >= len(op.from) && joinPointer(op.path[:len(op.from)]) == joinPointer(op.from) {
		return badRequest("The patch path '%s' is invalid: it lies within what is moved.", joinPointer(op.path))
	}
	parent, last, err := root.parentOf(op.from)
	if err != nil {
		return err
	}
	at := parent.member(last)
	if parent.isArray() {
		if at, err = strconv.Atoi(last); err != nil || at >= len(parent.children) {
			at = -1
		}
	}
	if at < 0 {
		return missingPath(op.from)
	}
	raw := parent.children[at].append(nil)
	parent.removeAt(at)
	add := patchOp{op: "add", path: op.path, raw: raw}
	return add.apply(root)
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

// jsonNode is a JSON value that is taken apart only where a patch touches it, so
// everything else keeps its text.
type jsonNode struct {
	raw      []byte // nil once open
	open     bool
	array    bool
	names    [][]byte // raw, of an object's members
	children []*jsonNode
}

func (n *jsonNode) isContainer() bool {
	return n.open || len(n.raw) > 0 && (n.raw[0] == '{' || n.raw[0] == '[')
}

func (n *jsonNode) isArray() bool { n.expand(); return n.array }

func (n *jsonNode) expand() {
	if n.open || !n.isContainer() {
		return
	}
	n.open, n.array = true, n.raw[0] == '['
	gjson.ParseBytes(n.raw).ForEach(func(key, value gjson.Result) bool {
		if !n.array {
			n.names = append(n.names, []byte(key.Raw))
		}
		n.children = append(n.children, &jsonNode{raw: []byte(value.Raw)})
		return true
	})
	n.raw = nil
}

// parentOf returns the object or array that holds the last step of path.
func (n *jsonNode) parentOf(path []string) (*jsonNode, string, error) {
	for i, step := range path[:len(path)-1] {
		n.expand()
		at := -1
		if n.array {
			if k, err := strconv.Atoi(step); err == nil && k >= 0 && k < len(n.children) {
				at = k
			}
		} else {
			at = n.member(step)
		}
		if at < 0 || !n.children[at].isContainer() {
			return nil, "", missingPath(path[:i+1])
		}
		n = n.children[at]
	}
	n.expand()
	return n, path[len(path)-1], nil
}

func (n *jsonNode) member(name string) int {
	for i, raw := range n.names {
		if gjson.ParseBytes(raw).Str == name {
			return i
		}
	}
	return -1
}

func (n *jsonNode) setMember(at int, name string, raw []byte) {
	child := &jsonNode{raw: raw}
	if at >= 0 {
		n.children[at] = child
		return
	}
	n.names = append(n.names, quoteJSON(name))
	n.children = append(n.children, child)
}

func (n *jsonNode) insertAt(at int, raw []byte) {
	n.children = append(n.children, nil)
	copy(n.children[at+1:], n.children[at:])
	n.children[at] = &jsonNode{raw: raw}
}

func (n *jsonNode) removeAt(at int) {
	n.children = append(n.children[:at], n.children[at+1:]...)
	if !n.array {
		n.names = append(n.names[:at], n.names[at+1:]...)
	}
}

func (n *jsonNode) append(dst []byte) []byte {
	if !n.open {
		return append(dst, n.raw...)
	}
	opening, closing := byte('{'), byte('}')
	if n.array {
		opening, closing = '[', ']'
	}
	dst = append(dst, opening)
	for i, c := range n.children {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !n.array {
			dst = append(append(dst, n.names[i]...), ':')
		}
		dst = c.append(dst)
	}
	return append(dst, closing)
}
