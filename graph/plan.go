package graph

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"golang.org/x/sync/errgroup"

	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/names"
	"byline/store"
	"byline/store/blog"
)

// The executor takes about 18 µs for each object of a list, without any reads: for a goroutine,
// field contexts, and a writer for each value. Yet nearly every query selects only fields that are
// part of the items that were read. For these queries a plan is compiled, once for each root field
// of a document: what to read, and for each object the JSON between the values and the encoders of
// the values (see encoders.go).
//
// A plan resolves its whole root field or nothing. If it does not cover the field (because of a
// directive, a list inside a list, or a field that a projection lacks), or if a read fails, the
// executor resolves the root field instead, and reports the error. It finds what was read in the
// memos and loaders of the response. Mutations have no plans, and neither have subscriptions: they gain 4% to 12%.

// planned executes plans of root fields, and whole operations that have one root field.
type planned struct {
	graphql.ExecutableSchema // the executor's
	resolver                 *Resolver
	documents                *document.Documents
	tracing                  tracing
}

var _ interface {
	graphql.ExecutableSchema
	graphql.RootFieldInterceptor
} = planned{}

func (planned) ExtensionName() string                   { return "Planned" }
func (planned) Validate(graphql.ExecutableSchema) error { return nil }

// Exec implements graphql.ExecutableSchema. An operation whose only root field has a plan needs
// nothing of the executor's. Of others the executor resolves the root fields; their values are encoded here.
func (p planned) Exec(ctx context.Context) graphql.ResponseHandler {
	op := graphql.GetOperationContext(ctx)
	object := rootObject(op)
	if object == "" {
		return p.ExecutableSchema.Exec(ctx)
	}
	plans, _ := p.documents.Memo(op, func(op *graphql.OperationContext) any { return newPlans(op, object) }).([]*plan)
	begun := false
	return func(ctx context.Context) *graphql.Response {
		if begun {
			return nil
		}
		begun = true
		roots := newRoots(op, object)
		if len(plans) == 1 && plans[0] != nil {
			return p.execOne(ctx, op, plans, roots)
		}
		return p.execAll(ctx, plans, roots)
	}
}

// execOne executes an operation whose only root field has a plan.
func (p planned) execOne(ctx context.Context, op *graphql.OperationContext, plans []*plan, roots *roots) *graphql.Response {
	field := plans[0].field
	var executed *graphql.Response
	root := graphql.WithRootFieldContext(withPlans(ctx, plans), &graphql.RootFieldContext{Object: field.Name, Field: field})
	value := op.RootResolverMiddleware(root, func(ctx context.Context) graphql.Marshaler {
		executed = p.execAll(ctx, nil, roots)
		return graphql.Null
	})
	if executed != nil {
		return executed
	}
	roots.values[0] = value
	return &graphql.Response{Data: roots.encode(requestFrom(ctx).memory)}
}

// execAll has the executor resolve the root fields that have no plan.
func (p planned) execAll(ctx context.Context, plans []*plan, roots *roots) *graphql.Response {
	ctx = context.WithValue(withPlans(ctx, plans), rootsKey{}, roots)
	response := p.ExecutableSchema.Exec(ctx)(ctx)
	if response != nil && string(response.Data) != "null" {
		response.Data = roots.encode(requestFrom(ctx).memory)
	}
	return response
}

type (
	plansKey struct{}
	rootsKey struct{}
)

// withPlans returns a context whose root fields are resolved by their plans, if they have one.
func withPlans(ctx context.Context, plans []*plan) context.Context {
	return context.WithValue(ctx, plansKey{}, plans)
}

// InterceptRootField implements graphql.RootFieldInterceptor.
func (p planned) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	value := p.resolve(ctx, next)
	if roots, ok := ctx.Value(rootsKey{}).(*roots); ok && value != graphql.Null {
		roots.set(graphql.GetRootFieldContext(ctx).Field.Field, value)
		return graphql.True // in its place
	}
	return value
}

