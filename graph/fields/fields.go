package fields

import (
	"math"
	"slices"

	"byline/store/blog"
	"byline/store/cosmos"
)

// Limits of arguments.
const (
	DefaultPage = 20  // items, without first
	MaxNodes    = 100 // ids of Query.nodes
)

// Months is how many months a response is predicted with: those of ten years.
const Months = 120

// BatchSize is how many keys the store reads at once.
const BatchSize = 100

// Field describes a field of the schema beyond its type.
type Field struct {
	Price    Price
	Access   Access     // its operations on Cosmos DB
	Later    Later      // what a mutation charges after its response
	Rule     []Relation // who may execute a mutation: a viewer in one of these relations
	Summary  bool       // its object, or the node of its edges, is a denormalized copy, which lacks some fields
	MaxBytes float64    // of its value as JSON, if that may be long
}

// Lookup returns the row of a field; a zero Field if it has none.
func Lookup(typ, name string) Field { return Table[typ][name] }

// Price is the charge of a field, in RU.
type Price struct {
	Each          float64 // each time it is resolved
	Item          float64 // for each item of its page
	Batch         *Batch  // the batch that reads its keys; nil: none
	Keys          Keys    // for which objects it reads a key
	FeedPartition float64 // for each partition of the feed except the first
	Long          float64 // for a text that is stored as a separate item
	KB            float64 // for each KB of such a text
	OptionalKB    float64 // for each KB of the optional texts of blog.PostTexts, which summaries have, too
	Key           float64 // for an idempotency key
	Work          bool    // no request charges it: it is the price of work
}

// Of returns the charge of one execution if the feed has feedPartitions partitions.
func (p Price) Of(feedPartitions int) float64 {
	return p.Each + p.FeedPartition*float64(max(1, feedPartitions)-1)
}

// Evaluations returns the price of evaluating so many fields, in RU: no request charges it. It is what the CPU time is
// worth that a response with many fields takes, also from the cache. Usual pages have fewer than freeFields.
func Evaluations(fields float64) float64 {
	const freeFields, each = 2500, .005
	return each * max(0, fields-freeFields)
}

// RenderingKB is the price of rendering a KB of Markdown, in RU: no request charges it.
const RenderingKB = .37

// Rendering returns the price of rendering a text, in RU.
func Rendering(source string) float64 { return RenderingKB * float64(len(source)) / 1024 }

// Keys says for which objects a field reads a key.
type Keys int

const (
	PerObject  Keys = iota // each
	PerSummary             // each summary
	PerParent              // each post whose list has the objects
)

// Batch is the price of a kind of batched read, in RU.
type Batch struct {
	One  float64 // a single key, which is a point read
	Each float64 // a batch of several keys
	Key  float64 // for each key of such a batch
}

// The batches.
var (
	Users = Batch{One: 1, Each: 2.25, Key: .0215}
	Posts = Batch{One: 1.03, Each: 2.25, Key: .1}
	Liked = Batch{One: 1, Each: 2.25, Key: .01}

	Follows = Batch{One: 1, Each: 2.25, Key: .0135}

	Bookmarked = Batch{One: 1, Each: 2.25, Key: .0135}
)

// Of returns the charge of reading the given number of keys.
func (b *Batch) Of(keys float64) float64 {
	if keys <= 1 {
		return b.One * keys
	}
	return b.Each*math.Ceil(keys/BatchSize) + b.Key*keys
}

// Later is what a mutation charges after its response, in RU: for views, for the job that it begins, and for the polls
// of the one to three instances that most clusters have.
type Later struct {
	Each   float64
	Job    float64 // for the job of a rename
	Tag    float64 // for each tag of a post
	Post   float64 // for each post that the job writes
	Other  float64 // for each comment or like that the job writes
	Below  float64 // for each comment or like below a deleted post
	Follow float64 // for each follow of or by the user that the job writes
}

// Of returns the charge of a mutation whose views and job write items. job says that the job is that of a rename.
func (l Later) Of(items blog.Items, job bool) float64 {
	ru := l.Each
	if job {
		ru += l.Job
	}
	return ru + l.Tag*float64(items.Tags) + l.Post*float64(items.Posts) + l.Other*float64(items.Others) +
		l.Below*float64(items.Below) + l.Follow*float64(items.Followers+items.Following)
}

// Access is the operations on Cosmos DB of one execution of a field.
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

// Allows reports whether the rule of a mutation of a post or comment allows it to a viewer, who may be its author or a
// moderator.
func (f Field) Allows(author, moderator bool) bool {
	return author && slices.Contains(f.Rule, Author) || moderator && slices.Contains(f.Rule, Moderator)
}

// Partition is the source of a partition key's value: the path of an argument, or one of the
// constants.
type Partition string

const (
	Object            Partition = "(object)" // the object that has the field
	Viewer            Partition = "(viewer)"
	Owner             Partition = "(the name's owner)"
	New               Partition = "(new)"
	OneFeedPartition  Partition = "(feed)"      // one of its partitions
	EachFeedPartition Partition = "(all of it)" // each of them
	Timelines         Partition = "(timelines)"
	MonthOfTag        Partition = "(month of the tag)"
	MonthOfAll        Partition = "(month of all posts)"
	Month             Partition = "(month)"  // of all posts: the argument
	Decade            Partition = "(decade)" // of the post
	EachDecade        Partition = "(each decade)"
	EachPost          Partition = "(each post)"
	EachUser          Partition = "(each user)"
	OldUsername       Partition = "(username:<old name>)"
)

// Relation is the relation of an authenticated viewer to what a mutation writes.
type Relation string

const (
	Anyone    Relation = "anyone signed in" // it creates something of the viewer's own
	Self      Relation = "self"             // it can only write what is the viewer's own
	Author    Relation = "author"           // of the post or comment; a condition of the write itself
	Moderator Relation = "moderator"        // by the role in the token
)
