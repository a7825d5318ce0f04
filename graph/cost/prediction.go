package cost

import (
	"math"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/fields"
	"byline/graph/globalid"
	"byline/store"
	"byline/store/blog"
)

// times is how often a selection is executed, and how many keys it loads. In a list of 20 posts with 5 comments
// each, the selection on a post is executed 20 times, on 20 summaries: their full texts are 20 keys. The selection on a
// comment is executed 100 times, on the comments of 20 parents: their posts are 20 keys.
type times struct {
	all       float64
	summaries float64 // those of all that are on a summary, which lacks some fields of the post
	parents   float64 // the posts of the comments or likes that all are on
}

func (t times) plus(o times) times {
	return times{clamp(t.all + o.all), clamp(t.summaries + o.summaries), clamp(t.parents + o.parents)}
}

// clamp limits a number that may grow exponentially, so that it can be added and printed.
func clamp(n float64) float64 { return min(n, math.MaxInt32) }

// keys returns how many keys a field loads.
func (t times) keys(k fields.Keys) float64 {
	switch k {
	case fields.PerSummary:
		return t.summaries
	case fields.PerParent:
		return t.parents
	}
	return t.all
}

// Prediction is the maximum charge of an operation, or of each event of a subscription: for full
// pages, and for each field as often as it is selected, although the executor merges equal
// ones and a page is read once.
type Prediction struct {
	RU       float64
	work     float64      // of RU: what no request charges
	fields   []*fieldCost // those that charge RU
	response size
	invalid  *fieldCost // a field with an invalid argument, which reads nothing; nil: none
}

// ResponseBytes returns the predicted maximum size of the response.
func (p Prediction) ResponseBytes() float64 { return p.response.bytes }

// fieldCost is the cost of a field of an operation.
type fieldCost struct {
	ru    float64    // of the field itself, wherever its fragment is spread, without its selections
	times float64    // how often it reads or writes, or how many keys it loads
	in    *fieldCost // the parent; nil at the root
	field *ast.Field

	evaluation bool // the cost is that of evaluating all fields: of these there are most
}

// path returns the response path of the field, without list indexes: the first one, if its
// fragment is spread several times.
func (f *fieldCost) path() string {
	var keys []string
	for ; f != nil; f = f.in {
		keys = append(keys, f.field.Alias)
	}
	slices.Reverse(keys)
	return strings.Join(keys, ".")
}

// mostExpensive returns the field with the highest charge; if none charges, nil, whose path is "".
func (p Prediction) mostExpensive() *fieldCost {
	var top *fieldCost
	for _, f := range p.fields {
		if top == nil || f.ru > top.ru {
			top = f
		}
	}
	return top
}

// Blog is what the charges of operations depend on besides the operations.
type Blog struct {
	FeedPartitions int // number of the feed's partitions

	// SearchRU returns what the first posts of a search will charge, without reading the posts, and whether that is
	// known. nil: it is not.
	SearchRU func(q store.Search, first int) (ru float64, known bool)
}

// Predict predicts the charge of an operation. It walks each fragment once, after it has counted how often the
// fragment is spread, so it takes time linear in the length of the document.
func Predict(
	operation *ast.OperationDefinition, variables map[string]any, signedIn bool, b Blog,
) Prediction {
	w := &costWalk{variables: variables, signedIn: signedIn, blog: b}
	w.findFragments(operation.SelectionSet)
	w.selection(operation.SelectionSet, nil, times{all: 1, parents: 1})
	for _, f := range slices.Backward(w.fragments) {
		w.selection(f.definition.SelectionSet, f.in, f.times)
	}
	for batch, keys := range w.keys {
		w.RU += batch.Of(keys)
	}
	if ru := fields.Evaluations(w.evaluated); ru > 0 {
		w.charge(w.widest, w.evaluated, ru/w.evaluated)
		w.work = clamp(w.work + ru)
	}
	for _, l := range w.loads {
		l.field.ru += l.batch.Of(w.keys[l.batch]) * l.keys / w.keys[l.batch]
	}
	w.fields = slices.DeleteFunc(w.fields, func(f *fieldCost) bool { return f.ru == 0 })
	w.RU = clamp(w.RU)
	return w.Prediction
}

