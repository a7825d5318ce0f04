package cosmos

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Patch is a change of some of an item's properties, as "Partial document update in Azure
// Cosmos DB" has it. The zero value changes nothing. azcosmos writes a condition as it is,
// whatever its characters, and in a batch copies each change five times: a Patch is encoded
// here.
type Patch struct {
	Condition  string // a filter predicate, "from c where ..."; "": none. Fails with 412
	IfMatch    ETag   // "": none. Fails with 412
	ReturnItem bool   // the item is returned as it is afterwards

	changes []byte // JSON, without the brackets
}

// Set sets a property to a text, a number, a truth value or a list of texts.
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

// Increment adds to a number.
func (p *Patch) Increment(path string, by int64) {
	p.begin("incr", path)
	p.changes = append(strconv.AppendInt(p.changes, by, 10), '}')
}

func (p *Patch) begin(op, path string) {
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

// appendString appends a JSON string. What is not UTF-8 is replaced, as by json.Marshal.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
