package plan

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"golang.org/x/sync/errgroup"

	"byline/graph/cost"
	"byline/graph/names"
	"byline/store"
	"byline/store/blog"
)

// Value is the value of a root field that has a plan.
type Value struct {
	object *objectPlan // nil: the value is null
	data   *planData
	value  any
	json   []byte // what it was encoded as, unless the names have changed; nil: it is large
	pooled bool   // json is a scratch buffer
}

// MarshalGQL implements graphql.Marshaler.
func (e *Value) MarshalGQL(w io.Writer) {
	o := &output{}
	e.appendTo(o)
	_, _ = w.Write(o.b)
}

// encode encodes the value for the first time. alone reports that it will be appended to an output at once.
func (e *Value) encode(alone bool) (complete bool) {
	e.data.measuring = measuring{on: true}
	b := e.object.encode(*scratches.Get().(*[]byte), e.data, e.value)
	switch {
	case e.data.skipped > 0 || e.data.incomplete:
		recycle(b)
	case alone:
		e.json, e.pooled = b, true
	default:
		e.json = slices.Clone(b)
		recycle(b)
	}
	return !e.data.incomplete
}

// appendTo appends the value, with the usernames of the response.
func (e *Value) appendTo(o *output) {
	switch {
	case e.object == nil:
		_, _ = o.Write([]byte("null"))
	case e.data.names.Settle() || e.json == nil:
		e.data.measuring = o.measuring
		o.b = e.object.encode(o.b, e.data, e.value)
		o.measuring = e.data.measuring
	default:
		_, _ = o.Write(e.json)
	}
	if e.pooled {
		recycle(e.json)
		e.json, e.pooled = nil, false
	}
}

// Plan resolves one root field of a query.
type Plan struct {
	Field graphql.CollectedField

	resolve func(context.Context, Source, *ast.Field) (any, error) // returns the field's value; nil: null
	objects map[string]*objectPlan                                 // by the type of the value
}

// objectPlan is what to read for a value of a root field, and how to encode it.
type objectPlan struct {
	lists      []plannedList
	liked      string // the path of viewerHasLiked; "" if it is not selected
	bookmarked string // likewise of viewerHasBookmarked
	followed   string // likewise of viewerFollows of the authors of posts, and of users in lists
	viewer     bool   // a field depends on who the viewer is
	encode     encoder[any]
}

// plannedList is a list field of the value.
type plannedList struct {
	field string // such as Post.comments
	read  func(ctx context.Context, s Source, parent any) (page any, err error)
}

// traced reads a page, in a span like that of the field's resolver.
func (l plannedList) traced(ctx context.Context, s Source, parent any) (page any, err error) {
	within, end := s.Trace(ctx, l.field)
	defer func() { end(err) }()
	return l.read(within, s, parent)
}

// planData is what was read to resolve a root field.
type planData struct {
	measuring
	names      *names.Names
	pages      []any           // by list of the plan
	liked      map[string]bool // by post; nil for an anonymous caller
	bookmarked map[string]bool // likewise
	followed   map[string]bool // by user; likewise
	texts      Texts
	viewer     string // "": anonymous
	moderator  bool
	incomplete bool // something that an encoder needs was not read
}

// errNotCovered is the error for which the executor resolves the root field instead.
var errNotCovered = errors.New("the plan does not cover this")

// Run resolves the root field and encodes its value. alone reports that the value will be appended to an output at
// once. After an error the executor has to resolve the root field.
func (p *Plan) Run(ctx context.Context, s Source, alone bool) (*Value, error) {
	value, err := p.resolve(ctx, s, p.Field.Field)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return &Value{}, nil
	}
	object := p.objects[typeOf(value)]
	if object == nil {
		return nil, errNotCovered
	}
	d := &planData{names: names.From(ctx), texts: s.Texts(ctx)}
	if err := object.readLists(ctx, s, d, value); err != nil {
		return nil, err
	}
	if object.liked != "" {
		if d.liked, err = s.Liked(cost.WithField(ctx, object.liked),
			postsIn(append([]any{value}, d.pages...))); err != nil {
			return nil, err
		}
	}
	if object.bookmarked != "" {
		if d.bookmarked, err = s.Bookmarked(cost.WithField(ctx, object.bookmarked),
			postsIn(append([]any{value}, d.pages...))); err != nil {
			return nil, err
		}
	}
	if object.followed != "" {
		if d.followed, err = s.Followed(cost.WithField(ctx, object.followed),
			usersIn(append([]any{value}, d.pages...))); err != nil {
			return nil, err
		}
	}
	if object.viewer {
		d.viewer, d.moderator = s.ViewerAndRole(ctx)
	}
	e := &Value{object: object, data: d, value: value}
	if !e.encode(alone) {
		return nil, errNotCovered
	}
	return e, nil
}

// html appends the HTML of a text as a JSON string: null if there is no memory or time for it, for which the response
// is refused.
func (d *planData) html(dst []byte, source string) []byte {
	h, err := d.texts.HTML(source)
	if err != nil {
		d.texts.Memory.Refuse(err)
		return append(dst, "null"...)
	}
	return d.text(dst, h)
}