type costWalk struct {
	Prediction
	variables map[string]any
	signedIn  bool
	blog      Blog

	fragments []*spreadTimes // each before the fragments that spread it
	known     map[*ast.FragmentDefinition]*spreadTimes

	keys  map[*fields.Batch]float64 // that are loaded
	loads []batchedField

	evaluated float64    // fields
	widest    *fieldCost // of which there are most
	width     float64    // how often that one is evaluated
}

// spreadTimes counts how often a fragment is executed.
type spreadTimes struct {
	definition *ast.FragmentDefinition
	times      times
	in         *fieldCost // where it is first spread
}

type batchedField struct {
	field *fieldCost
	batch *fields.Batch
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

// included reports whether @skip and @include leave a selection in.
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
	w.response.add(f, in, t.all)
	if w.evaluated = clamp(w.evaluated + t.all); t.all > w.width {
		w.width, w.widest = t.all, &fieldCost{in: in, field: f, evaluation: true}
	}
	typ := f.ObjectDefinition.Name
	row := rowOf(f, in, w.variables)
	p := row.Price
	if p == (fields.Price{}) && f.SelectionSet == nil {
		return // part of its object
	}
	cost := &fieldCost{in: in, field: f}
	inside := times{all: t.all, parents: t.all}
	switch {
	case typ == "Query" && w.malformedID(f):
		w.invalid = cost
		return
	case typ == "Query" && f.Name == "nodes":
		n, ok := w.nodes(f, cost, t.all)
		if !ok {
			w.invalid = cost
		}
		inside = times{all: clamp(t.all * n), parents: clamp(t.all * n)}
	case p.Item > 0:
		size := w.pageSize(f)
		if size == 0 {
			w.invalid = cost
			return
		}
		ru := p.Each + p.Item*size
		if typ == "Query" && f.Name == "search" {
			ru = w.search(f, p, size)
		}
		w.charge(cost, t.all, ru)
		inside.all = clamp(t.all * size)
	case typ == "Query" && (f.Name == "viewer" || f.Name == "renderMarkdown") && !w.signedIn:
		return // null: the caller is anonymous
	case isTotal(f):
		w.charge(cost, t.parents, p.Each)
	case p.Each > 0:
		if typ != "Query" || f.Name == "userByUsername" || !w.isReference(f) {
			w.charge(cost, t.all, p.Of(w.blog.FeedPartitions)+w.inputOf(f, p))
			if p.Work {
				w.work = clamp(w.work + cost.ru)
			}
		}
	case (p.Batch == &fields.Liked || p.Batch == &fields.Follows || p.Batch == &fields.Bookmarked) && !w.signedIn:
	case p.Batch != nil:
		w.charge(cost, 0, 0)
		w.load(cost, p.Batch, t.keys(p.Keys))
	}
	if typ == "Query" && f.Name == "months" {
		inside.all = clamp(t.all * fields.Months)
	}
	if strings.HasSuffix(typ, "Connection") || strings.HasSuffix(typ, "Edge") {
		inside.parents = t.parents
	}
	if strings.HasSuffix(typ, "Edge") {
		inside.summaries = t.summaries
	}
	if row.Summary {
		inside.summaries = inside.all
	}
	w.selection(f.SelectionSet, cost, inside)
}

// LaterOf returns what a mutation is predicted to charge after its response.
func LaterOf(f *ast.Field, variables map[string]any) fields.Later {
	return rowOf(f, nil, variables).Later
}

// rowOf returns the row of a field, given its parent. A page of the feed that ends after the newest posts has one of
// its own, and the totalCount of posts has one for each list.
func rowOf(f *ast.Field, in *fieldCost, variables map[string]any) fields.Field {
	typ := f.ObjectDefinition.Name
	if isTotal(f) && in != nil {
		return fields.TotalOf(in.field.ObjectDefinition.Name, in.field.Name)
	}
	if typ == "Query" && f.Name == "feed" {
		arguments := f.ArgumentMap(variables)
		after, _ := arguments["after"].(string)
		first, err := graphql.UnmarshalInt32(arguments["first"])
		if err == nil && after != "" && store.FeedPosition(after)+int(first) > blog.FeedServed {
			return fields.OlderFeed
		}
	}
	if typ == "Mutation" {
		if row, ok := rowOfInput(f, variables); ok {
			return row
		}
	}
	return fields.Lookup(typ, f.Name)
}

