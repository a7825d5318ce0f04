package article

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store"
	"byline/store/blog"
)

// v2 is the article's second version: names and counts are on the items, so that nothing
// is looked up. A comment or a like is written together with the count, in a batch, where
// the article has a stored procedure. Lists of posts still query all partitions.
type v2 struct{ *v1 }

func countedPostItem(p *blog.Post) item {
	i := postItem(p).named(p.Username)
	i.CommentCount, i.LikeCount = &p.CommentCount, &p.LikeCount
	return i
}

func (m *v2) Import(ctx context.Context, u *blog.User, threads iter.Seq[store.Thread]) error {
	return m.load(ctx, u, threads, func(t store.Thread) []item {
		items := []item{countedPostItem(t.Post)}
		for _, c := range t.Comments {
			items = append(items, commentItem(c).named(c.Username))
		}
		for _, l := range t.Likes {
			items = append(items, likeItem(l).named(l.Username))
		}
		return items
	})
}

func (m *v2) createPost(ctx context.Context, p *blog.Post) error {
	return m.create(ctx, countedPostItem(p))
}

func (m *v2) post(ctx context.Context, id string) (*blog.Post, error) { return m.readPost(ctx, id) }

func (m *v2) userPosts(ctx context.Context, userID string) ([]*blog.Post, error) {
	return m.userPostItems(ctx, userID)
}

func (m *v2) createComment(ctx context.Context, c *blog.Comment) error {
	return m.createCounted(ctx, "/commentCount", commentItem(c).named(c.Username))
}

func (m *v2) comments(ctx context.Context, postID string) ([]*blog.Comment, error) {
	return m.commentItems(ctx, postID)
}

func (m *v2) like(ctx context.Context, l *blog.Like) error {
	return m.createCounted(ctx, "/likeCount", likeItem(l).named(l.Username))
}

func (m *v2) likes(ctx context.Context, postID string) ([]*blog.Like, error) {
	return m.likeItems(ctx, postID)
}

func (m *v2) feed(ctx context.Context) ([]*blog.Post, error) { return m.feedItems(ctx) }

// createCounted creates an item and counts it on its post.
func (m *v2) createCounted(ctx context.Context, counter string, i item) error {
	var count azcosmos.PatchOperations
	count.AppendIncrement(counter, 1)
	b := m.posts.NewTransactionalBatch(key(i.PostID))
	b.PatchItem(i.PostID, count, nil)
	b.CreateItem(encode(i), nil)
	r, err := m.posts.ExecuteTransactionalBatch(ctx, b, nil)
	if err != nil || r.Success {
		return err
	}
	return fmt.Errorf("batch: %s, %s", http.StatusText(int(r.OperationResults[0].StatusCode)),
		http.StatusText(int(r.OperationResults[1].StatusCode)))
}
