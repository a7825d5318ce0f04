package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/live"
	"byline/store/username"
)

// faultWorld is a world whose requests can fail.
type faultWorld struct {
	*world
	wire *faulttest.Transport
}

func newFaultWorld(t testing.TB) *faultWorld {
	w := &faultWorld{world: newWorld(t)}
	w.wire = &faulttest.Transport{To: w.Wire.To}
	w.Wire.To = w.wire
	return w
}

// scene is what an operation works on.
type scene struct {
	*faultWorld
	name       string
	ada, bob   *blog.User
	post, long *blog.Post    // by ada
	comment    *blog.Comment // by bob on post, which bob also likes
	grown      *blog.Post    // by ada, has become long by an edit, so that its id does not tell; nil except for reads
	draft      *blog.Post    // of ada
	lost, torn *blog.Post    // by ada, without their texts, as if edits had come between reads; nil except for reads
	made       *blog.Post    // by a write
}

// newScene returns the scene of a name, which must be unique in the world.
func (w *faultWorld) newScene(name string) *scene {
	w.T.Helper()
	s := &scene{faultWorld: w, name: name, ada: w.AddUser("ada-" + name), bob: w.AddUser("bob-" + name)}
	s.post, s.long = w.AddPost(s.ada, "post "+name), w.addLong(s.ada, 11_000, "")
	s.comment = w.AddComment(s.bob, s.post, "by bob")
	w.AddLike(s.bob, s.post)
	s.draft = w.addDraft(s.ada, "draft "+name, "c")
	return s
}

// readOperations are the operations that read, by method, and a variant after a slash. They return what was read.
var readOperations = map[string]func(context.Context, *scene) (any, error){
	"User": func(ctx context.Context, s *scene) (any, error) { return s.User(ctx, s.ada.UserID) },
	"Users": func(ctx context.Context, s *scene) (any, error) {
		return s.Users(ctx, []string{s.ada.UserID, s.bob.UserID})
	},
	"UserByUsername": func(ctx context.Context, s *scene) (any, error) {
		return s.UserByUsername(ctx, s.ada.Username)
	},
	"UserIDOf":  func(ctx context.Context, s *scene) (any, error) { return s.UserIDOf(ctx, s.ada.Username) },
	"Post":      func(ctx context.Context, s *scene) (any, error) { return s.Post(ctx, s.post.ID) },
	"Post/long": func(ctx context.Context, s *scene) (any, error) { return s.Post(ctx, s.long.ID) },
	"Post/long by an edit": func(ctx context.Context, s *scene) (any, error) {
		return s.Post(ctx, s.grown.ID)
	},
	"Post/text lost":     func(ctx context.Context, s *scene) (any, error) { return s.Post(ctx, s.lost.ID) },
	"Post/text replaced": func(ctx context.Context, s *scene) (any, error) { return s.Post(ctx, s.torn.ID) },
	"Posts":              func(ctx context.Context, s *scene) (any, error) { return s.Posts(ctx, []string{s.post.ID, s.long.ID}) },
	"Posts/long by an edit": func(ctx context.Context, s *scene) (any, error) {
		return s.Posts(ctx, []string{s.post.ID, s.grown.ID})
	},
	"UserPosts": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.UserPosts(ctx, s.ada.UserID, store.Paging{First: 10}))
	},
	"UserDrafts": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.UserDrafts(ctx, s.ada.UserID, store.Paging{First: 10}))
	},
	"Drafts": func(ctx context.Context, s *scene) (any, error) {
		return s.Drafts(ctx, s.ada.UserID, []string{s.draft.ID, s.post.ID})
	},
	"PostCount": func(ctx context.Context, s *scene) (any, error) { return s.PostCount(ctx, s.ada.UserID) },
	"Feed":      func(ctx context.Context, s *scene) (any, error) { return listed(s.Feed(ctx, store.Paging{First: 1})) },
	"Tag": func(ctx context.Context, s *scene) (any, error) {
		tag, err := s.Tag(ctx, "go")
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(tag.Name, tag.PostCount), nil
	},
	"TagPosts": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.TagPosts(ctx, &store.Tag{Name: "go"}, store.Paging{First: 10}))
	},
	"TopTags": func(ctx context.Context, s *scene) (any, error) {
		tags, err := s.TopTags(ctx, 10)
		return len(tags), err
	},
	"Comment": func(ctx context.Context, s *scene) (any, error) { return s.Comment(ctx, s.post.ID, s.comment.ID) },
	"Comments": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Comments(ctx, s.post.ID, store.Paging{First: 10}))
	},
	"Like": func(ctx context.Context, s *scene) (any, error) { return s.Like(ctx, s.post.ID, s.bob.UserID) },
	"Liked": func(ctx context.Context, s *scene) (any, error) {
		return s.Liked(ctx, s.bob.UserID, []string{s.post.ID, s.long.ID})
	},
	"Likes": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Likes(ctx, s.post.ID, store.Paging{First: 10}))
	},
	"Empty": func(ctx context.Context, s *scene) (any, error) { return s.Store.Empty(ctx) },
	"Ready": func(ctx context.Context, s *scene) (any, error) { return nil, s.Ready(ctx) },
	"Export": func(ctx context.Context, s *scene) (any, error) {
		var all []string
		for page, err := range s.Export(ctx, s.ada.UserID, "") {
			if err != nil {
				return nil, err
			}
			for _, item := range page.Items {
				all = append(all, string(item))
			}
		}
		return all, nil
	},
}

