package store

import (
	"context"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json/jsontext"
)

// patch is a change of some of an item's properties, as "Partial document update in Azure
// Cosmos DB" has it, made under a condition, or without one if that is "". azcosmos writes a
// condition as it is, whatever its characters, and in a batch copies each change five times.
type patch struct {
	condition string
	changes   []byte // JSON, without the brackets
}

// set sets a property to a text, a number or a truth value.
func (p *patch) set(path string, value any) {
	p.begin("set", path)
	switch v := value.(type) {
	case string:
		p.changes = appendString(p.changes, v)
	case int32:
		p.changes = strconv.AppendInt(p.changes, int64(v), 10)
	case int64:
		p.changes = strconv.AppendInt(p.changes, v, 10)
	default:
		p.changes = append(p.changes, encode(v)...)
	}
	p.changes = append(p.changes, '}')
}

// increment adds to a number.
func (p *patch) increment(path string, by int64) {
	p.begin("incr", path)
	p.changes = append(strconv.AppendInt(p.changes, by, 10), '}')
}

func (p *patch) begin(op, path string) {
	if len(p.changes) > 0 {
		p.changes = append(p.changes, ',')
	} else {
		p.changes = make([]byte, 0, 256)
	}
	p.changes = append(append(append(p.changes, `{"op":"`...), op...), `","path":`...)
	p.changes = append(appendString(p.changes, path), `,"value":`...)
}

func (p patch) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	if p.condition != "" {
		dst = append(appendString(append(dst, `"condition":`...), p.condition), ',')
	}
	dst = append(append(dst, `"operations":[`...), p.changes...)
	return append(dst, "]}"...)
}

// appendString appends a JSON string. What is not UTF-8 is replaced, as by json.Marshal.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// patchItem is ContainerClient.PatchItem.
func patchItem(ctx context.Context, c *azcosmos.ContainerClient, partition, id string, p patch, o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error) {
	within, x := sending(ctx, p.appendTo(nil))
	r, err := c.PatchItem(within, key(partition), id, azcosmos.PatchOperations{}, o)
	return r, x.passed(err)
}
