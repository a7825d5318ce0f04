package fields

import (
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

// TextBytes is how many bytes a character of a text may have: in UTF-8, or escaped in JSON. Texts have no control
// characters but newline and tab.
const TextBytes = 4

// HTMLBytes is how many bytes a character of a text may have in its HTML. A text that is mostly markup has more:
// encoding finds out.
const HTMLBytes = 2 * TextBytes

// maxSlug is the greatest length of a slug.
const maxSlug = 80 + 1 + 2*64 + 1

// maxSnippet is the greatest length of the text of a snippet, in characters.
const maxSnippet = 300

// OlderFeed describes a page of Query.feed after the newest posts.
var OlderFeed = Field{
	Price: Price{Each: 5.6, Item: .12},
	Access: Access{store.Feed, []Request{
		{cosmos.KindPointRead, "feed", Timelines}, {cosmos.KindQuery, "feed", MonthOfAll},
		{cosmos.KindReadMany, "posts", EachPost},
	}},
}

// Rows of mutations whose input leaves out what costs most.
var (
	// UpdateProfile is Mutation.updateUser without a username.
	UpdateProfile = Field{
		Price: Price{Each: 11.3}, Later: Later{Each: 3, Job: 65, Post: 38, Other: 13, Follow: 13},
		Access: Access{store.WriteUser, []Request{
			{cosmos.KindPointRead, "users", Viewer}, {cosmos.KindPatch, "users", Viewer},
		}},
	}
	// SameUser is Mutation.updateUser without a change.
	SameUser = Field{
		Price:  Price{Each: 1},
		Access: Access{store.WriteUser, []Request{{cosmos.KindPointRead, "users", Viewer}}},
	}
	// SamePost is Mutation.updatePost without a change.
	SamePost = Field{
		Price:  Price{Each: 1},
		Access: Access{store.WritePost, []Request{{cosmos.KindPointRead, "posts", "input.id"}}},
	}
	// UpdateDetails is Mutation.updatePost without a title, content and tags, which searches find.
	UpdateDetails = Field{
		Price: Price{Each: 33.8, FeedPartition: 10.3, OptionalKB: 1.3}, Later: Later{Each: 31},
		Access: Access{store.WritePost, []Request{
			{cosmos.KindPointRead, "posts", "input.id"}, {cosmos.KindPatch, "posts", "input.id"},
			{cosmos.KindPatch, "users", Viewer}, {cosmos.KindPatch, "feed", EachFeedPartition},
			// of a post with tags
			{cosmos.KindPointRead, "users", Viewer}, {cosmos.KindReplace, "users", Viewer},
			{cosmos.KindPointRead, "feed", EachFeedPartition}, {cosmos.KindReplace, "feed", EachFeedPartition},
		}},
	}
	// CreateDraft is Mutation.createPost of a draft.
	CreateDraft = Field{
		Price: Price{Each: 9.7, KB: .2, Key: 2}, Later: Later{Each: 1.2},
		Access: Access{store.CreateDraft, []Request{
			{cosmos.KindQuery, "users", Viewer}, {cosmos.KindCreate, "users", Viewer},
		}},
	}
)

// ofViewer is the totalCount of a list of the viewer's own.
var ofViewer = Field{
	Price:  Price{Each: 2.3},
	Access: Access{store.PostCount, []Request{{cosmos.KindQuery, "users", Viewer}}},
}

// totals describes PostConnection.totalCount, by the list.
var totals = map[string]Field{
	"Query.feed": {
		Price: Price{Each: 2},
		Access: Access{store.FeedCount, []Request{
			{cosmos.KindPointRead, "feed", Timelines}, {cosmos.KindPointRead, "feed", MonthOfAll},
		}},
	},
	"Query.archive": {
		Price:  Price{Each: 1},
		Access: Access{store.MonthCount, []Request{{cosmos.KindPointRead, "feed", Month}}},
	},
	"Tag.posts":       {}, // the tag has it
	"User.home":       {}, // null
	"User.drafts":     ofViewer,
	"User.bookmarks":  ofViewer,
	"User.likedPosts": ofViewer,
}

// TotalOf describes the totalCount of a list of posts: a field of a type.
func TotalOf(typ, field string) Field {
	if total, ok := totals[typ+"."+field]; ok {
		return total
	}
	return Lookup("PostConnection", "totalCount")
}

// Table describes the fields of the schema, by type and name. A field without an entry costs nothing, because its value
// is part of the item of its object. A mutation without a rule cannot be executed.
//
// The prices are the charges of the embedded engine for posts of 1,350 characters, comments of
// 200 and full pages (BenchmarkAccessPattern); TestPredictedCost compares them. The authors of writes are cached.
var Table = withPostTexts(map[string]map[string]Field{
	"Query": {
		"user": { // Q1
			Price:  Price{Each: 1},
			Access: Access{store.OneUser, []Request{{cosmos.KindPointRead, "users", "id"}}},
		},
		"viewer": { // Q1
			Price:  Price{Each: 1},
			Access: Access{store.OneUser, []Request{{cosmos.KindPointRead, "users", Viewer}}},
		},
		"userByUsername": { // the reservation, and Q1
			Price: Price{Each: 2},
			Access: Access{store.ByUsername, []Request{
				{cosmos.KindPointRead, "users", "username"}, {cosmos.KindPointRead, "users", Owner},
			}},
		},
		"post": { // Q2
			Price:  Price{Each: 1.03},
			Access: Access{store.OnePost, []Request{{cosmos.KindPointRead, "posts", "id"}}},
		},
		"postBySlug": { // Q2
			Price:  Price{Each: 1.03},
			Access: Access{store.OnePost, []Request{{cosmos.KindPointRead, "posts", "slug"}}},
		},
		"renderMarkdown": { // that of createPost
			Price: Price{Each: 18.5, Long: 6.5, KB: RenderingKB, Work: true}, MaxBytes: blog.MaxContent * HTMLBytes,
		},
		"node": {Price: Price{Each: 1}}, // a point read, whatever it is
		"feed": { // Q6
			Price:  Price{Each: 2.38, Item: .044},
			Access: Access{store.Feed, []Request{{cosmos.KindQuery, "feed", OneFeedPartition}}},
		},
		"months": {
			Price: Price{Each: 2},
			Access: Access{store.Months, []Request{
				{cosmos.KindPointRead, "feed", Timelines}, {cosmos.KindPointRead, "feed", MonthOfAll},
			}},
		},
		"archive": {
			Price: Price{Each: 4.65, Item: .12},
			Access: Access{store.Archive, []Request{
				{cosmos.KindQuery, "feed", Month}, {cosmos.KindReadMany, "posts", EachPost},
			}},
		},
		"tag": {
			Price:  Price{Each: 1},
			Access: Access{store.OneTag, []Request{{cosmos.KindPointRead, "feed", Timelines}}},
		},
		"tags": {
			Price:  Price{Each: 2.26, Item: .005},
			Access: Access{store.TopTags, []Request{{cosmos.KindQuery, "feed", Timelines}}},
		},
		"search": { // by relevance, in a blog with a few hundred posts that match: see cost.Blog
			Price: Price{Each: 9, Item: .19},
			Access: Access{store.SearchPosts, []Request{
				{cosmos.KindPointRead, "feed", Timelines},
				{cosmos.KindQuery, "search", EachDecade}, // of statistics; newest first it is not sent
				{cosmos.KindQuery, "search", EachDecade}, {cosmos.KindReadMany, "posts", EachPost},
			}},
		},
	},
	"Tag": {
		"posts": {
			Price: Price{Each: 4.65, Item: .12},
			Access: Access{store.TagPosts, []Request{
				{cosmos.KindQuery, "feed", MonthOfTag}, {cosmos.KindReadMany, "posts", EachPost},
			}},
		},
	},
	"User": {
		"posts": { // Q3
			Price:  Price{Each: 2.34, Item: .044},
			Access: Access{store.UserPosts, []Request{{cosmos.KindQuery, "users", Object}}},
		},
		"drafts": { // like Q3, but of items with texts
			Price:  Price{Each: 2.34, Item: .11},
			Access: Access{store.Drafts, []Request{{cosmos.KindQuery, "users", Viewer}}},
		},
		"bookmarks": {
			Price: Price{Each: 4.65, Item: .12},
			Access: Access{store.Bookmarks, []Request{
				{cosmos.KindQuery, "users", Viewer}, {cosmos.KindReadMany, "posts", EachPost},
			}},
		},
		"likedPosts": { // and the likes
			Price: Price{Each: 4.65, Item: .145},
			Access: Access{store.LikedPosts, []Request{
				{cosmos.KindQuery, "users", Viewer}, {cosmos.KindReadMany, "posts", EachPost},
			}},
		},
		"home": { // of a viewer who follows 100 authors
			Price: Price{Each: 6.6, Item: .12},
			Access: Access{store.Home, []Request{
				{cosmos.KindQuery, "users", Viewer}, {cosmos.KindReadMany, "posts", EachPost},
			}},
		},
		"postCount": {
			Price:  Price{Each: 2.3},
			Access: Access{store.PostCount, []Request{{cosmos.KindQuery, "users", Object}}},
		},
		"followers": { // like Q5
			Price:  Price{Each: 2.30, Item: .0235},
			Access: Access{store.Followers, []Request{{cosmos.KindQuery, "users", Object}}},
		},
		"following": {
			Price: Price{Each: 4.6, Item: .05},
			Access: Access{store.Following, []Request{
				{cosmos.KindQuery, "users", Object}, {cosmos.KindReadMany, "users", EachUser},
			}},
		},
		"followerCount": {
			Price:  Price{Batch: &Users, Keys: PerSummary},
			Access: Access{store.ManyUsers, []Request{{cosmos.KindReadMany, "users", Object}}},
		},
		"followingCount": {
			Price:  Price{Batch: &Users, Keys: PerSummary},
			Access: Access{store.ManyUsers, []Request{{cosmos.KindReadMany, "users", Object}}},
		},
		"viewerFollows": {
			Price:  Price{Batch: &Follows, Keys: PerObject},
			Access: Access{store.ManyFollows, []Request{{cosmos.KindReadMany, "users", Object}}},
		},
		"displayName": {MaxBytes: blog.MaxDisplayName * TextBytes},
		"avatarUrl":   {MaxBytes: blog.MaxAvatarURL},
		"bio": {
			Price: Price{Batch: &Users, Keys: PerSummary}, MaxBytes: blog.MaxBio * TextBytes,
			Access: Access{store.ManyUsers, []Request{{cosmos.KindReadMany, "users", Object}}},
		},
		"createdAt": {
			Price:  Price{Batch: &Users, Keys: PerSummary},
			Access: Access{store.ManyUsers, []Request{{cosmos.KindReadMany, "users", Object}}},
		},
	},
	"PostConnection": {
		"edges": {Summary: true},
		"totalCount": { // of a user's posts, see TotalOf
			Price:  Price{Each: 2.3},
			Access: Access{store.PostCount, []Request{{cosmos.KindQuery, "users", Object}}},
		},
	},
	"UserConnection":   {"edges": {Summary: true}}, // of followers; the users of following are whole
	"SearchConnection": {"edges": {Summary: true}},
	"Snippet":          {"text": {MaxBytes: maxSnippet * TextBytes}, "matches": {MaxBytes: maxSnippet * 4}},
	"Post": {
		"comments": { // Q4
			Price:  Price{Each: 2.32, Item: .037},
			Access: Access{store.Comments, []Request{{cosmos.KindQuery, "posts", Object}}},
		},
		"likes": { // Q5
			Price:  Price{Each: 2.30, Item: .0235},
			Access: Access{store.Likes, []Request{{cosmos.KindQuery, "posts", Object}}},
		},
		"content": {
			Price: Price{Batch: &Posts, Keys: PerSummary}, MaxBytes: blog.MaxContent * TextBytes,
			Access: Access{store.ManyPosts, []Request{{cosmos.KindReadMany, "posts", Object}}},
		},
		"viewerHasLiked": {
			Price:  Price{Batch: &Liked, Keys: PerObject},
			Access: Access{store.ManyLikes, []Request{{cosmos.KindReadMany, "posts", Object}}},
		},
		"viewerHasBookmarked": {
			Price:  Price{Batch: &Bookmarked, Keys: PerObject},
			Access: Access{store.ManyBookmarks, []Request{{cosmos.KindQuery, "users", Viewer}}}, // by their ids
		},
		"contentHtml": {
			Price: Price{Batch: &Posts, Keys: PerSummary}, MaxBytes: blog.MaxContent * HTMLBytes,
			Access: Access{store.ManyPosts, []Request{{cosmos.KindReadMany, "posts", Object}}},
		},
		"slug":    {MaxBytes: maxSlug},
		"excerpt": {MaxBytes: blog.ExcerptLength * TextBytes},
		"tags":    {MaxBytes: blog.MaxTags * (blog.MaxTagLength + 1) * TextBytes},
		"author":  {Summary: true},
	},
	"CoverImage": {"url": {MaxBytes: blog.MaxCoverURL}, "alt": {MaxBytes: blog.MaxCoverAlt * TextBytes}},
	"Upload":     {"url": {MaxBytes: 2000}},
	"Comment": {
		"post": {
			Price:  Price{Batch: &Posts, Keys: PerParent},
			Access: Access{store.ManyPosts, []Request{{cosmos.KindReadMany, "posts", Object}}},
		},
		"content":     {MaxBytes: blog.MaxComment * TextBytes},
		"contentHtml": {MaxBytes: blog.MaxComment * HTMLBytes},
		"author":      {Summary: true},
	},
	"Like": {
		"post": {
			Price:  Price{Batch: &Posts, Keys: PerParent},
			Access: Access{store.ManyPosts, []Request{{cosmos.KindReadMany, "posts", Object}}},
		},
		"user": {Summary: true},
	},
	"Mutation": {
		"createUser": { // C1
			Price: Price{Each: 13.8, Key: 0.8}, Rule: []Relation{Self},
			Later: Later{Each: 7},
			Access: Access{store.WriteUser, []Request{
				{cosmos.KindPointRead, "users", Viewer}, {cosmos.KindCreate, "users", "input.username"},
				{cosmos.KindCreate, "users", Viewer}, {cosmos.KindBatch, "users", "input.username"},
			}},
		},
		"updateUser": { // C1
			Price: Price{Each: 41.2}, Rule: []Relation{Self},
			Later: Later{Each: 3, Job: 65, Post: 38, Other: 13, Follow: 13},
			Access: Access{store.WriteUser, []Request{
				{cosmos.KindPointRead, "users", Viewer}, {cosmos.KindCreate, "users", "input.username"},
				{cosmos.KindPointRead, "users", OldUsername}, {cosmos.KindPatch, "users", OldUsername},
				{cosmos.KindPatch, "users", Viewer}, {cosmos.KindBatch, "users", "input.username"},
				{cosmos.KindPatch, "users", OldUsername},
			}},
		},
		"deleteUser": {
			Price: Price{Each: 11.3}, Rule: []Relation{Self, Moderator},
			Later: Later{Each: 130, Tag: 15, Post: 66, Other: 37, Below: 8, Follow: 28},
			Access: Access{store.DeleteUser, []Request{
				{cosmos.KindPointRead, "users", Viewer}, {cosmos.KindPatch, "users", Viewer},
			}},
		},
		"createUpload": {Price: Price{Each: 1, Work: true}, Rule: []Relation{Anyone}}, // it lists the user's files
		"createPost": { // C2
			Price: Price{Each: 26.4, FeedPartition: 5.5, Long: 6.5, KB: .68, OptionalKB: 1.1, Key: 1},
			Later: Later{Each: 50, Tag: 35}, Rule: []Relation{Anyone},
			Access: Access{store.WritePost, []Request{
				{cosmos.KindCreate, "posts", New}, {cosmos.KindCreate, "users", Viewer},
				{cosmos.KindCreate, "feed", EachFeedPartition}, {cosmos.KindCreate, "search", Decade},
			}},
		},
		"publishPost": { // C2, and the writes of the draft
			Price: Price{Each: 48, FeedPartition: 5.5}, Rule: []Relation{Self},
			Later: Later{Each: 62},
			Access: Access{store.PublishPost, []Request{
				{cosmos.KindPatch, "users", Viewer},
				{cosmos.KindCreate, "posts", "input.id"}, {cosmos.KindCreate, "users", Viewer},
				{cosmos.KindCreate, "feed", EachFeedPartition}, {cosmos.KindCreate, "search", Decade},
				{cosmos.KindDelete, "users", Viewer},
			}},
		},
		"updatePost": { // C2
			Price: Price{Each: 46.8, FeedPartition: 10.3, Long: 6.5, KB: .68, OptionalKB: 1.3},
			Later: Later{Each: 19, Tag: 45}, Rule: []Relation{Author},
			Access: Access{store.WritePost, []Request{
				{cosmos.KindPointRead, "posts", "input.id"}, {cosmos.KindPatch, "posts", "input.id"},
				{cosmos.KindPatch, "users", Viewer}, {cosmos.KindPatch, "feed", EachFeedPartition},
				{cosmos.KindPatch, "search", Decade},
				// of a post with tags
				{cosmos.KindPointRead, "users", Viewer}, {cosmos.KindReplace, "users", Viewer},
				{cosmos.KindPointRead, "feed", EachFeedPartition}, {cosmos.KindReplace, "feed", EachFeedPartition},
			}},
		},
		"deletePost": {
			Price: Price{Each: 49, FeedPartition: 11.3}, Rule: []Relation{Author, Moderator},
			Later: Later{Each: 70, Tag: 65, Below: 7},
			Access: Access{store.DeletePost, []Request{
				{cosmos.KindPointRead, "posts", "input.id"}, {cosmos.KindReplace, "posts", "input.id"},
				{cosmos.KindPointRead, "users", Viewer}, {cosmos.KindReplace, "users", Viewer},
				{cosmos.KindPointRead, "feed", EachFeedPartition}, {cosmos.KindReplace, "feed", EachFeedPartition},
				{cosmos.KindReplace, "search", Decade},
				{cosmos.KindQuery, "posts", "input.id"}, {cosmos.KindBatch, "posts", "input.id"},
			}},
		},
		"createComment": { // C3
			Price: Price{Each: 18.6}, Rule: []Relation{Anyone},
			Later:  Later{Each: 25.5},
			Access: Access{store.CreateComment, []Request{{cosmos.KindBatch, "posts", "input.postId"}}},
		},
		"updateComment": {
			Price: Price{Each: 11.3}, Rule: []Relation{Author},
			Later: Later{Each: 2.5},
			Access: Access{store.EditComment, []Request{
				{cosmos.KindPointRead, "posts", "input.id"}, {cosmos.KindPatch, "posts", "input.id"},
			}},
		},
		"deleteComment": {
			Price: Price{Each: 23.9}, Rule: []Relation{Author, Moderator},
			Later: Later{Each: 26.5},
			Access: Access{store.DeleteComment, []Request{
				{cosmos.KindPointRead, "posts", "input.id"}, {cosmos.KindBatch, "posts", "input.id"},
			}},
		},
		"likePost": { // C4
			Price: Price{Each: 18.6}, Rule: []Relation{Anyone},
			Later:  Later{Each: 36},
			Access: Access{store.LikePost, []Request{{cosmos.KindBatch, "posts", "input.postId"}}},
		},
		"unlikePost": { // C4
			Price: Price{Each: 18.7}, Rule: []Relation{Self},
			Later:  Later{Each: 34},
			Access: Access{store.UnlikePost, []Request{{cosmos.KindBatch, "posts", "input.postId"}}},
		},
		"bookmarkPost": {
			Price: Price{Each: 7.2}, Rule: []Relation{Anyone},
			Later: Later{Each: 1},
			Access: Access{store.BookmarkPost, []Request{
				{cosmos.KindPointRead, "posts", "input.id"}, {cosmos.KindQuery, "users", Viewer}, // now and then
				{cosmos.KindCreate, "users", Viewer},
			}},
		},
		"removeBookmark": {
			Price: Price{Each: 7.2}, Rule: []Relation{Self},
			Later: Later{Each: 1},
			Access: Access{store.RemoveBookmark, []Request{
				{cosmos.KindDelete, "users", Viewer}, {cosmos.KindPointRead, "posts", "input.id"},
			}},
		},
		"followUser": {
			Price: Price{Each: 17.2}, Rule: []Relation{Anyone},
			Later:  Later{Each: 29},
			Access: Access{store.FollowUser, []Request{{cosmos.KindBatch, "users", "input.id"}}},
		},
		"unfollowUser": {
			Price: Price{Each: 21.4}, Rule: []Relation{Self},
			Later:  Later{Each: 35},
			Access: Access{store.UnfollowUser, []Request{{cosmos.KindBatch, "users", "input.id"}}},
		},
	},
})

// withPostTexts returns the table with the texts of posts that may be long.
func withPostTexts(table map[string]map[string]Field) map[string]map[string]Field {
	for _, t := range blog.PostTexts {
		if t.Input != "" {
			continue // not a field
		}
		table["Post"][t.Name] = Field{MaxBytes: float64(t.Max * TextBytes)}
	}
	return table
}
