package graph

import (
	"math"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/globalid"
)

// price is what a field charges, in RU.
type price struct {
	each  float64    // each time it is resolved
	item  float64    // for each item of its page
	batch *batchCost // which each of its keys is read with
	keys  keyCount   // how many keys that are
	copy  float64    // for each partition of the feed but the first
}

// of is what it charges each time if the feed is spread over so many partitions.
func (p price) of(feedPartitions int) float64 {
	return p.each + p.copy*float64(max(1, feedPartitions)-1)
}

// prices are those of the fields that read or write, by type. They are what the
// embedded engine charges for posts of 1,350 characters, comments of 200 and full
// pages (BenchmarkAccessPattern); TestPredictedCost holds them to that.
var prices = map[string]map[string]price{
	"Query": {
		"user":           {each: 1},                // Q1
		"viewer":         {each: 1},                // Q1
		"userByUsername": {each: 2},                // the reservation, and Q1
		"post":           {each: 1.03},             // Q2
		"node":           {each: 1},                // a point read, whatever it is
		"feed":           {each: 2.34, item: .044}, // Q6
	},
	"User": {
		"posts":     {each: 2.34, item: .044}, // Q3
		"createdAt": {batch: &usersBatch, keys: forCopies},
	},
	"Post": {
		"comments":       {each: 2.32, item: .037},  // Q4
		"likes":          {each: 2.30, item: .0235}, // Q5
		"content":        {batch: &postsBatch, keys: forCopies},
		"viewerHasLiked": {batch: &likedBatch, keys: forAll},
	},
	"Comment": {"post": {batch: &postsBatch, keys: forParents}},
	"Like":    {"post": {batch: &postsBatch, keys: forParents}},
	"Mutation": {
		"createUser":    {each: 12.4},             // C1
		"updateUser":    {each: 39.3},             // C1
		"createPost":    {each: 19.2, copy: 5.3},  // C2
		"updatePost":    {each: 33.5, copy: 10.3}, // C2
		"deletePost":    {each: 34.4, copy: 10.3},
		"createComment": {each: 19.6}, // C3
		"updateComment": {each: 10.3},
		"deleteComment": {each: 22.9},
		"likePost":      {each: 19.6}, // C4
		"unlikePost":    {each: 19.7}, // C4
	},
}

// batchCost is what the batched reads of one loader charge, in RU.
type batchCost struct {
	one  float64 // a single key, which is a point read
	each float64 // a batch of more
	key  float64 // for each key in it
}

var (
	usersBatch = batchCost{one: 1, each: 2.25, key: .0215}
	postsBatch = batchCost{one: 1.03, each: 2.25, key: .1}
	likedBatch = batchCost{one: 1, each: 2.25, key: .01}
)

func (b *batchCost) of(keys float64) float64 {
	if keys <= 1 {
		return b.one * keys
	}
	return b.each*math.Ceil(keys/loaderBatch) + b.key*keys
}

// times is how often a selection is executed.
type times struct {
	all     float64
	copies  float64 // of all: on a copy that lacks what the item itself has
	parents float64 // on comments or likes of so many posts
}

func (t times) plus(o times) times {
	return times{bearable(t.all + o.all), bearable(t.copies + o.copies), bearable(t.parents + o.parents)}
}

// bearable keeps what grows without end a number that can be added and printed.
func bearable(n float64) float64 { return min(n, math.MaxInt32) }

// keyCount says how many keys a field has a loader read.
type keyCount func(times) float64

func forAll(t times) float64     { return t.all }
func forCopies(t times) float64  { return t.copies }
func forParents(t times) float64 { return t.parents }

// onCopies are the fields, by type, whose objects are copies.
var onCopies = map[string]string{"PostEdge": "node", "Post": "author", "Comment": "author", "Like": "user"}

// prediction is what an operation is going to charge, or each event of a subscription:
// of full pages, and of fields as often as they are written, although the executor
// merges equal ones and a page is read once.
type prediction struct {
	total  float64      // RU
	fields []*fieldCost // that charge something
	answer size
	wrong  *fieldCost // of which an argument will be refused, so that it reads nothing; nil: none
}

// fieldCost is a field of an operation.
type fieldCost struct {
	ru    float64    // of the field itself, wherever a fragment has brought it, without what is selected of it
	times float64    // how often it reads or writes, or how many keys it has a loader read
	in    *fieldCost // nil at the root
	field *ast.Field
}

// path is where the field's value is found in the response, but for list indexes: the
// first place, if a fragment brings it to several.
func (f *fieldCost) path() string {
	var keys []string
	for ; f != nil; f = f.in {
		keys = append(keys, f.field.Alias)
	}
	slices.Reverse(keys)
	return strings.Join(keys, ".")
}