// excerpt appends the excerpt of a post, like html.
func (d *planData) excerpt(dst []byte, p *blog.Post) []byte {
	text, err := d.texts.Excerpt(p)
	if err != nil {
		d.texts.Memory.Refuse(err)
		return append(dst, "null"...)
	}
	return d.text(dst, text)
}

func (o *objectPlan) readLists(ctx context.Context, s Source, d *planData, value any) error {
	d.pages = make([]any, len(o.lists))
	if len(o.lists) == 1 {
		var err error
		d.pages[0], err = o.lists[0].traced(ctx, s, value)
		return err
	}
	var g errgroup.Group // an error does not cancel the other reads: the executor finds their pages in the memos
	for i, list := range o.lists {
		g.Go(func() error {
			return s.Guard(func() (err error) {
				d.pages[i], err = list.traced(ctx, s, value)
				return err
			})
		})
	}
	return g.Wait()
}

// postsIn returns the ids of the posts in values and pages.
func postsIn(values []any) (ids []string) {
	for _, v := range values {
		switch v := v.(type) {
		case *blog.Post:
			ids = append(ids, v.ID)
		case rootList:
			ids = append(ids, postsIn([]any{v.page})...)
		case *store.Page[*blog.Post]:
			if v == nil {
				continue
			}
			for _, p := range v.Items {
				ids = append(ids, p.ID)
			}
		case *store.Page[*store.Found]:
			for _, f := range v.Items {
				ids = append(ids, f.Post.ID)
			}
		}
	}
	return ids
}

