package graph

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"golang.org/x/sync/errgroup"

	"byline/store"
)

// The executor takes some 18 µs for each object of a list before anything is read: a
// goroutine, contexts of fields, and a writer for each value. Yet nearly every query
// selects plain fields, which the items that were read hold already. For those a plan
// is made, once for each root field of a document: what to read, and for each object
// the bytes between the values and the functions that append them (see encode.go).
//
// A plan answers all or nothing. Where it cannot (a directive, a list inside a list, a
// field that a copy lacks), and where reading fails, the executor resolves the root
// field as if there were no plans, and says what is wrong: what was read it finds in
// the memos of the response.

// planned answers root fields of queries by plan.
type planned struct {
	resolver  *Resolver
	documents queryCache
	tracing   tracing
}

var _ graphql.RootFieldInterceptor = planned{}

func (planned) ExtensionName() string                   { return "Planned" }
func (planned) Validate(graphql.ExecutableSchema) error { return nil }

func (p planned) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	op, field := graphql.GetOperationContext(ctx), graphql.GetRootFieldContext(ctx).Field
	if op.Operation.Operation != ast.Query {
		return next(ctx)
	}
	plan := p.documents.planOf(op, field)
	if plan == nil {
		return next(ctx)
	}
	// As the executor would have it: resolvers look at the field that they resolve.
	within := graphql.WithFieldContext(ctx, &graphql.FieldContext{Object: "Query", Field: field, IsMethod: true})
	answer, err := guarded(func() (*encoded, error) { return plan.run(within, p.resolver, p.tracing) })
	if err != nil {
		return next(ctx)
	}
	return answer
}

// encoded is a value as JSON. It is written once, and others are encoded into its memory
// then.
type encoded struct{ json *[]byte }

var encodings = sync.Pool{New: func() any { return new([]byte) }}

// MarshalGQL implements graphql.Marshaler.
func (e *encoded) MarshalGQL(w io.Writer) {
	if b, ok := w.(*bytes.Buffer); ok {
		b.Grow(len(*e.json) + 64) // and what encode has around it
	}
	_, _ = w.Write(*e.json)
	encodings.Put(e.json)
	e.json = nil
}

// plan is how to answer one root field.
type plan struct {
	read    func(context.Context, *queryResolver, *ast.Field) (any, error) // the field's value; nil: null
	objects map[string]*objectPlan                                         // by the value's type
}

// objectPlan is what becomes of a value of a root field.
type objectPlan struct {
	lists  []plannedList
	liked  string // the path of viewerHasLiked; "" if it is not selected
	encode encoder[any]
}

// plannedList is a list that the value has.
type plannedList struct {
	field string // such as Post.comments
	read  func(ctx context.Context, r *Resolver, parent any) (page any, err error)
}

// traced reads a page in a span, as that of the resolver would be.
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

// gathered is what was read to answer a root field.
type gathered struct {
	pages []any           // by list of the plan
	liked map[string]bool // by post; nil if nobody is signed in
	gap   bool            // something that an encoder needs was not read
}

// errGap says that the executor is needed.
var errGap = errors.New("the plan does not cover this")

// run reads what is needed and encodes it. If the error is not nil, the executor will
// find out why.
func (p *plan) run(ctx context.Context, r *Resolver, t tracing) (*encoded, error) {
	value, err := p.read(ctx, &queryResolver{r}, graphql.GetFieldContext(ctx).Field.Field)
	if err != nil {
		return nil, err
	}
	if value == nil {
		null := []byte("null")
		return &encoded{&null}, nil
	}
	object := p.objects[typeOf(value)]
	if object == nil {
		return nil, errGap
	}
	a := &gathered{}
	if err := object.readLists(ctx, r, t, a, value); err != nil {
		return nil, err
	}
	if object.liked != "" {
		if err := a.readLiked(withAsker(ctx, object.liked), value); err != nil {
			return nil, err
		}
	}
	b := encodings.Get().(*[]byte)
	if *b = object.encode((*b)[:0], a, value); a.gap {
		return nil, errGap
	}
	return &encoded{b}, nil
}

