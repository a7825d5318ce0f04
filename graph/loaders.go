package graph

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"byline/graph/names"
	"byline/graph/transport"
	"byline/store"
	"byline/store/blog"
	"byline/store/blog/markdown"
)

// itemKey identifies an item in the partition of a post.
type itemKey struct{ post, id string }

// loaders batch and cache the reads of one response.
type loaders struct {
	users    *loader[string, *blog.User]
	posts    *loader[string, *blog.Post] // whole posts
	drafts   *loader[string, *blog.Post] // whole drafts of the viewer's
	comments *loader[itemKey, *blog.Comment]
	likes    *loader[itemKey, *blog.Like]
	tags     *loader[string, *store.Tag]
	liked    *loader[string, bool] // by post: whether the viewer likes it
	follows  *loader[string, bool] // by user: whether the viewer follows them

	bookmarked *loader[string, bool] // by post: whether the viewer has bookmarked it

	postCounts *loader[string, int32] // by user

	written atomic.Pointer[blog.Post] // of a mutation's payload, possibly truncated; nil: none

	rendered memo[string, markdown.HTML] // by source

	byUsername   memo[string, *blog.User]
	commentPages memo[pageKey, *store.Page[*blog.Comment]]
	likePages    memo[pageKey, *store.Page[*blog.Like]]
	postPages    memo[pageKey, *store.Page[*blog.Post]]

	followerPages, followingPages memo[pageKey, *store.Page[*blog.Follow]]

	searchPages memo[searchKey, *store.Page[*store.Found]]
}

// newLoaders returns the loaders of the response that ctx belongs to. Their batches run on ctx, not on
// the context of the field that loads first.
func newLoaders(ctx context.Context, s *store.Store, t trace.Tracer) *loaders {
	return &loaders{
		users: newLoader(ctx, traced(t, "load users", s.Users)),
		posts: newLoader(ctx, traced(t, "load posts", s.Posts)),
		drafts: newLoader(ctx, traced(t, "load drafts", func(ctx context.Context, ids []string) ([]*blog.Post, error) {
			return s.Drafts(ctx, viewerID(ctx), ids)
		})),
		comments: newLoader(ctx,
			traced(t, "load comments", byPointReads(func(ctx context.Context, k itemKey) (*blog.Comment, error) {
				return s.Comment(ctx, k.post, k.id)
			}))),
		likes: newLoader(ctx,
			traced(t, "load likes", byPointReads(func(ctx context.Context, k itemKey) (*blog.Like, error) {
				return s.Like(ctx, k.post, k.id)
			}))),
		tags: newLoader(ctx, traced(t, "load tags", byPointReads(s.Tag))),
		liked: newLoader(ctx, traced(t, "load liked", func(ctx context.Context, posts []string) ([]bool, error) {
			return s.Liked(ctx, viewerID(ctx), posts)
		})),
		follows: newLoader(ctx, traced(t, "load follows", func(ctx context.Context, users []string) ([]bool, error) {
			return s.Follows(ctx, viewerID(ctx), users)
		})),
		bookmarked: newLoader(ctx, traced(t, "load bookmarks", func(ctx context.Context, posts []string) ([]bool, error) {
			return s.Bookmarked(ctx, viewerID(ctx), posts)
		})),
		postCounts: newLoader(ctx, traced(t, "load post counts", byPointReads(s.PostCount))),
	}
}

// post returns the post of a comment or like.
func (l *loaders) post(ctx context.Context, id string) (*blog.Post, error) {
	if p := l.written.Load(); p != nil && p.ID == id {
		return p, nil
	}
	return l.posts.load(ctx, id)
}

type loadersKey struct{}

// loadersOf returns the loaders of the response that ctx belongs to.
func loadersOf(ctx context.Context) *loaders { return ctx.Value(loadersKey{}).(*lazyLoaders).get() }

// lazyLoaders creates the loaders when they are first needed: a subscription may wait long for its
// next event.
type lazyLoaders struct {
	once sync.Once
	ctx  context.Context // of the response
	of   responseLoaders
	made *loaders
}

func (l *lazyLoaders) get() *loaders {
	l.once.Do(func() { l.made = newLoaders(l.ctx, l.of.store, l.of.tracer) })
	return l.made
}

// responseLoaders gives each response its own loaders, and so each event of a subscription. Each root
// field of a mutation has its own, too, since it may change what the one before it has read.
type responseLoaders struct {
	store  *store.Store
	tracer trace.Tracer // may be nil
}

var _ interface {
	graphql.ResponseInterceptor
	graphql.RootFieldInterceptor
} = responseLoaders{}

func (responseLoaders) ExtensionName() string                   { return "ResponseLoaders" }
func (responseLoaders) Validate(graphql.ExecutableSchema) error { return nil }

func (f responseLoaders) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	transport.RequestOf(ctx).Errors.Store(0)
	return next(f.withNames(f.fresh(ctx)))
}

// withNames returns a context in which the response shows one name for each user.
func (f responseLoaders) withNames(ctx context.Context) context.Context {
	return names.With(ctx,
		names.New(f.store.Renamed(transport.RequestOf(ctx).Session), func(ids []string) ([]*blog.User, error) {
			return loadersOf(ctx).users.loadMany(ctx, ids)
		}))
}

// shownUser returns a function that converts a stored user to one of the response of ctx: see package names.
func shownUser(ctx context.Context) func(*blog.User, error) (*names.User, error) {
	return func(u *blog.User, err error) (*names.User, error) {
		if u == nil || err != nil {
			return nil, err
		}
		return names.From(ctx).User(*u), nil
	}
}

func (f responseLoaders) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Mutation {
		ctx = f.fresh(ctx)
	}
	return next(ctx)
}

func (f responseLoaders) fresh(ctx context.Context) context.Context {
	return context.WithValue(ctx, loadersKey{}, &lazyLoaders{ctx: ctx, of: f})
}

// pointReads is how many point reads of a batch run concurrently.
const pointReads = 8

// byPointReads returns a batch function that reads each key by a point read, pointReads at a time.
func byPointReads[K comparable, V any](
	read func(context.Context, K) (V, error),
) func(context.Context, []K) ([]V, error) {
	return func(ctx context.Context, keys []K) ([]V, error) {
		values := make([]V, len(keys))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(pointReads)
		for i, k := range keys {
			g.Go(func() (err error) {
				values[i], err = guarded(func() (V, error) { return read(ctx, k) })
				return err
			})
		}
		return values, g.Wait()
	}
}