// listed returns the items of a page, and whether there are more.
func listed[T any](page *store.Page[*T], err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return struct {
		Items []*T
		More  bool
	}{page.Items, page.More}, nil
}

// addLongPosts adds the posts that only reads need.
func (s *scene) addLongPosts() {
	s.T.Helper()
	content := strings.Repeat("long ", 2000)
	var err error
	if s.grown, err = s.EditPost(s.T.Context(), s.ada.UserID, s.AddPost(s.ada, "grown").ID, store.PostEdit{Content: &content}); err != nil {
		s.T.Fatal(err)
	}
	s.lost, s.torn = s.addLong(s.ada, 11_000, "lost"), s.addLong(s.ada, 11_000, "torn")
	s.Remove("posts", s.lost.ID, blog.TextID)
	s.Corrupt("posts", s.torn.ID, blog.TextID, "/textDigest", "of another text")
}

// writeOperation is an operation that writes.
type writeOperation struct {
	// do does the operation. It returns its error, or that of a wrong result.
	do func(context.Context, *scene) error

	// done checks that the operation has taken effect once, and that nothing else has changed.
	done func(context.Context, *scene) error

	// repeated are the codes of an error of a repetition after the operation took effect.
	repeated []blog.Code

	// alone says that no other process writes meanwhile, so that no response tells of what another has written.
	alone bool
}