// dearest returns the field that charges most, nil if none charges, whose path is "".
func (p prediction) dearest() *fieldCost {
	var dearest *fieldCost
	for _, f := range p.fields {
		if dearest == nil || f.ru > dearest.ru {
			dearest = f
		}
	}
	return dearest
}

// predict predicts what an operation charges, of a feed that is spread over so many
// partitions. It looks at each fragment once, when it has seen how often that is spread,
// so that it takes time by the length of the document.
func predict(operation *ast.OperationDefinition, variables map[string]any, signedIn bool, feedPartitions int) prediction {
	w := &costWalk{variables: variables, signedIn: signedIn, feedPartitions: feedPartitions}
	w.findFragments(operation.SelectionSet)
	w.selection(operation.SelectionSet, nil, times{all: 1, parents: 1})
	for _, f := range slices.Backward(w.fragments) {
		w.selection(f.definition.SelectionSet, f.in, f.times)
	}
	for batch, keys := range w.keys {
		w.total += batch.of(keys)
	}
	for _, l := range w.loads {
		l.field.ru += l.batch.of(w.keys[l.batch]) * l.keys / w.keys[l.batch]
	}
	w.fields = slices.DeleteFunc(w.fields, func(f *fieldCost) bool { return f.ru == 0 })
	w.total = bearable(w.total)
	return w.prediction
}

type costWalk struct {
	prediction
	variables map[string]any
	signedIn  bool

	feedPartitions int

	fragments []*spreadTimes // each before those that spread it
	known     map[*ast.FragmentDefinition]*spreadTimes

	keys  map[*batchCost]float64 // that loaders are asked for
	loads []batchedField
}

// spreadTimes is how often a fragment is executed.
type spreadTimes struct {
	definition *ast.FragmentDefinition
	times      times
	in         *fieldCost // where it is first spread
}

type batchedField struct {
	field *fieldCost
	batch *batchCost
	keys  float64
}

func (w *costWalk) findFragments(set ast.SelectionSet) {
	for _, selected := range set {
		switch s := selected.(type) {
		case *ast.Field:
			w.findFragments(s.SelectionSet)
		case *ast.InlineFragment:
			w.findFragments(s.SelectionSet)
		case *ast.FragmentSpread:
			if w.known[s.Definition] != nil {
				continue
			}
			if w.known == nil {
				w.known = map[*ast.FragmentDefinition]*spreadTimes{}
			}
			f := &spreadTimes{definition: s.Definition}
			w.known[s.Definition] = f
			w.findFragments(s.Definition.SelectionSet)
			w.fragments = append(w.fragments, f)
		}
	}
}

func (w *costWalk) selection(set ast.SelectionSet, in *fieldCost, t times) {
	for _, selected := range set {
		switch s := selected.(type) {
		case *ast.Field:
			if w.included(s.Directives) {
				w.field(s, in, t)
			}
		case *ast.InlineFragment:
			if w.included(s.Directives) {
				w.selection(s.SelectionSet, in, t)
			}
		case *ast.FragmentSpread:
			if w.included(s.Directives) {
				f := w.known[s.Definition]
				f.times = f.times.plus(t)
				if f.in == nil {
					f.in = in
				}
			}
		}
	}
}

// included is what @skip and @include say.
func (w *costWalk) included(directives ast.DirectiveList) bool {
	for _, d := range directives {
		if d.Name == "skip" || d.Name == "include" {
			if yes, _ := d.ArgumentMap(w.variables)["if"].(bool); yes != (d.Name == "include") {
				return false
			}
		}
	}
	return true
}

func (w *costWalk) field(f *ast.Field, in *fieldCost, t times) {
	w.answer.add(f, in, t.all)
	typ := f.ObjectDefinition.Name
	p, priced := prices[typ][f.Name]
	if !priced && f.SelectionSet == nil {
		return // it is at hand
	}
	cost := &fieldCost{in: in, field: f}
	inside := times{all: t.all, parents: t.all}
	switch {
	case typ == "Query" && w.malformedID(f):
		w.wrong = cost
		return
	case typ == "Query" && f.Name == "nodes":
		n, ok := w.nodes(f, cost, t.all)
		if !ok {
			w.wrong = cost
		}
		inside = times{all: bearable(t.all * n), parents: bearable(t.all * n)}
	case p.item > 0:
		size := w.pageSize(f)
		if size == 0 {
			w.wrong = cost
			return
		}
		w.charge(cost, t.all, p.each+p.item*size)
		inside.all = bearable(t.all * size)
	case typ == "Query" && f.Name == "viewer" && !w.signedIn:
		return // nobody
	case p.each > 0:
		if typ != "Query" || f.Name == "userByUsername" || !w.isReference(f) {
			w.charge(cost, t.all, p.of(w.feedPartitions))
		}
	case p.batch == &likedBatch && !w.signedIn:
	case p.batch != nil:
		w.charge(cost, 0, 0)
		w.load(cost, p.batch, p.keys(t))
	}
	if strings.HasSuffix(typ, "Connection") || strings.HasSuffix(typ, "Edge") {
		inside.parents = t.parents
	}
	if onCopies[typ] == f.Name {
		inside.copies = inside.all
	}
	w.selection(f.SelectionSet, cost, inside)
}