// rowOfInput returns the row of a mutation whose input leaves out what costs most. Without any variables, what the
// input takes from one counts as given.
func rowOfInput(f *ast.Field, variables map[string]any) (row fields.Field, ok bool) {
	input, _ := f.ArgumentMap(variables)["input"].(map[string]any)
	given := func(names ...string) bool {
		for _, name := range names {
			if _, ok := input[name]; ok {
				return true
			}
			literal := f.Arguments.ForName("input").Value
			if variables == nil && (literal.Kind != ast.ObjectValue || literal.Children.ForName(name) != nil) {
				return true
			}
		}
		return false
	}
	draft, _ := input["draft"].(bool)
	switch {
	case f.Name == "updateUser" && !given("username", "displayName", "avatarUrl", "avatar", "bio"):
		return fields.SameUser, true
	case f.Name == "updateUser" && !given("username"):
		return fields.UpdateProfile, true
	case f.Name == "updatePost" && !given(postFields...):
		return fields.SamePost, true
	case f.Name == "updatePost" && !given("title", "content", "tags"):
		return fields.UpdateDetails, true
	case f.Name == "createPost" && draft:
		return fields.CreateDraft, true
	}
	return row, false
}

// postFields are the fields of an input that change a post.
var postFields = func() []string {
	names := []string{"content", "tags"}
	for _, t := range blog.PostTexts {
		name, _, _ := strings.Cut(t.InputPath(), ".")
		names = append(names, name)
	}
	return names
}()

// isTotal reports whether a field is the totalCount of a list of posts.
func isTotal(f *ast.Field) bool {
	return f.ObjectDefinition.Name == "PostConnection" && f.Name == "totalCount"
}

// malformedID reports whether a field selects one object by an invalid id.
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
	return err != nil || parsed.Kind == "" || f.Name == "user" && parsed.Kind != globalid.User ||
		f.Name == "post" && parsed.Kind != globalid.Post
}

// search returns the charge of a page of a search, given its price if that of its words is not known.
func (w *costWalk) search(f *ast.Field, p fields.Price, size float64) float64 {
	ru := p.Each + p.Item*size
	if w.blog.SearchRU == nil {
		return ru
	}
	arguments := f.ArgumentMap(w.variables)
	var q store.Search
	q.Query, _ = arguments["query"].(string)
	q.Tag, _ = arguments["tag"].(string)
	if order, _ := arguments["order"].(string); order != "" {
		q.Order = store.SearchOrder(order)
	}
	if author, given := arguments["author"].(string); given {
		id, _ := globalid.Parse(author)
		q.AuthorID = id.Key
	}
	read := int(size)
	if after, _ := arguments["after"].(string); q.Order != store.ByDate {
		read += store.FeedPosition(after) // it reads the pages before, too
	}
	if known, ok := w.blog.SearchRU(q, read); ok {
		const decades = 1                                // the read of which decades have posts
		return decades + known + fields.Posts.Of(size+1) // one more tells whether posts follow
	}
	return ru
}

// isReference reports whether only the id and one list of an object are selected, so that the
// object itself is not read: see Resolver.post in package graph.
func (w *costWalk) isReference(f *ast.Field) bool {
	list := ""
	return w.soleList(f.SelectionSet, &list, map[*ast.FragmentDefinition]bool{}) && list != ""
}

// soleLists are the lists that prove that their object exists.
var soleLists = []string{"comments", "likes", "posts"}

