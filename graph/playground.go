package graph

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"byline/graph/globalid"
	"byline/graph/playground"
	"byline/store"
	"byline/store/blog"
)

// newPages returns what is served besides GraphQL: in development, the playground at /.
func newPages(o Options) (http.Handler, error) {
	mux := http.NewServeMux()
	if !o.Development || o.TrustedDocuments != nil {
		return mux, nil
	}
	h, err := playground.New(playground.Options{
		CDN:         o.PlaygroundCDN,
		ExamplePost: func(ctx context.Context) string { return examplePost(ctx, o.Store) },
	})
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /{$}", h)
	mux.Handle("GET "+playground.Prefix, h)
	return mux, nil
}

// examplePost returns the global id of the post with the most comments and likes among the newest;
// "" if there are no posts.
func examplePost(ctx context.Context, s *store.Store) string {
	page, err := s.Feed(ctx, store.Paging{First: 20})
	if err != nil || len(page.Items) == 0 {
		return ""
	}
	most := slices.MaxFunc(page.Items, func(a, b *blog.Post) int {
		return cmp.Compare(min(a.CommentCount, a.LikeCount), min(b.CommentCount, b.LikeCount))
	})
	return globalid.OfPost(most.ID).String()
}