// malformedID reports whether a field is of one object, and its id is that of none.
func (w *costWalk) malformedID(f *ast.Field) bool {
	if f.Name != "user" && f.Name != "post" && f.Name != "node" {
		return false
	}
	id := f.Arguments.ForName("id").Value
	text := id.Raw
	if id.Kind == ast.Variable {
		var known bool
		if text, known = w.variables[id.Raw].(string); !known {
			return false
		}
	}
	parsed, err := globalid.Parse(text)
	return err != nil || f.Name == "user" && parsed.Kind != globalid.User || f.Name == "post" && parsed.Kind != globalid.Post
}

// isReference reports whether only the id and one list are selected of an object, so
// that it is not read itself: see reference.go.
func (w *costWalk) isReference(f *ast.Field) bool {
	list := ""
	return w.soleList(f.SelectionSet, &list, map[*ast.FragmentDefinition]bool{}) && list != ""
}

// soleList reports whether there is nothing in set but the id and list, which it finds.
func (w *costWalk) soleList(set ast.SelectionSet, list *string, seen map[*ast.FragmentDefinition]bool) bool {
	for _, selected := range set {
		inside := ast.SelectionSet(nil)
		switch s := selected.(type) {
		case *ast.Field:
			switch {
			case s.Name == "id", s.Name == "__typename", !w.included(s.Directives):
			case prices[s.ObjectDefinition.Name][s.Name].item == 0, *list != "" && *list != s.Alias:
				return false
			default:
				*list = s.Alias
			}
		case *ast.InlineFragment:
			if w.included(s.Directives) {
				inside = s.SelectionSet
			}
		case *ast.FragmentSpread:
			if w.included(s.Directives) && !seen[s.Definition] {
				seen[s.Definition] = true
				inside = s.Definition.SelectionSet
			}
		}
		if !w.soleList(inside, list, seen) {
			return false
		}
	}
	return true
}

// charge lists a field with what it charges itself, each of so many times.
func (w *costWalk) charge(f *fieldCost, times, each float64) {
	f.ru, f.times = bearable(times*each), times
	w.total += f.ru
	w.fields = append(w.fields, f)
}

// load has a batch read keys for a field that is listed.
func (w *costWalk) load(f *fieldCost, batch *batchCost, keys float64) {
	if keys == 0 {
		return
	}
	if w.keys == nil {
		w.keys = map[*batchCost]float64{}
	}
	f.times = bearable(f.times + keys)
	w.keys[batch] = bearable(w.keys[batch] + keys)
	w.loads = append(w.loads, batchedField{f, batch, keys})
}

// nodes charges for the field nodes, and returns how many are read; it is not ok if it will
// be refused, or reads nothing.
func (w *costWalk) nodes(f *ast.Field, cost *fieldCost, all float64) (n float64, ok bool) {
	ids := graphql.CoerceList(f.ArgumentMap(w.variables)["ids"]) // as the executor does: one may stand for a list of it
	if len(ids) > maxNodes {
		return 0, false
	}
	var users, posts, others float64
	for _, v := range ids {
		text, _ := v.(string)
		id, err := globalid.Parse(text)
		switch {
		case err != nil:
			// null, with an error
		case id.Kind == globalid.User:
			users++
		case id.Kind == globalid.Post:
			posts++
		default:
			others++ // point reads
		}
	}
	w.charge(cost, all*others, 1)
	w.load(cost, &usersBatch, all*users)
	w.load(cost, &postsBatch, all*posts)
	n = users + posts + others
	return n, n > 0 || len(ids) == 0
}

// pageSize is how many items a page has at most; 0 if it will be refused.
func (w *costWalk) pageSize(f *ast.Field) float64 {
	first, err := optional(f.ArgumentMap(w.variables)["first"], graphql.UnmarshalInt32)
	switch {
	case first == nil:
		return defaultFirst
	case err != nil || *first < 1 || *first > maxFirst:
		return 0
	}
	return float64(*first)
}
