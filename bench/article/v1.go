package article

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"golang.org/x/sync/errgroup"

	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

// v1 is the article's first version: references only.
type v1 struct {
	client       *azcosmos.Client
	database     string
	users, posts *azcosmos.ContainerClient // partitioned by /id and by /postId
	batches      *cosmos.Container         // posts, for loading
	ranges       []string                  // the ids of the feed ranges of posts
}

func newV1(account *cosmos.Account, database string) (*v1, error) {
	client := account.Client()
	m := &v1{client: client, database: database}
	var err error
	if m.batches, err = account.Container(database, "posts"); err != nil {
		return nil, err
	}
	if m.users, err = client.NewContainer(database, "users"); err != nil {
		return nil, err
	}
	m.posts, err = client.NewContainer(database, "posts")
	return m, err
}

func (m *v1) provision(ctx context.Context) error {
	return provision(ctx, m.client, m.database, map[string]string{"users": "/id", "posts": "/postId"})
}

func (m *v1) begin(ctx context.Context) (err error) {
	m.ranges, err = rangeIDs(ctx, m.posts)
	return err
}

// Import writes a user last: its existence marks the user's posts as loaded.
func (m *v1) Import(ctx context.Context, u *blog.User, threads iter.Seq[store.Thread]) error {
	return m.load(ctx, u, threads, func(t store.Thread) []item {
		items := []item{postItem(t.Post)}
		for _, c := range t.Comments {
			items = append(items, commentItem(c))
		}
		for _, l := range t.Likes {
			items = append(items, likeItem(l))
		}
		return items
	})
}

func (m *v1) load(
	ctx context.Context, u *blog.User, threads iter.Seq[store.Thread], itemsOf func(store.Thread) []item,
) error {
	_, err := m.users.ReadItem(ctx, key(u.UserID), u.UserID, nil)
	if err == nil || !hasStatus(err, http.StatusNotFound) {
		return err
	}
	for t := range threads {
		var items [][]byte
		for _, i := range itemsOf(t) {
			items = append(items, encode(i))
		}
		if _, _, err := m.batches.CreateAll(ctx, t.Post.ID, items); err != nil {
			return err
		}
	}
	err = m.createUser(ctx, u)
	if hasStatus(err, http.StatusConflict) {
		return nil
	}
	return err
}

// ImportFeed does nothing: V1 has no feed container.
func (m *v1) ImportFeed(context.Context, []*blog.Post) error { return nil }

func (m *v1) createUser(ctx context.Context, u *blog.User) error {
	_, err := m.users.CreateItem(ctx, key(u.UserID), encode(userItem{u.UserID, u.Username}), nil)
	return err
}

func (m *v1) user(ctx context.Context, id string) (*blog.User, error) {
	r, err := m.users.ReadItem(ctx, key(id), id, nil)
	if err != nil {
		return nil, err
	}
	var u userItem
	err = json.Unmarshal(r.Value, &u)
	return &blog.User{Byline: blog.Byline{UserID: u.ID, Username: u.Username}}, err
}

// create creates an item in the partition of its post.
func (m *v1) create(ctx context.Context, i item) error {
	_, err := m.posts.CreateItem(ctx, key(i.PostID), encode(i), nil)
	return err
}

func (m *v1) createPost(ctx context.Context, p *blog.Post) error { return m.create(ctx, postItem(p)) }

func (m *v1) createComment(ctx context.Context, c *blog.Comment) error {
	return m.create(ctx, commentItem(c))
}

func (m *v1) like(ctx context.Context, l *blog.Like) error { return m.create(ctx, likeItem(l)) }

// post reads the post, its author, and counts its comments and its likes.
func (m *v1) post(ctx context.Context, id string) (*blog.Post, error) {
	p, err := m.readPost(ctx, id)
	if err != nil {
		return nil, err
	}
	return p, m.complete(ctx, []*blog.Post{p})
}

func (m *v1) readPost(ctx context.Context, id string) (*blog.Post, error) {
	r, err := m.posts.ReadItem(ctx, key(id), id, nil)
	if err != nil {
		return nil, err
	}
	var i item
	err = json.Unmarshal(r.Value, &i)
	return i.post(), err
}

// parallel is the number of concurrent requests of a look-up.
const parallel = 8

// complete looks up the counts of posts and their authors' names.
func (m *v1) complete(ctx context.Context, posts []*blog.Post) error {
	if err := addNames(ctx, m, posts, func(p *blog.Post) (string, *string) {
		return p.UserID, &p.Username
	}); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, p := range posts {
		g.Go(func() (err error) {
			p.CommentCount, err = m.count(ctx, p.ID, typeComment)
			return err
		})
		g.Go(func() (err error) {
			p.LikeCount, err = m.count(ctx, p.ID, typeLike)
			return err
		})
	}
	return g.Wait()
}