var writeOperations = map[string]writeOperation{
	"CreateUser": {
		do: func(ctx context.Context, s *scene) error {
			u, err := s.CreateUser(ctx, store.NewUser{ID: "new-" + s.name, Username: "new-" + s.name, Key: "key"})
			return result(err, u != nil && u.Username == "new-"+s.name, u)
		},
		done: func(ctx context.Context, s *scene) error {
			u, err := s.UserByUsername(ctx, "new-"+s.name)
			return result(err, u != nil && u.UserID == "new-"+s.name && u.Revision == 1, u)
		},
	},
	"UpdateUser": {
		do: func(ctx context.Context, s *scene) error {
			u, err := s.UpdateUser(ctx, s.ada.UserID, store.UserEdit{Username: new("eve-" + s.name)})
			return result(err, u != nil && u.Username == "eve-"+s.name, u)
		},
		done: func(ctx context.Context, s *scene) error {
			u, err := s.UserByUsername(ctx, "eve-"+s.name)
			return result(err, u != nil && u.UserID == s.ada.UserID && u.Revision == 2, u)
		},
	},
	"UpdateUser/in case": {
		do: func(ctx context.Context, s *scene) error {
			u, err := s.UpdateUser(ctx, s.ada.UserID, store.UserEdit{Username: new("ADA-" + s.name)})
			return result(err, u != nil && u.Username == "ADA-"+s.name, u)
		},
		done: func(ctx context.Context, s *scene) error {
			u, err := s.UserByUsername(ctx, "ada-"+s.name)
			return result(err, u != nil && u.Username == "ADA-"+s.name && u.Revision == 2, u)
		},
	},
	"DeleteUser": {
		do: func(ctx context.Context, s *scene) error { return s.DeleteUser(ctx, s.ada.UserID, s.ada.Username) },
		done: func(ctx context.Context, s *scene) error {
			u, err := s.User(ctx, s.ada.UserID)
			p, postErr := s.Post(ctx, s.post.ID)
			return result(cmp.Or(err, postErr), u == nil && p == nil, u)
		},
	},
	"CreatePost": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.CreatePost(ctx, store.NewPost{AuthorID: s.ada.UserID, Title: "new", Content: "new", Key: "key"})
			s.made = p
			return result(err, p != nil && p.Title == "new" && p.Revision == 1, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.postIs(ctx, s.made, func(p *blog.Post) bool {
				return p.Revision == 1 && p.Title == "new" && len(p.Content) == len(s.made.Content)
			})
		},
	},
	"CreatePost/long": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.CreatePost(ctx, store.NewPost{AuthorID: s.ada.UserID, Title: "new", Content: strings.Repeat("x", 11_000), Key: "key"})
			s.made = p
			return result(err, p != nil && len(p.Content) == 11_000 && p.Revision == 1, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.postIs(ctx, s.made, func(p *blog.Post) bool {
				return p.Revision == 1 && p.Title == "new" && len(p.Content) == len(s.made.Content)
			})
		},
	},
	"CreateDraft": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.CreateDraft(ctx, store.NewPost{AuthorID: s.ada.UserID, Title: "new", Content: "new", Key: "key"})
			s.made = p
			return result(err, p != nil && p.Title == "new" && p.IsDraft, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.draftIs(ctx, s.made, func(p *blog.Post) bool { return p.Title == "new" && p.Version == 1 })
		},
	},
	"EditPost/draft": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.EditPost(ctx, s.ada.UserID, s.draft.ID, store.PostEdit{Title: ptr("edited"), Version: ptr(int32(1))})
			return result(err, p != nil && p.Title == "edited" && p.Version == 2, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.draftIs(ctx, s.draft, func(p *blog.Post) bool { return p.Title == "edited" && p.Version == 2 })
		},
		repeated: []blog.Code{blog.Conflict},
	},
	"DeletePost/draft": {
		do:       func(ctx context.Context, s *scene) error { return s.DeletePost(ctx, s.ada.UserID, s.draft.ID) },
		done:     func(ctx context.Context, s *scene) error { return s.draftIs(ctx, s.draft, nil) },
		repeated: []blog.Code{blog.NotFound},
	},
	"PublishPost": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.PublishPost(ctx, s.ada.UserID, s.draft.ID)
			return result(err, p != nil && p.ID == s.draft.ID && !p.IsDraft && p.Version == 1 && p.Revision == 1, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return cmp.Or(s.draftIs(ctx, s.draft, nil), s.postIs(ctx, s.draft, func(p *blog.Post) bool {
				return p.Revision == 1 && p.Content == s.draft.Content
			}))
		},
	},
	"EditPost": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.EditPost(ctx, s.ada.UserID, s.post.ID, store.PostEdit{Title: ptr("edited"), Version: ptr(int32(1))})
			return result(err, p != nil && p.Title == "edited" && p.Version == 2, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.postIs(ctx, s.post, func(p *blog.Post) bool { return p.Title == "edited" && p.Version == 2 && p.Content == s.post.Content })
		},
		repeated: []blog.Code{blog.Conflict},
	},
	"EditPost/to long": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.EditPost(ctx, s.ada.UserID, s.post.ID, store.PostEdit{Content: ptr(strings.Repeat("y", 11_000)), Version: ptr(int32(1))})
			return result(err, p != nil && len(p.Content) == 11_000 && p.Version == 2, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.postIs(ctx, s.post, func(p *blog.Post) bool { return p.Content == strings.Repeat("y", 11_000) && p.Version == 2 })
		},
		repeated: []blog.Code{blog.Conflict},
	},
	"EditPost/to short": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.EditPost(ctx, s.ada.UserID, s.long.ID, store.PostEdit{Content: ptr("short"), Version: ptr(int32(1))})
			return result(err, p != nil && p.Content == "short" && p.Version == 2, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.postIs(ctx, s.long, func(p *blog.Post) bool { return p.Content == "short" && p.Version == 2 })
		},
		repeated: []blog.Code{blog.Conflict},
	},
	"DeletePost": {
		do:       func(ctx context.Context, s *scene) error { return s.DeletePost(ctx, s.ada.UserID, s.post.ID) },
		done:     func(ctx context.Context, s *scene) error { return s.isDeleted(ctx, s.post) },
		repeated: []blog.Code{blog.NotFound},
	},
	"RemovePost": {
		do:       func(ctx context.Context, s *scene) error { return s.RemovePost(ctx, s.post.ID) },
		done:     func(ctx context.Context, s *scene) error { return s.isDeleted(ctx, s.post) },
		repeated: []blog.Code{blog.NotFound},
	},
	"CreateComment": {
		do: func(ctx context.Context, s *scene) error {
			c, p, err := s.CreateComment(ctx, store.NewComment{AuthorID: s.ada.UserID, PostID: s.post.ID, Content: "new", Key: "key"})
			return result(err, c != nil && c.Content == "new" && p != nil && p.CommentCount == 2, c, p)
		},
		done: func(ctx context.Context, s *scene) error { return s.hasComments(ctx, "new", "by bob") },
	},
	"EditComment": {
		do: func(ctx context.Context, s *scene) error {
			c, err := s.EditComment(ctx, s.bob.UserID, s.post.ID, s.comment.ID, "edited")
			return result(err, c != nil && c.Content == "edited", c)
		},
		done: func(ctx context.Context, s *scene) error { return s.hasComments(ctx, "edited") },
	},
	"DeleteComment": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.DeleteComment(ctx, s.bob.UserID, s.post.ID, s.comment.ID)
			return result(err, p != nil && p.CommentCount == 0, p)
		},
		done:     func(ctx context.Context, s *scene) error { return s.hasComments(ctx) },
		repeated: []blog.Code{blog.NotFound},
	},
	"RemoveComment": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.RemoveComment(ctx, s.post.ID, s.comment.ID)
			return result(err, p != nil && p.CommentCount == 0, p)
		},
		done:     func(ctx context.Context, s *scene) error { return s.hasComments(ctx) },
		repeated: []blog.Code{blog.NotFound},
	},
	"LikePost": {
		do: func(ctx context.Context, s *scene) error {
			l, p, err := s.LikePost(ctx, s.ada.UserID, s.post.ID)
			return result(err, l != nil && l.UserID == s.ada.UserID && p != nil && p.LikeCount == 2, l, p)
		},
		done: func(ctx context.Context, s *scene) error { return s.hasLikes(ctx, s.ada, s.bob) },
	},
	"UnlikePost": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.UnlikePost(ctx, s.bob.UserID, s.post.ID)
			return result(err, p != nil, p)
		},
		done: func(ctx context.Context, s *scene) error { return s.hasLikes(ctx) },
	},
	"Import": {
		alone: true,
		do: func(ctx context.Context, s *scene) error {
			return s.Import(ctx, s.imported(), slices.Values(s.threads(120)))
		},
		done: func(ctx context.Context, s *scene) error {
			p, err := s.Post(ctx, s.threads(120)[0].Post.ID)
			u, userErr := s.UserByUsername(ctx, s.imported().Username)
			return result(cmp.Or(err, userErr), p != nil && p.CommentCount == 120 && u != nil && len(s.AllComments(p)) == 120 && len(s.AllUserPosts(u)) == 1, p, u)
		},
	},
	"ImportFeed": {
		do: func(ctx context.Context, s *scene) error { return s.ImportFeed(ctx, []*blog.Post{s.post, s.long}) },
		done: func(ctx context.Context, s *scene) error {
			titles := s.FeedTitles("post")
			return result(nil, slices.Contains(titles, s.post.Title), titles)
		},
	},
	"Provision": {
		do:   func(ctx context.Context, s *scene) error { return s.Provision(ctx) },
		done: func(ctx context.Context, s *scene) error { return s.Ready(ctx) },
	},
}

