package plan

import (
	"context"

	"byline/graph/globalid"
	"byline/graph/names"
	"byline/store"
	"byline/store/blog"
)

// Source reads what plans need. Values are nil for what does not exist.
type Source interface {
	Viewer(context.Context) (*names.User, error)
	User(_ context.Context, id string) (*names.User, error)
	UserByUsername(_ context.Context, name string) (*names.User, error)
	Post(_ context.Context, id string) (*blog.Post, error)
	PostBySlug(_ context.Context, slug string) (*blog.Post, error)
	Tag(_ context.Context, name string) (*store.Tag, error)
	TopTags(_ context.Context, first int) ([]*store.Tag, error)
	Months(context.Context) ([]*blog.Month, error)
	Node(_ context.Context, id string) (globalid.Node, error)

	Feed(context.Context, store.Paging) (*store.Page[*blog.Post], error)
	UserPosts(_ context.Context, userID string, _ store.Paging) (*store.Page[*blog.Post], error)
	TagPosts(_ context.Context, tag *store.Tag, _ store.Paging) (*store.Page[*blog.Post], error)
	UserDrafts(_ context.Context, userID string, _ store.Paging) (*store.Page[*blog.Post], error) // nil for others
	Bookmarks(_ context.Context, userID string, _ store.Paging) (*store.Page[*blog.Post], error)  // nil for others
	LikedPosts(_ context.Context, userID string, _ store.Paging) (*store.Page[*blog.Post], error) // nil for others
	Home(_ context.Context, userID string, _ store.Paging) (*store.Page[*blog.Post], error)       // likewise
	Archive(_ context.Context, month string, _ store.Paging) (*store.Page[*blog.Post], error)
	// FoundPosts is a page of Query.search. The author is a global id; what is nil is not given.
	FoundPosts(_ context.Context, query string, order *store.SearchOrder, tag, author *string,
		_ store.Paging) (*store.Page[*store.Found], error)
	FeedCount(context.Context) (int32, error)
	MonthCount(_ context.Context, month string) (int32, error)
	PostCount(_ context.Context, userID string) (int32, error)
	DraftCount(_ context.Context, userID string) (int32, error)
	BookmarkCount(_ context.Context, userID string) (int32, error)
	LikedCount(_ context.Context, userID string) (int32, error)
	Comments(_ context.Context, postID string, _ store.Paging) (*store.Page[*blog.Comment], error)
	Likes(_ context.Context, postID string, _ store.Paging) (*store.Page[*blog.Like], error)

	Followers(_ context.Context, userID string, _ store.Paging) (*store.Page[*blog.Follow], error)
	Following(_ context.Context, userID string, _ store.Paging) (*store.Page[*blog.Follow], error)

	// ViewerFollows returns whether the viewer follows a user; nil for an anonymous one.
	ViewerFollows(_ context.Context, userID string) (*bool, error)

	// Texts returns what renders the texts of the response.
	Texts(context.Context) Texts

	// Liked returns which of the posts the viewer likes, nil for an anonymous one.
	Liked(_ context.Context, posts []string) (map[string]bool, error)

	// Bookmarked returns which of the posts the viewer has bookmarked, nil for an anonymous one.
	Bookmarked(_ context.Context, posts []string) (map[string]bool, error)

	// Followed returns which of the users the viewer follows, nil for an anonymous one.
	Followed(_ context.Context, users []string) (map[string]bool, error)

	// ViewerAndRole returns the id of the viewer, "" for an anonymous one, and whether they are a moderator. The
	// response then depends on the viewer.
	ViewerAndRole(context.Context) (viewer string, moderator bool)

	// Trace traces the read of a field, such as Post.comments, until end is called.
	Trace(_ context.Context, field string) (_ context.Context, end func(error))

	// Guard calls read and converts a panic to an error.
	Guard(read func() error) error
}