func (m *v1) count(ctx context.Context, postID, typ string) (int32, error) {
	counts, err := query[int32](ctx, m.posts, key(postID),
		"SELECT VALUE COUNT(1) FROM c WHERE c.postId = @id AND c.type = @type",
		param("@id", postID), param("@type", typ))
	if err != nil {
		return 0, err
	}
	if len(counts) != 1 {
		return 0, fmt.Errorf("COUNT yields %d rows", len(counts))
	}
	return counts[0], nil
}

// addNames reads each user that items refer to once, and sets the names that of returns pointers to.
func addNames[T any](ctx context.Context, m *v1, items []T, of func(T) (userID string, name *string)) error {
	wanted := map[string][]*string{}
	for _, i := range items {
		id, name := of(i)
		wanted[id] = append(wanted[id], name)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for id, names := range wanted {
		g.Go(func() error {
			u, err := m.user(ctx, id)
			if err != nil {
				return err
			}
			for _, name := range names {
				*name = u.Username
			}
			return nil
		})
	}
	return g.Wait()
}

func (m *v1) userPosts(ctx context.Context, userID string) ([]*blog.Post, error) {
	posts, err := m.userPostItems(ctx, userID)
	if err != nil {
		return nil, err
	}
	return posts, m.complete(ctx, posts)
}

// userPostItems names userId first: the embedded engine uses the index of the first
// property, and of the two that one is shorter.
func (m *v1) userPostItems(ctx context.Context, userID string) ([]*blog.Post, error) {
	items, err := m.queryRanges(ctx, "SELECT * FROM c WHERE c.userId = @userId AND c.type = 'post'",
		param("@userId", userID))
	return newest(items, len(items)), err
}

func (m *v1) comments(ctx context.Context, postID string) ([]*blog.Comment, error) {
	comments, err := m.commentItems(ctx, postID)
	if err != nil {
		return nil, err
	}
	return comments, addNames(ctx, m, comments, func(c *blog.Comment) (string, *string) {
		return c.UserID, &c.Username
	})
}

const queryUnderPost = "SELECT * FROM c WHERE c.postId = @id AND c.type = @type ORDER BY c.creationDate DESC"

func (m *v1) commentItems(ctx context.Context, postID string) ([]*blog.Comment, error) {
	items, err := query[item](ctx, m.posts, key(postID), queryUnderPost, param("@id", postID),
		param("@type", typeComment))
	var comments []*blog.Comment
	for _, i := range items {
		comments = append(comments,
			&blog.Comment{ID: i.ID, PostID: i.PostID, Byline: blog.Byline{UserID: i.UserID, Username: i.Username},
				Content: i.Content, CreatedAt: i.CreatedAt})
	}
	return comments, err
}

func (m *v1) likes(ctx context.Context, postID string) ([]*blog.Like, error) {
	likes, err := m.likeItems(ctx, postID)
	if err != nil {
		return nil, err
	}
	return likes, addNames(ctx, m, likes, func(l *blog.Like) (string, *string) { return l.UserID, &l.Username })
}

func (m *v1) likeItems(ctx context.Context, postID string) ([]*blog.Like, error) {
	items, err := query[item](ctx, m.posts, key(postID), queryUnderPost, param("@id", postID), param("@type", typeLike))
	var likes []*blog.Like
	for _, i := range items {
		likes = append(likes,
			&blog.Like{PostID: i.PostID, Byline: blog.Byline{UserID: i.UserID, Username: i.Username},
				CreatedAt: i.CreatedAt})
	}
	return likes, err
}

func (m *v1) feed(ctx context.Context) ([]*blog.Post, error) {
	posts, err := m.feedItems(ctx)
	if err != nil {
		return nil, err
	}
	return posts, m.complete(ctx, posts)
}

// feedLength is the x of the article's "x most recent posts".
const feedLength = 100

func (m *v1) feedItems(ctx context.Context) ([]*blog.Post, error) {
	items, err := m.queryRanges(ctx,
		fmt.Sprintf("SELECT TOP %d * FROM c WHERE c.type = 'post' ORDER BY c.creationDate DESC", feedLength))
	return newest(items, feedLength), err
}

// newest returns the short forms of the newest n.
func newest(items []item, n int) []*blog.Post {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	var posts []*blog.Post
	for _, i := range items[:min(n, len(items))] {
		p := i.post()
		p.Content = p.Summary().Content
		posts = append(posts, p)
	}
	return posts
}