// resolve returns the value of a root field.
func (p planned) resolve(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	plans, _ := ctx.Value(plansKey{}).([]*plan)
	field := graphql.GetRootFieldContext(ctx).Field
	i := slices.IndexFunc(plans, func(p *plan) bool { return p != nil && p.field.Field == field.Field })
	if i < 0 {
		return next(ctx)
	}
	plan := plans[i]
	// Resolvers read the field context, which the executor would set.
	within := graphql.WithFieldContext(ctx, &graphql.FieldContext{Object: plan.object, Field: field, IsMethod: true})
	value, err := guarded(func() (*encoded, error) { return plan.run(within, p.resolver, p.tracing, len(plans) == 1) })
	if err != nil {
		return next(ctx)
	}
	return value
}

// encoded is the value of a root field that has a plan.
type encoded struct {
	object *objectPlan // nil: the value is null
	data   *planData
	value  any
	json   []byte // what it was encoded as, unless the names have changed; nil: it is large
	pooled bool   // json is a scratch buffer
}

// MarshalGQL implements graphql.Marshaler.
func (e *encoded) MarshalGQL(w io.Writer) {
	o := &output{}
	e.appendTo(o)
	_, _ = w.Write(o.b)
}

// encode encodes the value for the first time. alone reports that it will be appended to an output at once.
func (e *encoded) encode(alone bool) (complete bool) {
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
func (e *encoded) appendTo(o *output) {
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
}

// plan resolves one root field.
type plan struct {
	object  string // Query or Mutation
	field   graphql.CollectedField
	resolve func(context.Context, *Resolver, *ast.Field) (any, error) // returns the field's value; nil: null
	objects map[string]*objectPlan                                    // by the type of the value
}

// objectPlan is what to read for a value of a root field, and how to encode it.
type objectPlan struct {
	lists  []plannedList
	liked  string // the path of viewerHasLiked; "" if it is not selected
	encode encoder[any]
}

// plannedList is a list field of the value.
type plannedList struct {
	field string // such as Post.comments
	read  func(ctx context.Context, r *Resolver, parent any) (page any, err error)
}

// traced reads a page, in a span like that of the field's resolver.
func (l plannedList) traced(ctx context.Context, r *Resolver, t tracing, parent any) (page any, err error) {
	if t.tracer == nil {
		return l.read(ctx, r, parent)
	}
	within, span := t.resolving(ctx, l.field)
	defer func() {
		span.fail(err)
		span.finish()
	}()
	return l.read(within, r, parent)
}

// planData is what was read to resolve a root field.
type planData struct {
	measuring
	names      *names.Names
	pages      []any           // by list of the plan
	liked      map[string]bool // by post; nil for an anonymous caller
	incomplete bool            // something that an encoder needs was not read
}

// errNotCovered is the error for which the executor resolves the root field instead.
var errNotCovered = errors.New("the plan does not cover this")

// run resolves the root field and encodes its value.
func (p *plan) run(ctx context.Context, r *Resolver, t tracing, alone bool) (*encoded, error) {
	value, err := p.resolve(ctx, r, p.field.Field)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return &encoded{}, nil
	}
	object := p.objects[typeOf(value)]
	if object == nil {
		return nil, errNotCovered
	}
	d := &planData{names: names.From(ctx)}
	if err := object.readLists(ctx, r, t, d, value); err != nil {
		return nil, err
	}
	if object.liked != "" {
		if err := d.readLiked(cost.WithField(ctx, object.liked), value); err != nil {
			return nil, err
		}
	}
	e := &encoded{object: object, data: d, value: value}
	if !e.encode(alone) {
		return nil, errNotCovered
	}
	return e, nil
}

func (o *objectPlan) readLists(ctx context.Context, r *Resolver, t tracing, d *planData, value any) error {
	d.pages = make([]any, len(o.lists))
	if len(o.lists) == 1 {
		var err error
		d.pages[0], err = o.lists[0].traced(ctx, r, t, value)
		return err
	}
	var g errgroup.Group // an error does not cancel the other reads: the executor finds their pages in the memos
	for i, list := range o.lists {
		g.Go(func() (err error) {
			d.pages[i], err = guarded(func() (any, error) { return list.traced(ctx, r, t, value) })
			return err
		})
	}
	return g.Wait()
}

