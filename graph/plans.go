package graph

import (
	"context"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/document"
	"byline/graph/globalid"
	"byline/graph/names"
	"byline/graph/plan"
	"byline/graph/transport"
	"byline/store"
	"byline/store/blog"
)

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
	var plans []*plan.Plan
	if op.Operation.Operation == ast.Query {
		plans = p.documents.Memo(op, func(op *graphql.OperationContext) any {
			return plan.Compile(op)
		}).(*plan.Plans).Of(op)
	}
	begun := false
	return func(ctx context.Context) *graphql.Response {
		if begun {
			return nil
		}
		begun = true
		roots := plan.NewRoots(op, object)
		if len(plans) == 1 && plans[0] != nil {
			return p.execOne(ctx, op, plans, roots)
		}
		return p.execAll(ctx, plans, roots)
	}
}

// execOne executes an operation whose only root field has a plan.
func (p planned) execOne(
	ctx context.Context, op *graphql.OperationContext, plans []*plan.Plan, roots *plan.Roots,
) *graphql.Response {
	field := plans[0].Field
	var executed *graphql.Response
	root := graphql.WithRootFieldContext(withPlans(ctx, plans),
		&graphql.RootFieldContext{Object: field.Name, Field: field})
	value := op.RootResolverMiddleware(root, func(ctx context.Context) graphql.Marshaler {
		executed = p.execAll(ctx, nil, roots)
		return graphql.Null
	})
	if executed != nil {
		return executed
	}
	roots.Set(field.Field, value)
	return &graphql.Response{Data: roots.Encode(transport.RequestOf(ctx).Memory)}
}

// execAll has the executor resolve the root fields that have no plan.
func (p planned) execAll(ctx context.Context, plans []*plan.Plan, roots *plan.Roots) *graphql.Response {
	ctx = context.WithValue(withPlans(ctx, plans), rootsKey{}, roots)
	response := p.ExecutableSchema.Exec(ctx)(ctx)
	if response != nil && string(response.Data) != "null" {
		response.Data = roots.Encode(transport.RequestOf(ctx).Memory)
	}
	return response
}

type (
	plansKey struct{}
	rootsKey struct{}
)

// withPlans returns a context whose root fields are resolved by their plans, if they have one.
func withPlans(ctx context.Context, plans []*plan.Plan) context.Context {
	return context.WithValue(ctx, plansKey{}, plans)
}

// InterceptRootField implements graphql.RootFieldInterceptor.
func (p planned) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	value := p.resolve(ctx, next)
	if roots, ok := ctx.Value(rootsKey{}).(*plan.Roots); ok && value != graphql.Null {
		roots.Set(graphql.GetRootFieldContext(ctx).Field.Field, value)
		return graphql.True // in its place
	}
	return value
}