// usersIn returns the ids of the authors of the posts in values and pages, and of the users in pages of follows.
func usersIn(values []any) (ids []string) {
	for _, v := range values {
		switch v := v.(type) {
		case *blog.Post:
			ids = append(ids, v.UserID)
		case rootList:
			ids = append(ids, usersIn([]any{v.page})...)
		case *store.Page[*blog.Post]:
			if v == nil {
				continue
			}
			for _, p := range v.Items {
				ids = append(ids, p.UserID)
			}
		case *store.Page[*store.Found]:
			for _, f := range v.Items {
				ids = append(ids, f.Post.UserID)
			}
		case *store.Page[*blog.Follow]:
			for _, f := range v.Items {
				ids = append(ids, f.UserID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// rootList is a page of a root field, and the length of its list.
type rootList struct {
	page  *store.Page[*blog.Post]
	total store.Total
}

// typeOf returns the name of a value's type in the schema, "" if there are no plans for it.
func typeOf(value any) string {
	switch value.(type) {
	case *names.User:
		return "User"
	case *blog.Post:
		return "Post"
	case *blog.Comment:
		return "Comment"
	case *blog.Like:
		return "Like"
	case *store.Tag:
		return "Tag"
	case []*store.Tag:
		return "[Tag]"
	case []*blog.Month:
		return "[Month]"
	case rootList:
		return "PostConnection"
	case *store.Page[*store.Found]:
		return "SearchConnection"
	}
	return ""
}

// Plans are the plans of an operation: for each combination of the values of the variables that its @include and @skip
// depend on, those of the root fields that are then left. They are safe for concurrent use.
type Plans struct {
	variables []string
	compiled  sync.Map // []*Plan, by combination
}

// Each root field has a plan for each combination, which takes memory beyond that of the document.
const (
	maxConditions  = 2  // variables
	maxConditional = 16 // plans of an operation with conditions
)

// Compile prepares the plans of a query. It returns nil, for no plans, if the query has too many conditions, or one
// that is not a variable.
func Compile(op *graphql.OperationContext) *Plans {
	c := &conditions{op: op}
	if !c.find(op.Operation.SelectionSet) || len(c.variables) > maxConditions {
		return nil
	}
	return &Plans{variables: c.variables}
}

// Of returns the plans of the root fields, in their order. A nil plan stands for a field that needs the executor.
func (p *Plans) Of(op *graphql.OperationContext) []*Plan {
	if p == nil {
		return nil
	}
	combination := 0
	for i, name := range p.variables {
		if op.Variables[name] == true {
			combination |= 1 << i
		}
	}
	if plans, ok := p.compiled.Load(combination); ok {
		return plans.([]*Plan)
	}
	roots := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Query"})
	if len(p.variables) > 0 && len(roots)<<len(p.variables) > maxConditional {
		return nil
	}
	var plans []*Plan
	for _, field := range roots {
		plans = append(plans, newPlan(op, field))
	}
	p.compiled.Store(combination, plans)
	return plans
}

func newPlan(op *graphql.OperationContext, field graphql.CollectedField) *Plan {
	resolve, ok := rootFields[field.Name]
	if !ok {
		return nil
	}
	p := &Plan{Field: field, resolve: resolve, objects: map[string]*objectPlan{}}
	typ := field.Definition.Type
	name := typ.Name()
	if typ.Elem != nil {
		name = "[" + name + "]"
	}
	for name, compile := range rootTypes[name] {
		c := &compiler{op: op, object: &objectPlan{}, path: []string{field.Alias}}
		c.object.encode = compile(c, field.Selections)
		if !c.uncovered {
			p.objects[name] = c.object
		}
	}
	if len(p.objects) == 0 {
		return nil
	}
	return p
}

// conditions are the variables that @include and @skip depend on.
type conditions struct {
	op        *graphql.OperationContext
	variables []string
	seen      map[string]bool // fragments
}

// find adds the conditions in selections, and reports whether all are variables.
func (c *conditions) find(selections ast.SelectionSet) bool {
	for _, s := range selections {
		var directives ast.DirectiveList
		var inside ast.SelectionSet
		switch s := s.(type) {
		case *ast.Field:
			directives, inside = s.Directives, s.SelectionSet
		case *ast.InlineFragment:
			directives, inside = s.Directives, s.SelectionSet
		case *ast.FragmentSpread:
			directives = s.Directives
			if fragment := c.op.Doc.Fragments.ForName(s.Name); !c.seen[s.Name] {
				if c.seen == nil {
					c.seen = map[string]bool{}
				}
				c.seen[s.Name] = true
				inside = fragment.SelectionSet
			}
		}
		for _, d := range directives {
			condition := d.Arguments.ForName("if")
			if condition == nil || condition.Value.Kind != ast.Variable {
				return false
			}
			if name := condition.Value.Raw; !slices.Contains(c.variables, name) {
				c.variables = append(c.variables, name)
			}
		}
		if !c.find(inside) {
			return false
		}
	}
	return true
}

// rootFields resolve the root fields of queries that can have plans.
var rootFields = map[string]func(context.Context, Source, *ast.Field) (any, error){
	"feed": func(ctx context.Context, s Source, f *ast.Field) (any, error) {
		p, err := Paging(ctx, f)
		if err != nil {
			return nil, err
		}
		page, err := s.Feed(ctx, p)
		return rootList{page, s.FeedCount}, err
	},
	"archive": func(ctx context.Context, s Source, f *ast.Field) (any, error) {
		month, monthErr := text(ctx, f, "month")
		p, err := Paging(ctx, f)
		if err := errors.Join(monthErr, err); err != nil {
			return nil, err
		}
		page, err := s.Archive(ctx, month, p)
		return rootList{page, func(ctx context.Context) (int32, error) { return s.MonthCount(ctx, month) }}, err
	},
	"months": func(ctx context.Context, s Source, _ *ast.Field) (any, error) { return s.Months(ctx) },
	"viewer": func(ctx context.Context, s Source, _ *ast.Field) (any, error) {
		return orNil(s.Viewer(ctx))
	},
	"user": withText("id", func(ctx context.Context, s Source, id string) (any, error) {
		return orNil(s.User(ctx, id))
	}),
	"userByUsername": withText("username", func(ctx context.Context, s Source, name string) (any, error) {
		return orNil(s.UserByUsername(ctx, name))
	}),
	"post": withText("id", func(ctx context.Context, s Source, id string) (any, error) {
		return orNil(s.Post(ctx, id))
	}),
	"postBySlug": withText("slug", func(ctx context.Context, s Source, slug string) (any, error) {
		return orNil(s.PostBySlug(ctx, slug))
	}),
	"tag": withText("name", func(ctx context.Context, s Source, name string) (any, error) {
		return orNil(s.Tag(ctx, name))
	}),
	"tags": func(ctx context.Context, s Source, f *ast.Field) (any, error) {
		p, err := Paging(ctx, f)
		if err != nil {
			return nil, err
		}
		return s.TopTags(ctx, p.First)
	},
	"search": func(ctx context.Context, s Source, f *ast.Field) (any, error) {
		args := f.ArgumentMap(graphql.GetOperationContext(ctx).Variables)
		query, queryErr := graphql.UnmarshalString(args["query"])
		tag, tagErr := optional(args["tag"], graphql.UnmarshalString)
		author, authorErr := optional(args["author"], graphql.UnmarshalString)
		p, err := Paging(ctx, f)
		if err := errors.Join(queryErr, tagErr, authorErr, err); err != nil {
			return nil, err
		}
		order := store.SearchOrder(p.Order)
		p.Order = ""
		return orNil(s.FoundPosts(ctx, query, &order, tag, author, p))
	},
	"node": withText("id", func(ctx context.Context, s Source, id string) (any, error) {
		return s.Node(ctx, id)
	}),
}

// withText resolves a field whose only argument is a String or an ID.
func withText(
	argument string, read func(context.Context, Source, string) (any, error),
) func(context.Context, Source, *ast.Field) (any, error) {
	return func(ctx context.Context, s Source, f *ast.Field) (any, error) {
		value, err := text(ctx, f, argument)
		if err != nil {
			return nil, err
		}
		return read(ctx, s, value)
	}
}

// text returns an argument that is a String or an ID.
func text(ctx context.Context, f *ast.Field, argument string) (string, error) {
	return graphql.UnmarshalString(f.ArgumentMap(graphql.GetOperationContext(ctx).Variables)[argument])
}

// orNil returns an untyped nil for a nil pointer.
func orNil[T any](v *T, err error) (any, error) {
	if v == nil || err != nil {
		return nil, err
	}
	return v, nil
}
