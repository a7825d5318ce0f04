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

// addPlayground serves the playground at /.
func addPlayground(mux *http.ServeMux, o Options) error {
	h, err := playground.New(playground.Options{
		CDN:         o.PlaygroundCDN,
		ExamplePost: func(ctx context.Context) string { return examplePost(ctx, o.Store) },
	})
	if err != nil {
		return err
	}
	mux.Handle("GET /{$}", h)
	mux.Handle("GET "+playground.Prefix, h)
	return nil
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
