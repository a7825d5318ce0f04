package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"byline/store"
	"byline/store/blog"
	"byline/store/live"
)

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
	"IsDeletedSlug": func(ctx context.Context, s *scene) (any, error) {
		return s.IsDeletedSlug(ctx, s.post.Slug())
	},
	"Post/text lost":     func(ctx context.Context, s *scene) (any, error) { return s.Post(ctx, s.lost.ID) },
	"Post/text replaced": func(ctx context.Context, s *scene) (any, error) { return s.Post(ctx, s.torn.ID) },
	"Posts": func(ctx context.Context, s *scene) (any, error) {
		return s.Posts(ctx, []string{s.post.ID, s.long.ID})
	},
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
	"UserItems": func(ctx context.Context, s *scene) (any, error) { return s.UserItems(ctx, s.ada.UserID) },
	"Feed": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Feed(ctx, store.Paging{First: 1}))
	},
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
	"FeedCount": func(ctx context.Context, s *scene) (any, error) { return s.FeedCount(ctx) },
	"Months":    func(ctx context.Context, s *scene) (any, error) { return s.Months(ctx) },
	"MonthCount": func(ctx context.Context, s *scene) (any, error) {
		return s.MonthCount(ctx, s.post.CreatedAt.Month())
	},
	"Archive": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Archive(ctx, s.post.CreatedAt.Month(), store.Paging{First: 10}))
	},
	"DraftCount": func(ctx context.Context, s *scene) (any, error) { return s.DraftCount(ctx, s.ada.UserID) },
	"TopTags": func(ctx context.Context, s *scene) (any, error) {
		tags, err := s.TopTags(ctx, 10)
		return len(tags), err
	},
	"Search": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Search(ctx, store.Search{Query: "post"}, store.Paging{First: 10}))
	},
	"Search/newest": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Search(ctx, store.Search{Query: "post", Order: store.ByDate}, store.Paging{First: 10}))
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
	"Follows": func(ctx context.Context, s *scene) (any, error) {
		return s.Follows(ctx, s.bob.UserID, []string{s.ada.UserID, s.bob.UserID})
	},
	"Followers": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Followers(ctx, s.ada.UserID, store.Paging{First: 10}))
	},
	"Home": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Home(ctx, s.bob.UserID, store.Paging{First: 10}))
	},
	"Following": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Following(ctx, s.bob.UserID, store.Paging{First: 10}))
	},
	"Bookmarks": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.Bookmarks(ctx, s.bob.UserID, store.Paging{First: 10}))
	},
	"Bookmarked": func(ctx context.Context, s *scene) (any, error) {
		return s.Bookmarked(ctx, s.bob.UserID, []string{s.post.ID, s.long.ID})
	},
	"BookmarkCount": func(ctx context.Context, s *scene) (any, error) { return s.BookmarkCount(ctx, s.bob.UserID) },
	"LikedPosts": func(ctx context.Context, s *scene) (any, error) {
		return listed(s.LikedPosts(ctx, s.bob.UserID, store.Paging{First: 10}))
	},
	"LikedCount": func(ctx context.Context, s *scene) (any, error) { return s.LikedCount(ctx, s.bob.UserID) },
	"CreateUpload": func(ctx context.Context, s *scene) (any, error) {
		_, err := s.CreateUpload(ctx, s.ada.UserID, "image/png", 1)
		if blog.CodeOf(err) == blog.Invalid { // the world has no files
			err = nil
		}
		return nil, err
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
	if s.grown, err = s.EditPost(s.T.Context(), s.ada.UserID, s.AddPost(s.ada, "grown").ID,
		store.PostEdit{Content: &content}); err != nil {
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
	"BookmarkPost": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.BookmarkPost(ctx, s.bob.UserID, s.post.ID)
			return result(err, p != nil && p.ID == s.post.ID, p)
		},
		done: func(ctx context.Context, s *scene) error {
			got, err := s.Bookmarked(ctx, s.bob.UserID, []string{s.post.ID, s.long.ID})
			return result(err, len(got) == 2 && got[0] && got[1], got)
		},
	},
	"RemoveBookmark": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.RemoveBookmark(ctx, s.bob.UserID, s.long.ID)
			return result(err, p != nil && p.ID == s.long.ID, p)
		},
		done: func(ctx context.Context, s *scene) error {
			got, err := s.Bookmarked(ctx, s.bob.UserID, []string{s.post.ID, s.long.ID})
			return result(err, len(got) == 2 && !got[0] && !got[1], got)
		},
	},
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
			p, err := s.CreatePost(ctx,
				store.NewPost{AuthorID: s.ada.UserID, Title: "new", Content: strings.Repeat("x", 11_000), Key: "key"})
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
			p, err := s.CreateDraft(ctx,
				store.NewPost{AuthorID: s.ada.UserID, Title: "new", Content: "new", Key: "key"})
			s.made = p
			return result(err, p != nil && p.Title == "new" && p.IsDraft, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.draftIs(ctx, s.made, func(p *blog.Post) bool { return p.Title == "new" && p.Version == 1 })
		},
	},
	"EditPost/draft": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.EditPost(ctx, s.ada.UserID, s.draft.ID,
				store.PostEdit{Title: ptr("edited"), Version: ptr(int32(1))})
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
			p, err := s.EditPost(ctx, s.ada.UserID, s.post.ID,
				store.PostEdit{Title: ptr("edited"), Version: ptr(int32(1))})
			return result(err, p != nil && p.Title == "edited" && p.Version == 2, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.postIs(ctx, s.post, func(p *blog.Post) bool {
				return p.Title == "edited" && p.Version == 2 && p.Content == s.post.Content
			})
		},
		repeated: []blog.Code{blog.Conflict},
	},
	"EditPost/to long": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.EditPost(ctx, s.ada.UserID, s.post.ID,
				store.PostEdit{Content: ptr(strings.Repeat("y", 11_000)), Version: ptr(int32(1))})
			return result(err, p != nil && len(p.Content) == 11_000 && p.Version == 2, p)
		},
		done: func(ctx context.Context, s *scene) error {
			return s.postIs(ctx, s.post, func(p *blog.Post) bool {
				return p.Content == strings.Repeat("y", 11_000) && p.Version == 2
			})
		},
		repeated: []blog.Code{blog.Conflict},
	},
	"EditPost/to short": {
		do: func(ctx context.Context, s *scene) error {
			p, err := s.EditPost(ctx, s.ada.UserID, s.long.ID,
				store.PostEdit{Content: ptr("short"), Version: ptr(int32(1))})
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
			c, p, err := s.CreateComment(ctx,
				store.NewComment{AuthorID: s.ada.UserID, PostID: s.post.ID, Content: "new", Key: "key"})
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
	"FollowUser": {
		do: func(ctx context.Context, s *scene) error {
			u, err := s.FollowUser(ctx, s.ada.UserID, s.bob.UserID)
			return result(err, u != nil && u.UserID == s.bob.UserID && u.FollowerCount == 1, u)
		},
		done: func(ctx context.Context, s *scene) error { return s.hasFollowers(ctx, s.bob, s.ada) },
	},
	"UnfollowUser": {
		do: func(ctx context.Context, s *scene) error {
			u, err := s.UnfollowUser(ctx, s.bob.UserID, s.ada.UserID)
			return result(err, u != nil && u.UserID == s.ada.UserID && u.FollowerCount == 0, u)
		},
		done: func(ctx context.Context, s *scene) error { return s.hasFollowers(ctx, s.ada) },
	},
	"Import": {
		alone: true,
		do: func(ctx context.Context, s *scene) error {
			return s.Import(ctx, s.imported(), slices.Values(s.threads(120)))
		},
		done: func(ctx context.Context, s *scene) error {
			p, err := s.Post(ctx, s.threads(120)[0].Post.ID)
			u, userErr := s.UserByUsername(ctx, s.imported().Username)
			return result(cmp.Or(err, userErr),
				p != nil && p.CommentCount == 120 && u != nil && len(s.AllComments(p)) == 120 &&
					len(s.AllUserPosts(u)) == 1, p, u)
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
	return cmp.Or(result(nil, slices.EqualFunc(likes, users, func(l *blog.Like, u *blog.User) bool {
		return l.UserID == u.UserID
	}), likes),
		s.postIs(ctx, s.post, func(p *blog.Post) bool { return int(p.LikeCount) == len(users) }))
}

// hasFollowers checks the followers of a user, and their count.
func (s *scene) hasFollowers(ctx context.Context, author *blog.User, users ...*blog.User) error {
	page, err := s.Followers(ctx, author.UserID, store.Paging{First: 10})
	if err != nil {
		return err
	}
	u, err := s.User(ctx, author.UserID)
	return result(err, u != nil && int(u.FollowerCount) == len(users) &&
		slices.EqualFunc(page.Items, users, func(f *blog.Follow, u *blog.User) bool { return f.UserID == u.UserID }), u)
}

// imported is the user of an import.
func (s *scene) imported() *blog.User {
	return &blog.User{Byline: blog.Byline{UserID: "imported-" + s.name, Username: "imported-" + s.name},
		CreatedAt: s.post.CreatedAt, Revision: 1}
}

// threads returns a post of an import with n comments.
func (s *scene) threads(n int) []store.Thread {
	u := s.imported()
	t := store.Thread{Post: &blog.Post{ID: "thread-" + s.name, Byline: u.Byline, Title: "imported", Content: "x",
		CreatedAt: s.post.CreatedAt,
		Version:   1, Revision: 1, CommentCount: int32(n)}}
	for i := range n {
		t.Comments = append(t.Comments,
			&blog.Comment{ID: fmt.Sprint("comment-", i), PostID: t.Post.ID, Byline: s.bob.Byline,
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
	"SearchRU":       func(s *scene) { s.SearchRU(store.Search{Query: "post"}, 10) },
	"PostCursor":     func(s *scene) { s.PostCursor(s.post) },
	"CommentCursor":  func(s *scene) { s.CommentCursor(s.comment) },
	"Instance":       func(s *scene) { s.Instance() },
	"Views":          func(s *scene) { s.Views() },
}

// streamOperations open a stream and write what it must deliver.
var streamOperations = map[string]func(context.Context, *scene) (open func() (events func() bool, err error),
	write func() error){
	"PublishedPosts": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*blog.Post], error) { return s.PublishedPosts(ctx) }), func() error {
			_, err := s.CreatePost(ctx, store.NewPost{AuthorID: s.ada.UserID, Title: "t", Content: "c"})
			return err
		}
	},
	"HomePublished": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*blog.Post], error) { return s.HomePublished(ctx, s.bob.UserID) }),
			func() error {
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
		return opens(func() (*live.Stream[*live.PostDeletion], error) {
				return s.PostDeletions(ctx, s.post.ID)
			}), func() error {
				return s.DeletePost(ctx, s.ada.UserID, s.post.ID)
			}
	},
	"CommentChanges": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*live.CommentChange], error) {
				return s.CommentChanges(ctx, s.post.ID)
			}), func() error {
				_, err := s.EditComment(ctx, s.bob.UserID, s.post.ID, s.comment.ID, "edited")
				return err
			}
	},
	"NewComments": func(ctx context.Context, s *scene) (func() (func() bool, error), func() error) {
		return opens(func() (*live.Stream[*blog.Comment], error) {
				return s.NewComments(ctx, s.post.ID)
			}), func() error {
				_, _, err := s.CreateComment(ctx,
					store.NewComment{AuthorID: s.ada.UserID, PostID: s.post.ID, Content: "c"})
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