func ptr[T any](v T) *T { return &v }

// errWrong is the error of a wrong result.
var errWrong = errors.New("wrong result")

// result returns err, or the error of a wrong result.
func result(err error, right bool, got ...any) error {
	if err != nil || right {
		return err
	}
	return fmt.Errorf("%w: %+v", errWrong, got)
}

// draftIs checks a draft of ada's, which does not exist if is is nil.
func (s *scene) draftIs(ctx context.Context, p *blog.Post, is func(*blog.Post) bool) error {
	drafts, err := s.Drafts(ctx, s.ada.UserID, []string{p.ID})
	if err != nil {
		return err
	}
	if drafts[0] == nil || is == nil {
		return result(nil, drafts[0] == nil && is == nil, drafts[0])
	}
	return result(nil, is(drafts[0]), drafts[0])
}

func (s *scene) isDeleted(ctx context.Context, p *blog.Post) error {
	got, err := s.Post(ctx, p.ID)
	return result(err, got == nil, got)
}

func (s *scene) postIs(ctx context.Context, p *blog.Post, is func(*blog.Post) bool) error {
	got, err := s.Post(ctx, p.ID)
	return result(err, got != nil && is(got), got)
}

// hasComments checks the comments on the post, newest first, and their count.
func (s *scene) hasComments(ctx context.Context, contents ...string) error {
	var got []string
	for _, c := range s.AllComments(s.post) {
		got = append(got, c.Content)
	}
	return cmp.Or(result(nil, slices.Equal(got, contents), got),
		s.postIs(ctx, s.post, func(p *blog.Post) bool { return int(p.CommentCount) == len(contents) }))
}