// resolve returns the value of a root field.
func (p planned) resolve(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	plans, _ := ctx.Value(plansKey{}).([]*plan.Plan)
	field := graphql.GetRootFieldContext(ctx).Field
	i := slices.IndexFunc(plans, func(p *plan.Plan) bool { return p != nil && p.Field.Field == field.Field })
	if i < 0 {
		return next(ctx)
	}
	// Resolvers read the field context, which the executor would set.
	within := graphql.WithFieldContext(ctx, &graphql.FieldContext{Object: "Query", Field: field, IsMethod: true})
	value, err := guarded(func() (*plan.Value, error) {
		return plans[i].Run(within, planReads{p.resolver, p.tracing}, len(plans) == 1)
	})
	if err != nil {
		return next(ctx)
	}
	return value
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

// planReads implements plan.Source by the resolvers.
type planReads struct {
	*Resolver
	tracing tracing
}

func (s planReads) Viewer(ctx context.Context) (*names.User, error) { return s.Query().Viewer(ctx) }

func (s planReads) User(ctx context.Context, id string) (*names.User, error) {
	return s.Query().User(ctx, id)
}

func (s planReads) UserByUsername(ctx context.Context, name string) (*names.User, error) {
	return s.Query().UserByUsername(ctx, name)
}

func (s planReads) Post(ctx context.Context, id string) (*blog.Post, error) {
	return s.Query().Post(ctx, id)
}

func (s planReads) PostBySlug(ctx context.Context, slug string) (*blog.Post, error) {
	return s.Query().PostBySlug(ctx, slug)
}

func (s planReads) Node(ctx context.Context, id string) (globalid.Node, error) {
	return s.Query().Node(ctx, id)
}

func (s planReads) Tag(ctx context.Context, name string) (*store.Tag, error) {
	return s.Query().Tag(ctx, name)
}

func (s planReads) TagPosts(ctx context.Context, tag *store.Tag, p store.Paging) (*store.Page[*blog.Post], error) {
	return s.tagPostPage(ctx, tag, p)
}

func (s planReads) Feed(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
	return s.feedPage(ctx, p)
}

func (s planReads) UserPosts(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	return s.userPostPage(ctx, userID, p)
}

func (planReads) isViewer(ctx context.Context, userID string) bool { return viewerID(ctx) == userID }

func (s planReads) UserDrafts(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	if !s.isViewer(ctx, userID) {
		return nil, nil
	}
	return s.draftPage(ctx, userID, p)
}

// Home implements plan.Source: nil for all users but the viewer.
func (s planReads) Home(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	if !s.isViewer(ctx, userID) {
		return nil, nil
	}
	return s.homePage(ctx, userID, p)
}

func (s planReads) DraftCount(ctx context.Context, userID string) (int32, error) {
	if !s.isViewer(ctx, userID) {
		return 0, nil
	}
	return s.store.DraftCount(ctx, userID)
}

func (s planReads) Bookmarks(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	if !s.isViewer(ctx, userID) {
		return nil, nil
	}
	return s.bookmarkPage(ctx, userID, p)
}

func (s planReads) BookmarkCount(ctx context.Context, userID string) (int32, error) {
	if !s.isViewer(ctx, userID) {
		return 0, nil
	}
	return s.store.BookmarkCount(ctx, userID)
}

func (s planReads) LikedPosts(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	if !s.isViewer(ctx, userID) {
		return nil, nil
	}
	return s.likedPostPage(ctx, userID, p)
}

func (s planReads) LikedCount(ctx context.Context, userID string) (int32, error) {
	if !s.isViewer(ctx, userID) {
		return 0, nil
	}
	return s.store.LikedCount(ctx, userID)
}

func (s planReads) TopTags(ctx context.Context, first int) ([]*store.Tag, error) {
	return s.store.TopTags(ctx, first)
}

func (s planReads) Months(ctx context.Context) ([]*blog.Month, error) { return s.store.Months(ctx) }

func (s planReads) Archive(ctx context.Context, month string, p store.Paging) (*store.Page[*blog.Post], error) {
	return s.archivePage(ctx, month, p)
}

func (s planReads) FoundPosts(
	ctx context.Context, query string, order *store.SearchOrder, tag, author *string, p store.Paging,
) (*store.Page[*store.Found], error) {
	q, err := searchOf(query, order, tag, author)
	if err != nil {
		return nil, err
	}
	return s.searchPage(ctx, q, p)
}

func (s planReads) MonthCount(ctx context.Context, month string) (int32, error) {
	return s.store.MonthCount(ctx, month)
}

func (s planReads) FeedCount(ctx context.Context) (int32, error) { return s.store.FeedCount(ctx) }

func (s planReads) PostCount(ctx context.Context, userID string) (int32, error) {
	return loadersOf(ctx).postCounts.load(ctx, userID)
}

func (s planReads) Comments(ctx context.Context, postID string, p store.Paging) (*store.Page[*blog.Comment], error) {
	return s.commentPage(ctx, postID, p)
}

func (s planReads) Likes(ctx context.Context, postID string, p store.Paging) (*store.Page[*blog.Like], error) {
	return s.likePage(ctx, postID, p)
}

func (s planReads) Followers(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Follow], error) {
	return s.followerPage(ctx, userID, p)
}

func (s planReads) Following(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Follow], error) {
	return s.followingPage(ctx, userID, p)
}

// ViewerFollows implements plan.Source.
func (planReads) ViewerFollows(ctx context.Context, userID string) (*bool, error) {
	return viewerFollows(ctx, userID)
}

// Texts implements plan.Source.
func (s planReads) Texts(ctx context.Context) plan.Texts { return s.texts(ctx) }

// Liked implements plan.Source.
func (s planReads) Liked(ctx context.Context, posts []string) (map[string]bool, error) {
	return marked(ctx, loadersOf(ctx).liked, posts)
}

// Bookmarked implements plan.Source.
func (s planReads) Bookmarked(ctx context.Context, posts []string) (map[string]bool, error) {
	return marked(ctx, loadersOf(ctx).bookmarked, posts)
}

// Followed implements plan.Source. Nobody follows themselves.
func (planReads) Followed(ctx context.Context, users []string) (map[string]bool, error) {
	viewer := viewerID(ctx)
	users = slices.DeleteFunc(users, func(id string) bool { return id == viewer })
	return marked(ctx, loadersOf(ctx).follows, users)
}

// marked returns which of the posts or users the viewer has marked, given what loads it; nil for an anonymous viewer.
func marked(ctx context.Context, marks *loader[string, bool], ids []string) (map[string]bool, error) {
	if viewerID(ctx) == "" {
		return nil, nil
	}
	loaded, err := marks.loadMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool, len(ids))
	for i, id := range ids {
		all[id] = loaded[i]
	}
	return all, nil
}

// ViewerAndRole implements plan.Source.
func (planReads) ViewerAndRole(ctx context.Context) (viewer string, moderator bool) {
	return viewerAndRole(ctx)
}

// Trace implements plan.Source by a span like that of the field's resolver.
func (s planReads) Trace(ctx context.Context, field string) (context.Context, func(error)) {
	if s.tracing.tracer == nil {
		return ctx, func(error) {}
	}
	within, span := s.tracing.resolving(ctx, field)
	return within, func(err error) {
		span.fail(err)
		span.finish()
	}
}

// Guard implements plan.Source.
func (planReads) Guard(read func() error) error {
	_, err := guarded(func() (struct{}, error) { return struct{}{}, read() })
	return err
}
