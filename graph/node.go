package graph

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/fields"
	"byline/graph/globalid"
	"byline/graph/names"
	"byline/graph/refusal"
	"byline/store"
	"byline/store/blog"
)

// node reads the object with an id: by one point read, or by a page that proves that it exists (see
// Resolver.post).
func (r *Resolver) node(ctx context.Context, id globalid.ID) (globalid.Node, error) {
	l, key := loadersOf(ctx), itemKey{id.Parent, id.Key}
	switch id.Kind {
	case "":
		return nil, nil
	case globalid.User:
		return nodeOrNil(shownUser(ctx)(r.user(ctx, id.Key)))
	case globalid.Post:
		return nodeOrNil(r.post(ctx, id.Key))
	case globalid.Comment:
		return nodeOrNil(l.comments.readOne(key, func() (*blog.Comment, error) {
			return r.store.Comment(ctx, id.Parent, id.Key)
		}))
	case globalid.Tag:
		return nodeOrNil(l.tags.readOne(id.Key, func() (*store.Tag, error) { return r.store.Tag(ctx, id.Key) }))
	default:
		return nodeOrNil(l.likes.readOne(key, func() (*blog.Like, error) {
			return r.store.Like(ctx, id.Parent, id.Key)
		}))
	}
}

// nodes reads the objects with some ids: one batch for each kind, concurrently. A malformed id yields
// an error with its index, and null in its place.
func (r *Resolver) nodes(ctx context.Context, texts []string) ([]globalid.Node, error) {
	if len(texts) > fields.MaxNodes {
		return nil, refusal.Input("ids", blog.ReasonTooMany, "must have at most %d entries", fields.MaxNodes)
	}
	ids := make([]globalid.ID, len(texts))
	for i, text := range texts {
		id, err := parseID(fmt.Sprintf("ids[%d]", i), text)
		if err != nil {
			at := append(slices.Clip(graphql.GetPath(ctx)), ast.PathIndex(i))
			graphql.AddError(ctx, graphql.AddFieldLocationToError(ctx, gqlerror.WrapPath(at, err)))
		}
		ids[i] = id
	}
	l := loadersOf(ctx)
	nodes := make([]globalid.Node, len(ids))
	errs := make([]error, 5)
	var wg sync.WaitGroup
	wg.Go(func() {
		errs[0] = loadNodes(ctx, l.users, globalid.User, ids, nodes, func(id globalid.ID) string { return id.Key })
	})
	wg.Go(func() {
		errs[1] = loadPosts(ctx, l, ids, nodes)
	})
	itemKeyOf := func(id globalid.ID) itemKey { return itemKey{id.Parent, id.Key} }
	wg.Go(func() { errs[2] = loadNodes(ctx, l.comments, globalid.Comment, ids, nodes, itemKeyOf) })
	wg.Go(func() { errs[3] = loadNodes(ctx, l.likes, globalid.Like, ids, nodes, itemKeyOf) })
	wg.Go(func() {
		errs[4] = loadNodes(ctx, l.tags, globalid.Tag, ids, nodes, func(id globalid.ID) string { return id.Key })
	})
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// loadNodes loads the nodes of one type, each into the place of its id.
func loadNodes[K comparable, T any](ctx context.Context, l *loader[K, *T], kind globalid.Kind,
	ids []globalid.ID, nodes []globalid.Node, keyOf func(globalid.ID) K) error {
	var at []int
	var keys []K
	for i, id := range ids {
		if id.Kind == kind {
			at, keys = append(at, i), append(keys, keyOf(id))
		}
	}
	values, err := l.loadMany(ctx, keys)
	if err != nil {
		return err
	}
	for i, v := range values {
		nodes[at[i]], _ = nodeOrNil(v, nil)
		if u, ok := nodes[at[i]].(*blog.User); ok {
			nodes[at[i]] = names.From(ctx).User(*u)
		}
	}
	return nil
}

// loadPosts is loadNodes for posts, and for drafts of the viewer's.
func loadPosts(ctx context.Context, l *loaders, ids []globalid.ID, nodes []globalid.Node) error {
	keyOf := func(id globalid.ID) string { return id.Key }
	err := loadNodes(ctx, l.posts, globalid.Post, ids, nodes, keyOf)
	missing := make([]globalid.ID, len(ids))
	some := false
	for i, id := range ids {
		if id.Kind == globalid.Post && nodes[i] == nil {
			missing[i], some = id, true
		}
	}
	if err != nil || !some || viewerID(ctx) == "" { // only then the response depends on the viewer
		return err
	}
	return loadNodes(ctx, l.drafts, globalid.Post, missing, nodes, keyOf)
}

// nodeOrNil converts a nil pointer to a nil interface.
func nodeOrNil[T any](v *T, err error) (globalid.Node, error) {
	if v == nil || err != nil {
		return nil, err
	}
	return v, nil
}

func userGlobalID(id string) string { return globalid.OfUser(id).String() }

func postGlobalID(id string) string { return globalid.OfPost(id).String() }

func commentGlobalID(c *blog.Comment) string { return globalid.OfComment(c.PostID, c.ID).String() }

func tagGlobalID(t *store.Tag) string { return globalid.OfTag(t.Name).String() }

func likeGlobalID(l *blog.Like) string { return globalid.OfLike(l.PostID, l.UserID).String() }

// parseID parses a global id that is the value of the named argument or input field.
func parseID(field, text string) (globalid.ID, error) {
	id, err := globalid.Parse(text)
	if err != nil {
		return id, refusal.Input(field, blog.ReasonFormat, "is not a valid global id")
	}
	return id, nil
}

// parseIDOf is parseID for an id of a given type. It returns the object's key.
func parseIDOf(kind globalid.Kind, field, text string) (string, error) {
	id, err := parseNestedID(kind, field, text)
	return id.Key, err
}

// parseNestedID is parseIDOf for objects in the partition of a parent.
func parseNestedID(kind globalid.Kind, field, text string) (globalid.ID, error) {
	id, err := parseID(field, text)
	if err == nil && id.Kind != "" && id.Kind != kind {
		err = refusal.Input(field, blog.ReasonType, "is the id of a %s, not of a %s", id.Kind, kind)
	}
	return id, err
}