// hasLikes checks the likes of the post, newest first, and their count.
func (s *scene) hasLikes(ctx context.Context, users ...*blog.User) error {
	likes := s.AllLikes(s.post)
	return cmp.Or(result(nil, slices.EqualFunc(likes, users, func(l *blog.Like, u *blog.User) bool { return l.UserID == u.UserID }), likes),
		s.postIs(ctx, s.post, func(p *blog.Post) bool { return int(p.LikeCount) == len(users) }))
}

// imported is the user of an import.
func (s *scene) imported() *blog.User {
	return &blog.User{Byline: blog.Byline{UserID: "imported-" + s.name, Username: "imported-" + s.name}, CreatedAt: s.post.CreatedAt, Revision: 1}
}

// threads returns a post of an import with n comments.
func (s *scene) threads(n int) []store.Thread {
	u := s.imported()
	t := store.Thread{Post: &blog.Post{ID: "thread-" + s.name, Byline: u.Byline, Title: "imported", Content: "x", CreatedAt: s.post.CreatedAt,
		Version: 1, Revision: 1, CommentCount: int32(n)}}
	for i := range n {
		t.Comments = append(t.Comments, &blog.Comment{ID: fmt.Sprint("comment-", i), PostID: t.Post.ID, Byline: s.bob.Byline,
			Content: "c", CreatedAt: s.post.CreatedAt})
	}
	return []store.Thread{t}
}

// localOperations are the methods that send no request.
var localOperations = map[string]func(*scene){
	"DeletionsKnown": func(s *scene) { s.DeletionsKnown() },
	"FeedPartitions": func(s *scene) { s.FeedPartitions() },
	"HidesUsers":     func(s *scene) { s.HidesUsers() },
	"NewSession":     func(s *scene) { s.NewSession("") },
	"Renamed":        func(s *scene) { s.Renamed(s.NewSession("")) },
	"PostCursor":     func(s *scene) { s.PostCursor(s.post) },
	"CommentCursor":  func(s *scene) { s.CommentCursor(s.comment) },
	"Instance":       func(s *scene) { s.Instance() },
	"Views":          func(s *scene) { s.Views() },
}

