package cosmos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Patch changes some of an item's properties, as in "Partial document update in Azure Cosmos DB". The
// zero value changes nothing. It is encoded here because azcosmos does not escape the condition, and
// copies each change of a batch five times.
type Patch struct {
	Condition  string // a filter predicate, "from c where ..."; "": none; else the patch fails with 412
	IfMatch    ETag   // "": none; with another ETag the patch fails with 412
	ReturnItem bool   // return the patched item

	changes []byte // JSON, without the brackets
	count   int
	full    int // the length of the first MaxPatch changes, if there are more
}

// Set sets a property to a string, an integer, a boolean or a list of strings.
func (p *Patch) Set(path string, value any) {
	p.begin("set", path)
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		p.changes = appendString(p.changes, v.String())
	case reflect.Int, reflect.Int32, reflect.Int64:
		p.changes = strconv.AppendInt(p.changes, v.Int(), 10)
	case reflect.Bool:
		p.changes = strconv.AppendBool(p.changes, v.Bool())
	case reflect.Slice:
		list, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		p.changes = append(p.changes, list...)
	default:
		panic(fmt.Sprintf("cosmos: a patch cannot set a property to a %T", value))
	}
	p.changes = append(p.changes, '}')
}

// SetJSON sets a property to a JSON value.
func (p *Patch) SetJSON(path string, value []byte) {
	p.begin("set", path)
	p.changes = append(append(p.changes, value...), '}')
}

// Remove removes a property. The item must have it, else the patch fails with 400.
func (p *Patch) Remove(path string) {
	p.begin("remove", path)
	p.changes = append(bytes.TrimSuffix(p.changes, []byte(`,"value":`)), '}')
}

// Increment adds to a number.
func (p *Patch) Increment(path string, by int64) {
	p.begin("incr", path)
	p.changes = append(strconv.AppendInt(p.changes, by, 10), '}')
}

// MaxPatch is the greatest number of changes of a patch.
const MaxPatch = 10

// Changes returns the number of changes.
func (p *Patch) Changes() int { return p.count }

// Split returns patches of at most MaxPatch changes each, of which the first has the condition. In a transactional
// batch they are one. p must have at most twice MaxPatch changes.
func (p *Patch) Split() []Patch {
	if p.count <= MaxPatch {
		return []Patch{*p}
	}
	first, rest := *p, Patch{changes: p.changes[p.full+1:], count: p.count - MaxPatch}
	first.changes, first.count = p.changes[:p.full], MaxPatch
	return []Patch{first, rest}
}

func (p *Patch) begin(op, path string) {
	if p.count == MaxPatch {
		p.full = len(p.changes)
	}
	p.count++
	if len(p.changes) > 0 {
		p.changes = append(p.changes, ',')
	} else {
		p.changes = make([]byte, 0, 256)
	}
	p.changes = append(append(append(p.changes, `{"op":"`...), op...), `","path":`...)
	p.changes = append(appendString(p.changes, path), `,"value":`...)
}

func (p Patch) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	if p.Condition != "" {
		dst = append(appendString(append(dst, `"condition":`...), p.Condition), ',')
	}
	dst = append(append(dst, `"operations":[`...), p.changes...)
	return append(dst, "]}"...)
}

// appendString appends a JSON string. It replaces invalid UTF-8, as json.Marshal does.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
