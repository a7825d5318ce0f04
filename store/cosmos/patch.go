package cosmos

import (
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json/jsontext"
)

// Patch changes some of an item's properties, as in "Partial document update in Azure Cosmos DB". The
// zero value changes nothing.
type Patch struct {
	Condition  string // a filter predicate, "from c where ..."; "": none; else the patch fails with 412
	IfMatch    ETag   // "": none; with another ETag the patch fails with 412
	ReturnItem bool   // return the patched item

	changes []func(*azcosmos.PatchOperations)
}

// Set sets a property to a value that has JSON, such as a json.RawMessage.
func (p *Patch) Set(path string, value any) {
	p.add(func(o *azcosmos.PatchOperations) { o.AppendSet(path, value) })
}

// Remove removes a property. The item must have it, else the patch fails with 400.
func (p *Patch) Remove(path string) {
	p.add(func(o *azcosmos.PatchOperations) { o.AppendRemove(path) })
}

// Increment adds to a number.
func (p *Patch) Increment(path string, by int64) {
	p.add(func(o *azcosmos.PatchOperations) { o.AppendIncrement(path, by) })
}

func (p *Patch) add(change func(*azcosmos.PatchOperations)) { p.changes = append(p.changes, change) }

// MaxPatch is the greatest number of changes of a patch.
const MaxPatch = 10

// Changes returns the number of changes.
func (p *Patch) Changes() int { return len(p.changes) }

// Split returns patches of at most MaxPatch changes each, of which the first has the condition. In a transactional
// batch they are one.
func (p *Patch) Split() (all []Patch) {
	for changes := range slices.Chunk(p.changes, MaxPatch) {
		part := Patch{changes: changes}
		if len(all) == 0 {
			part.Condition, part.IfMatch, part.ReturnItem = p.Condition, p.IfMatch, p.ReturnItem
		}
		all = append(all, part)
	}
	return all
}

func (p *Patch) operations() (o azcosmos.PatchOperations) {
	if p.Condition != "" {
		o.SetCondition(escape(p.Condition))
	}
	for _, change := range p.changes {
		change(&o)
	}
	return o
}

// escape returns the JSON of a string without the quotes, between which azcosmos writes conditions and the ids of a
// batch unescaped.
func escape(s string) string {
	quoted, _ := jsontext.AppendQuote(nil, s) // replaces invalid UTF-8, as json.Marshal does
	return string(quoted[1 : len(quoted)-1])
}