// streamOperations open a stream and write what it must deliver.
var streamOperations = map[string]func(context.Context, *scene) (open func() (events func() bool, err error), write func() error){
	"PublishedPosts": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*blog.Post], error) { return s.PublishedPosts(ctx) }), func() error {
			_, err := s.CreatePost(ctx, store.NewPost{AuthorID: s.ada.UserID, Title: "t", Content: "c"})
			return err
		}
	},
	"PostChanges": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*blog.Post], error) { return s.PostChanges(ctx, s.post.ID) }), func() error {
			_, _, err := s.LikePost(ctx, s.ada.UserID, s.post.ID)
			return err
		}
	},
	"PostDeletions": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*live.PostDeletion], error) { return s.PostDeletions(ctx, s.post.ID) }), func() error {
			return s.DeletePost(ctx, s.ada.UserID, s.post.ID)
		}
	},
	"CommentChanges": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*live.CommentChange], error) { return s.CommentChanges(ctx, s.post.ID) }), func() error {
			_, err := s.EditComment(ctx, s.bob.UserID, s.post.ID, s.comment.ID, "edited")
			return err
		}
	},
	"NewComments": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*blog.Comment], error) { return s.NewComments(ctx, s.post.ID) }), func() error {
			_, _, err := s.CreateComment(ctx, store.NewComment{AuthorID: s.ada.UserID, PostID: s.post.ID, Content: "c"})
			return err
		}
	},
}

// opens returns a function that opens a stream, and returns one that waits for an event and closes the stream.
func opens[T any](open func() (*live.Stream[T], error)) func() (func() bool, error) {
	return func() (func() bool, error) {
		stream, err := open()
		if err != nil {
			return nil, err
		}
		return func() bool {
			defer stream.Close()
			select {
			case _, ok := <-stream.Events():
				return ok
			case <-time.After(20 * time.Second): // of fake time
				return false
			}
		}, nil
	}
}

// TestFaults_Complete: each method of a Store is in one of the tables.
func TestFaults_Complete(t *testing.T) {
	covered := map[string]bool{"Run": true} // TestFaults_Run
	for _, names := range []any{readOperations, writeOperations, localOperations, streamOperations} {
		for _, name := range reflect.ValueOf(names).MapKeys() {
			method, _, _ := strings.Cut(name.String(), "/")
			covered[method] = true
		}
	}
	of := reflect.TypeFor[*store.Store]()
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; !covered[name] {
			t.Errorf("%s is in none of the tables of operations whose requests fail", name)
		}
		delete(covered, of.Method(i).Name)
	}
	for name := range covered {
		t.Errorf("a Store has no method %s", name)
	}
}

// checkCode checks the code of an error after a fault.
func checkCode(c faulttest.Case, err error) error {
	if err == nil || c.N > 0 && slices.Contains(c.Codes, blog.CodeOf(err)) {
		return nil
	}
	return fmt.Errorf("code %s, want %q or no error: %w", blog.CodeOf(err), c.Codes, err)
}

func faulty(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		cosmostest.NeedsEngine(t, "it runs on the fake clock")
		cosmostest.Run(t, test)
	})
}

// If a request of a read fails, the read returns an error or the same result. It finds nothing only if Cosmos DB
// says so.
func TestFaults_Reads(t *testing.T) {
	for name, read := range readOperations {
		faulty(t, name, func(t *testing.T) {
			s := newFaultWorld(t).newScene("0")
			s.addLongPosts()
			var want any
			faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
				if name == "Ready" { // does not repeat its request
					c.Codes = append(c.Codes, blog.Throttled)
				}
				s.wire.Begin(c, nil)
				got, err := read(t.Context(), s)
				requests := s.wire.End()
				if c.N == 0 {
					want = got
				}
				missing := c.Misleads && (got == nil || reflect.ValueOf(got).IsZero())
				if wrong := checkCode(c, err); wrong != nil {
					t.Errorf("%v (%s): %v", c, requests.Failed, wrong)
				} else if err == nil && !missing && gocmp.Diff(want, got) != "" {
					t.Errorf("%v (%s): %s", c, requests.Failed, gocmp.Diff(want, got))
				}
				if got, err := read(t.Context(), s); err != nil || gocmp.Diff(want, got) != "" {
					t.Errorf("after %v: %v, %s", c, err, gocmp.Diff(want, got))
				}
				return requests
			})
		})
	}
}