func (o *objectPlan) readLists(ctx context.Context, r *Resolver, t tracing, a *gathered, value any) error {
	a.pages = make([]any, len(o.lists))
	if len(o.lists) == 1 {
		var err error
		a.pages[0], err = o.lists[0].traced(ctx, r, t, value)
		return err
	}
	var g errgroup.Group // one that fails does not end the others: the executor will find them in the memos
	for i, list := range o.lists {
		g.Go(func() (err error) {
			a.pages[i], err = guarded(func() (any, error) { return list.traced(ctx, r, t, value) })
			return err
		})
	}
	return g.Wait()
}

// readLiked reads which of the posts the viewer likes, in one batch.
func (a *gathered) readLiked(ctx context.Context, value any) error {
	if viewerID(ctx) == "" {
		return nil
	}
	var ids []string
	for _, v := range append([]any{value}, a.pages...) {
		switch v := v.(type) {
		case *store.Post:
			ids = append(ids, v.ID)
		case *store.Page[*store.Post]:
			ids = append(ids, keysOf(v.Items, func(p *store.Post) string { return p.ID })...)
		}
	}
	liked, err := loadersOf(ctx).liked.loadMany(ctx, ids)
	if err != nil {
		return err
	}
	a.liked = make(map[string]bool, len(ids))
	for i, id := range ids {
		a.liked[id] = liked[i]
	}
	return nil
}

// typeOf is the schema's name of a value's type.
func typeOf(value any) string {
	switch value.(type) {
	case *store.User:
		return "User"
	case *store.Post:
		return "Post"
	case *store.Comment:
		return "Comment"
	case *store.Like:
		return "Like"
	case *store.Page[*store.Post]:
		return "PostConnection"
	}
	return ""
}

// newPlan makes a plan for a root field; nil if it needs the executor.
func newPlan(op *graphql.OperationContext, field graphql.CollectedField) *plan {
	read, ok := rootFields[field.Name]
	if !ok || (&conditions{op: op}).in(op.Operation.SelectionSet) {
		return nil
	}
	p := &plan{read: read, objects: map[string]*objectPlan{}}
	for name, compile := range rootTypes[field.Definition.Type.Name()] {
		c := &compiler{op: op, object: &objectPlan{}, path: []string{field.Alias}}
		if c.object.encode = compile(c, field.Selections); !c.gap {
			p.objects[name] = c.object
		}
	}
	if len(p.objects) == 0 {
		return nil
	}
	return p
}

// conditions looks for directives: with them, what is selected depends on variables.
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

// rootFields are the root fields that there are plans for, and how they are resolved.
var rootFields = map[string]func(context.Context, *queryResolver, *ast.Field) (any, error){
	"feed": func(ctx context.Context, r *queryResolver, f *ast.Field) (any, error) {
		p, err := pagingOfField(ctx, f)
		if err != nil {
			return nil, err
		}
		return nodeOrNil(r.feedPage(ctx, p))
	},
	"viewer": func(ctx context.Context, r *queryResolver, _ *ast.Field) (any, error) {
		return nodeOrNil(r.Viewer(ctx))
	},
	"user": withText("id", func(ctx context.Context, r *queryResolver, id string) (any, error) {
		return nodeOrNil(r.User(ctx, id))
	}),
	"userByUsername": withText("username", func(ctx context.Context, r *queryResolver, name string) (any, error) {
		return nodeOrNil(r.UserByUsername(ctx, name))
	}),
	"post": withText("id", func(ctx context.Context, r *queryResolver, id string) (any, error) {
		return nodeOrNil(r.Post(ctx, id))
	}),
	"node": withText("id", func(ctx context.Context, r *queryResolver, id string) (any, error) {
		return r.Node(ctx, id)
	}),
}

// withText resolves a field whose only argument is a text.
func withText(argument string, read func(context.Context, *queryResolver, string) (any, error)) func(context.Context, *queryResolver, *ast.Field) (any, error) {
	return func(ctx context.Context, r *queryResolver, f *ast.Field) (any, error) {
		text, err := graphql.UnmarshalString(f.ArgumentMap(graphql.GetOperationContext(ctx).Variables)[argument])
		if err != nil {
			return nil, err
		}
		return read(ctx, r, text)
	}
}