// readLiked reads which of the posts the viewer likes, in one batch.
func (d *planData) readLiked(ctx context.Context, value any) error {
	if viewerID(ctx) == "" {
		return nil
	}
	var ids []string
	for _, v := range append([]any{value}, d.pages...) {
		switch v := v.(type) {
		case *blog.Post:
			ids = append(ids, v.ID)
		case *store.Page[*blog.Post]:
			ids = append(ids, keysOf(v.Items, func(p *blog.Post) string { return p.ID })...)
		}
	}
	liked, err := loadersOf(ctx).liked.loadMany(ctx, ids)
	if err != nil {
		return err
	}
	d.liked = make(map[string]bool, len(ids))
	for i, id := range ids {
		d.liked[id] = liked[i]
	}
	return nil
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
	case *store.Page[*blog.Post]:
		return "PostConnection"
	}
	return ""
}

// rootObject returns the type of an operation's root fields, "" for a subscription.
func rootObject(op *graphql.OperationContext) string {
	switch op.Operation.Operation {
	case ast.Query:
		return "Query"
	case ast.Mutation:
		return "Mutation"
	}
	return ""
}

// newPlans compiles the plans of an operation's root fields, in their order; a nil plan stands for a
// field that needs the executor. It returns nil if a selection has directives.
func newPlans(op *graphql.OperationContext, object string) (plans []*plan) {
	if (&conditions{op: op}).in(op.Operation.SelectionSet) {
		return nil
	}
	for _, field := range graphql.CollectFields(op, op.Operation.SelectionSet, []string{object}) {
		plans = append(plans, newPlan(op, object, field))
	}
	return plans
}

func newPlan(op *graphql.OperationContext, object string, field graphql.CollectedField) *plan {
	resolve, ok := rootFields[object+"."+field.Name]
	if !ok {
		return nil
	}
	p := &plan{object: object, field: field, resolve: resolve, objects: map[string]*objectPlan{}}
	for name, compile := range rootTypes[field.Definition.Type.Name()] {
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

// conditions looks for directives: with @skip and @include the selection depends on variables.
type conditions struct {
	op   *graphql.OperationContext
	seen map[string]bool // fragments
}

func (c *conditions) in(selections ast.SelectionSet) bool {
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
		if len(directives) > 0 || c.in(inside) {
			return true
		}
	}
	return false
}

// rootFields resolve the root fields that can have plans.
var rootFields = map[string]func(context.Context, *Resolver, *ast.Field) (any, error){
	"Query.feed": func(ctx context.Context, r *Resolver, f *ast.Field) (any, error) {
		p, err := pagingOfField(ctx, f)
		if err != nil {
			return nil, err
		}
		return nodeOrNil(r.feedPage(ctx, p))
	},
	"Query.viewer": func(ctx context.Context, r *Resolver, _ *ast.Field) (any, error) {
		return nodeOrNil(r.Query().Viewer(ctx))
	},
	"Query.user": withText("id", func(ctx context.Context, r *Resolver, id string) (any, error) {
		return nodeOrNil(r.Query().User(ctx, id))
	}),
	"Query.userByUsername": withText("username", func(ctx context.Context, r *Resolver, name string) (any, error) {
		return nodeOrNil(r.Query().UserByUsername(ctx, name))
	}),
	"Query.post": withText("id", func(ctx context.Context, r *Resolver, id string) (any, error) {
		return nodeOrNil(r.Query().Post(ctx, id))
	}),
	"Query.node": withText("id", func(ctx context.Context, r *Resolver, id string) (any, error) {
		return r.Query().Node(ctx, id)
	}),
}

// withText resolves a field whose only argument is a String or an ID.
func withText(argument string, read func(context.Context, *Resolver, string) (any, error)) func(context.Context, *Resolver, *ast.Field) (any, error) {
	return func(ctx context.Context, r *Resolver, f *ast.Field) (any, error) {
		text, err := graphql.UnmarshalString(f.ArgumentMap(graphql.GetOperationContext(ctx).Variables)[argument])
		if err != nil {
			return nil, err
		}
		return read(ctx, r, text)
	}
}