// If a request of a write fails, the write takes effect once, or returns an error and takes effect once when it is
// repeated. Then the views are as their sources.
func TestFaults_Writes(t *testing.T) {
	for name, write := range writeOperations {
		faulty(t, name, func(t *testing.T) {
			w := newFaultWorld(t)
			cases := 0
			faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
				if c.Misleads && write.alone {
					return faulttest.Requests{}
				}
				cases++
				s := w.newScene(fmt.Sprint(cases))
				s.wire.Begin(c, nil)
				err := write.do(t.Context(), s)
				requests := s.wire.End()
				misled := c.Misleads && requests.Failed != ""
				if wrong := checkCode(c, err); wrong != nil {
					t.Errorf("%v (%s): %v", c, requests.Failed, wrong)
				}
				if err != nil || misled {
					if err := write.do(t.Context(), s); err != nil && !slices.Contains(write.repeated, blog.CodeOf(err)) {
						t.Errorf("repetition after %v (%s): %v", c, requests.Failed, err)
					}
				}
				if err := write.done(t.Context(), s); err != nil {
					t.Errorf("after %v (%s): %v", c, requests.Failed, err)
				}
				return requests
			})
			w.settled()
		})
	}
}

// settled runs the projections until they have handled all changes and done all jobs, and checks the views.
func (w *faultWorld) settled() {
	w.T.Helper()
	stop := w.Start()
	testkit.Until(w.T, w.CaughtUp)
	for waits := 0; ; waits++ {
		all, err := w.Views().Jobs(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		if len(all) == 0 {
			break
		}
		if waits > 100 {
			w.T.Fatalf("jobs are left: %+v", all)
		}
		w.Clock.Millis.Add(1000)
		storetest.Pass(time.Second)
	}
	testkit.Until(w.T, w.CaughtUp)
	stop()
	for _, d := range w.Differences(0) {
		w.T.Errorf("%+v", d)
	}
}

// Local operations send no request.
func TestFaults_LocalOperations(t *testing.T) {
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		s := newFaultWorld(t).newScene("0")
		for name, do := range localOperations {
			s.wire.Begin(faulttest.Case{}, nil)
			do(s)
			if n := s.wire.End().Count(); n > 0 {
				t.Errorf("%s has sent %d requests", name, n)
			}
		}
	})
}

// Until the projections have caught up, one of their requests fails, or one of the tails. They repeat their work:
// nothing is lost, and the views are as their sources.
func TestFaults_Run(t *testing.T) {
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t)
		cases := 0
		run := func(c faulttest.Case) faulttest.Requests {
			cases++
			s := w.newScene(fmt.Sprint(cases))
			for _, err := range []error{
				writeOperations["UpdateUser"].do(t.Context(), s),
				writeOperations["DeletePost"].do(t.Context(), s),
				s.DeleteUser(t.Context(), s.bob.UserID, s.bob.Username),
				s.Views().Rebuild(t.Context()),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			w.wire.Begin(c, nil)
			stop := w.Start()
			testkit.Until(t, w.CaughtUp)
			stop()
			return w.wire.End()
		}
		faulttest.Sample(run, 10)
		w.settled()
	})
}

// A stream whose first requests fail, among them those of the tail, is opened later, or returns an error. An open
// stream delivers what is written from then on.
func TestFaults_Streams(t *testing.T) {
	for name, stream := range streamOperations {
		faulty(t, name, func(t *testing.T) {
			w := newFaultWorld(t)
			w.Start()
			cases := 0
			faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
				cases++
				s := w.newScene(fmt.Sprint(cases))
				storetest.Pass(3 * time.Second) // the tail of the last stream ends
				open, write := stream(t.Context(), s)
				w.wire.Begin(c, isForeground)
				next, err := open()
				requests := w.wire.End()
				if wrong := checkCode(c, err); wrong != nil {
					t.Errorf("%v (%s): %v", c, requests.Failed, wrong)
				}
				if err != nil {
					if next, err = open(); err != nil {
						t.Errorf("repetition after %v (%s): %v", c, requests.Failed, err)
						return requests
					}
				}
				if err := write(); err != nil {
					t.Fatal(err)
				}
				if !next() {
					t.Errorf("after %v (%s): no event", c, requests.Failed)
				}
				return requests
			})
		})
	}
}

// isForeground reports whether a request is not of background work.
func isForeground(r *http.Request) bool { return r.Header.Get("X-Ms-Cosmos-Priority-Level") == "" }

