package article

import (
	"context"
	"fmt"
	"time"

	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

// v3 is Byline's store.
type v3 struct{ *store.Store }

// wholeList is the page size of lists, as in the article's requests.
var wholeList = store.Paging{First: 100}

func newV3(account *cosmos.Account, database string) (*v3, error) {
	s, err := store.New(account, store.Options{Database: database, Clock: func() time.Time { return measuredAt }})
	return &v3{s}, err
}

func (m *v3) provision(ctx context.Context) error { return m.Provision(ctx) }
func (m *v3) begin(context.Context) error         { return nil }
func (m *v3) createUser(ctx context.Context, u *blog.User) error {
	_, err := m.CreateUser(ctx, store.NewUser{ID: u.UserID, Username: u.Username})
	return err
}

func (m *v3) user(ctx context.Context, id string) (*blog.User, error) {
	return found(m.User(ctx, id))
}

func (m *v3) createPost(ctx context.Context, p *blog.Post) error {
	_, err := m.CreatePost(ctx, store.NewPost{AuthorID: p.UserID, Title: p.Title, Content: p.Content})
	return err
}

func (m *v3) post(ctx context.Context, id string) (*blog.Post, error) {
	return found(m.Post(ctx, id))
}

func (m *v3) userPosts(ctx context.Context, userID string) ([]*blog.Post, error) {
	return items(m.UserPosts(ctx, userID, wholeList))
}

func (m *v3) createComment(ctx context.Context, c *blog.Comment) error {
	_, _, err := m.CreateComment(ctx, store.NewComment{AuthorID: c.UserID, PostID: c.PostID, Content: c.Content})
	return err
}

func (m *v3) comments(ctx context.Context, postID string) ([]*blog.Comment, error) {
	return items(m.Comments(ctx, postID, wholeList))
}

func (m *v3) like(ctx context.Context, l *blog.Like) error {
	_, _, err := m.LikePost(ctx, l.UserID, l.PostID)
	return err
}

func (m *v3) likes(ctx context.Context, postID string) ([]*blog.Like, error) {
	return items(m.Likes(ctx, postID, wholeList))
}

func (m *v3) feed(ctx context.Context) ([]*blog.Post, error) {
	return items(m.Feed(ctx, wholeList))
}

// found returns an error if a value is missing.
func found[T any](item *T, err error) (*T, error) {
	if item == nil && err == nil {
		var none T
		err = fmt.Errorf("there is no such %T", none)
	}
	return item, err
}

func items[T any](page *store.Page[T], err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return page.Items, nil
}
