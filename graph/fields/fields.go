package fields

import (
	"math"

	"byline/store/cosmos"
)

// Limits of arguments.
const (
	DefaultPage = 20  // items, without first
	MaxPage     = 100 // the store's limit
	MaxNodes    = 100 // ids of Query.nodes
)

// BatchSize is how many keys the store reads at once.
const BatchSize = 100

// Field describes a field of the schema beyond its type.
type Field struct {
	Price    Price
	Access   Access     // the operations on Cosmos DB that it consists of
	Rule     []Relation // who may execute a mutation: a viewer in one of these relations
	Summary  bool       // its object is a denormalized copy, which lacks some fields
	MaxBytes float64    // of its value, if that may be long: a text of ASCII characters
}

// Lookup returns the row of a field; a zero Field if it has none.
func Lookup(typ, name string) Field { return Table[typ][name] }

// Price is what a field charges, in RU.
type Price struct {
	Each  float64 // each time it is resolved
	Item  float64 // for each item of its page
	Batch *Batch  // which reads its keys; nil: none
	Keys  Keys    // how many keys those are
	Copy  float64 // for each partition of the feed but the first
	Long  float64 // for a text that is an item of its own
	KB    float64 // for each KB of such a text
}

// Of is what it charges each time if the feed has so many partitions.
func (p Price) Of(feedPartitions int) float64 {
	return p.Each + p.Copy*float64(max(1, feedPartitions)-1)
}

// Keys says for which objects a field reads a key.
type Keys int

const (
	PerObject  Keys = iota // each
	PerSummary             // each that is a summary
	PerParent              // each post that the object is listed below
)

// Batch is what a kind of batched read charges, in RU.
type Batch struct {
	One  float64 // a single key, which is a point read
	Each float64 // a batch of more
	Key  float64 // for each key in it
}

// The batches.
var (
	Users = Batch{One: 1, Each: 2.25, Key: .0215}
	Posts = Batch{One: 1.03, Each: 2.25, Key: .1}
	Liked = Batch{One: 1, Each: 2.25, Key: .01}
)

// Of is what it charges to read so many keys.
func (b *Batch) Of(keys float64) float64 {
	if keys <= 1 {
		return b.One * keys
	}
	return b.Each*math.Ceil(keys/BatchSize) + b.Key*keys
}

// Access is what a field does in Cosmos DB each time.
type Access struct {
	Pattern  cosmos.Pattern
	Requests []Request
}

// Request is an operation on Cosmos DB.
type Request struct {
	Kind      cosmos.Kind
	Container string
	Partition Partition
}

// Partition is where the value of a partition key comes from: the path of an argument, or one
// of the constants.
type Partition string

const (
	Object      Partition = "(object)" // that the field is selected of
	Viewer      Partition = "(viewer)"
	Owner       Partition = "(the name's owner)"
	New         Partition = "(new)"
	OneFeed     Partition = "(feed)"      // one of its partitions
	WholeFeed   Partition = "(all of it)" // each of them
	OldUsername Partition = "(username:<old name>)"
)

// Relation is what an authenticated viewer must be to what a mutation writes.
type Relation string

const (
	Anyone    Relation = "anyone signed in" // it creates something of the viewer's own
	Self      Relation = "self"             // it writes what is the viewer's own by definition
	Author    Relation = "author"           // of the post or comment; a condition of the write itself
	Moderator Relation = "moderator"        // by the role in the token
)