// If the change feed cannot be followed, a stream is not opened: the caller gets Unavailable after 10 s.
func TestStreams_TailDoesNotStart(t *testing.T) {
	for name, cacheBytes := range map[string]int{"with a cache": 1 << 20, "without a cache": 0} {
		faulty(t, name, func(t *testing.T) {
			account := cosmostest.Open(t, emulator.Options{})
			fail := func(o emulator.Operation) emulator.Fault {
				if o.Kind == emulator.ChangeFeed {
					return emulator.Fault{Status: http.StatusServiceUnavailable}
				}
				return emulator.Fault{}
			}
			account.Engine.Inject(fail)
			a := newCachedStore(t, account, cacheBytes)
			for range 2 {
				began := time.Now()
				type opened struct {
					*live.Stream[*blog.Post]
					error
				}
				done := make(chan opened, 1)
				go func() {
					s, err := a.PublishedPosts(t.Context())
					done <- opened{s, err}
				}()
				select {
				case got := <-done:
					storetest.WantCode(t, got.error, blog.Unavailable, "")
				case <-time.After(time.Minute):
					t.Fatal("still waiting for the tail after a minute")
				}
				if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
					t.Errorf("took %v, want 10 s", took)
				}
			}
			account.Engine.Inject(nil)
			testkit.Until(t, func() error {
				s, err := a.PublishedPosts(t.Context())
				if err == nil {
					s.Close()
				}
				return err
			})
		})
	}
}

// While the tail of users does not get a response, one read waits for it in ten seconds, and only half a second.
func TestReads_StuckTail(t *testing.T) {
	cosmostest.NeedsEngine(t, "its requests hang")
	cosmostest.Run(t, func(t *testing.T) {
		_, a, _, ada, post := newCachedBlog(t)
		hangs, ends := context.WithCancel(t.Context())
		defer ends()
		a.wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("A-Im") != "" && strings.HasSuffix(r.URL.Path, "/colls/users/docs") {
				select {
				case <-hangs.Done():
				case <-r.Context().Done():
				}
				return errors.New("no response")
			}
			return nil
		})
		storetest.Pass(20 * time.Second) // the tail is stuck, and no longer caught up
		var waited []time.Duration
		for range 21 { // 10 s and a half
			began := time.Now()
			if p, err := a.Post(t.Context(), post.ID); p == nil || p.UserID != ada.UserID || err != nil {
				t.Fatal(p, err)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				waited = append(waited, took)
			}
			storetest.Pass(500 * time.Millisecond)
		}
		// The second read to wait finds the tail failing, and does not, if the tail's request has just timed out.
		each := 500 * time.Millisecond
		if !slices.Equal(waited, []time.Duration{each, each}) && !slices.Equal(waited, []time.Duration{each}) {
			t.Errorf("reads waited %v, want one or two times %v", waited, each)
		}
	})
}

// Another user takes the name while a user is created: if the reservation cannot be read then, the creation does not
// succeed.
func TestCreateUser_NameLostUnread(t *testing.T) {
	cosmostest.NeedsEngine(t, "it injects faults")
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t)
		cases := 0
		faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
			cases++
			id, name := fmt.Sprint("id-", cases), fmt.Sprint("name-", cases)
			thief := w.AddUser(fmt.Sprint("thief-", cases))
			w.Wire.After(func(r *http.Response) {
				if r.StatusCode == http.StatusCreated && r.Request.Header.Get("X-Ms-Documentdb-Partitionkey") == fmt.Sprintf("[%q]", id) {
					w.Wire.After(nil)
					key := username.Key(name)
					w.Upsert("users", key, string(blog.Encode(username.New(thief.UserID, name, blog.NewDate(w.Clock.Now())))))
				}
			})
			w.wire.Begin(c, func(r *http.Request) bool { return r.Header.Get("X-Ms-Documentdb-Is-Upsert") == "" }) // not the thief's
			u, err := w.CreateUser(t.Context(), store.NewUser{ID: id, Username: name})
			requests := w.wire.End()
			w.Wire.After(nil)
			lostBefore := requests.Failed != "" && c.N < 4 // before the name was taken
			if err == nil && !lostBefore && !c.Misleads {
				t.Errorf("%v (%s): created %+v", c, requests.Failed, u)
			}
			return requests
		})
	})
}