// soleList reports whether a set selects nothing but the id and one list without its totalCount, and sets list to its
// alias.
func (w *costWalk) soleList(set ast.SelectionSet, list *string, seen map[*ast.FragmentDefinition]bool) bool {
	for _, selected := range set {
		inside := ast.SelectionSet(nil)
		switch s := selected.(type) {
		case *ast.Field:
			switch {
			case s.Name == "id", s.Name == "__typename", !w.included(s.Directives):
			case !slices.Contains(soleLists, s.Name),
				*list != "" && *list != s.Alias, w.hasTotal(s.SelectionSet, map[*ast.FragmentDefinition]bool{}):
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

// hasTotal reports whether a set selects the totalCount of a list, which is on the list's parent.
func (w *costWalk) hasTotal(set ast.SelectionSet, seen map[*ast.FragmentDefinition]bool) bool {
	return slices.ContainsFunc(set, func(selected ast.Selection) bool {
		switch s := selected.(type) {
		case *ast.Field:
			return s.Name == "totalCount" && w.included(s.Directives)
		case *ast.InlineFragment:
			return w.included(s.Directives) && w.hasTotal(s.SelectionSet, seen)
		case *ast.FragmentSpread:
			if !w.included(s.Directives) || seen[s.Definition] {
				return false
			}
			seen[s.Definition] = true
			return w.hasTotal(s.Definition.SelectionSet, seen)
		}
		return false
	})
}

// inputOf returns what a field charges for an idempotency key and the length of the texts in its input.
func (w *costWalk) inputOf(f *ast.Field, p fields.Price) (ru float64) {
	if p.KB == 0 && p.Key == 0 {
		return 0
	}
	arguments := f.ArgumentMap(w.variables)
	input, ok := arguments["input"].(map[string]any)
	if !ok {
		input = map[string]any{"content": arguments["text"]}
	}
	if key, _ := input["idempotencyKey"].(string); key != "" {
		ru += p.Key
	}
	if content, _ := input["content"].(string); blog.IsLong(content) {
		ru += p.Long + p.KB*float64(len(content))/1024
	}
	for _, t := range blog.PostTexts {
		of, name := input, t.InputPath()
		if object, member, nested := strings.Cut(name, "."); nested {
			of, _ = input[object].(map[string]any)
			name = member
		}
		if text, _ := of[name].(string); t.Optional {
			ru += p.OptionalKB * float64(len(text)) / 1024
		}
	}
	return ru
}

// charge adds a field with its own charge: times * each RU.
func (w *costWalk) charge(f *fieldCost, times, each float64) {
	f.ru, f.times = clamp(times*each), times
	w.RU += f.ru
	w.fields = append(w.fields, f)
}

// load adds keys that a batch reads for a field that has been added.
func (w *costWalk) load(f *fieldCost, batch *fields.Batch, keys float64) {
	if keys == 0 {
		return
	}
	if w.keys == nil {
		w.keys = map[*fields.Batch]float64{}
	}
	f.times = clamp(f.times + keys)
	w.keys[batch] = clamp(w.keys[batch] + keys)
	w.loads = append(w.loads, batchedField{f, batch, keys})
}

// nodes charges for the field nodes, and returns how many nodes it reads; ok is false if the field
// is refused, or reads none because all ids are malformed.
func (w *costWalk) nodes(f *ast.Field, cost *fieldCost, all float64) (n float64, ok bool) {
	// a single value is coerced to a list, as by the executor
	ids := graphql.CoerceList(f.ArgumentMap(w.variables)["ids"])
	if len(ids) > fields.MaxNodes {
		return 0, false
	}
	var users, posts, others float64
	for _, v := range ids {
		text, _ := v.(string)
		id, err := globalid.Parse(text)
		switch {
		case err != nil, id.Kind == "":
			// null
		case id.Kind == globalid.User:
			users++
		case id.Kind == globalid.Post:
			posts++
		default:
			others++ // point reads
		}
	}
	w.charge(cost, all*others, 1)
	w.load(cost, &fields.Users, all*users)
	w.load(cost, &fields.Posts, all*posts)
	n = users + posts + others
	return n, n > 0 || len(ids) == 0
}

// pageSize is how many items a page has at most; 0 for an invalid page size.
func (w *costWalk) pageSize(f *ast.Field) float64 {
	argument := f.ArgumentMap(w.variables)["first"]
	if argument == nil {
		return fields.DefaultPage
	}
	first, err := graphql.UnmarshalInt32(argument)
	if err != nil || first < 1 || first > blog.MaxPage {
		return 0
	}
	return float64(first)
}
