package store

import (
	"byline/store/cosmos"
	"byline/store/deletion"
)

// The access patterns: the article's ten, with its codes, and those that it omits. Projections have their own.
const (
	OneUser       cosmos.Pattern = "oneUser"       // a user (Q1)
	OnePost       cosmos.Pattern = "onePost"       // a post (Q2)
	UserPosts     cosmos.Pattern = "userPosts"     // a user's posts (Q3)
	Comments      cosmos.Pattern = "comments"      // a post's comments (Q4)
	Likes         cosmos.Pattern = "likes"         // a post's likes (Q5)
	Feed          cosmos.Pattern = "feed"          // the feed (Q6)
	WriteUser     cosmos.Pattern = "writeUser"     // create or edit a user (C1)
	WritePost     cosmos.Pattern = "writePost"     // create or edit a post (C2)
	CreateComment cosmos.Pattern = "createComment" // create a comment (C3)
	LikePost      cosmos.Pattern = "likePost"      // like a post (C4)

	PostCount      cosmos.Pattern = "postCount"      // how many posts a user has
	UserItems      cosmos.Pattern = "userItems"      // how many items a rename or deletion of a user writes
	FeedCount      cosmos.Pattern = "feedCount"      // how many posts there are
	Months         cosmos.Pattern = "months"         // the months that have posts
	MonthCount     cosmos.Pattern = "monthCount"     // how many posts a month has
	Archive        cosmos.Pattern = "archive"        // a month's posts
	ByUsername     cosmos.Pattern = "byUsername"     // a user by name
	ManyUsers      cosmos.Pattern = "manyUsers"      // several users at once
	ManyPosts      cosmos.Pattern = "manyPosts"      // several posts at once
	ManyLikes      cosmos.Pattern = "manyLikes"      // whether a user likes each of several posts
	OneComment     cosmos.Pattern = "oneComment"     // a comment
	OneTag         cosmos.Pattern = "oneTag"         // a tag
	TagPosts       cosmos.Pattern = "tagPosts"       // a tag's posts
	TopTags        cosmos.Pattern = "topTags"        // the most used tags
	SearchPosts    cosmos.Pattern = "search"         // posts that match a query
	OneLike        cosmos.Pattern = "oneLike"        // a like
	DeleteUser                    = deletion.Pattern // without the user's items
	DeletePost     cosmos.Pattern = "deletePost"     // with its comments and likes
	EditComment    cosmos.Pattern = "editComment"
	CreateDraft    cosmos.Pattern = "createDraft"
	CreateUpload   cosmos.Pattern = "createUpload" // whether the user exists
	PublishPost    cosmos.Pattern = "publishPost"
	Drafts         cosmos.Pattern = "drafts"     // a user's drafts
	ManyDrafts     cosmos.Pattern = "manyDrafts" // drafts by id
	DeleteComment  cosmos.Pattern = "deleteComment"
	UnlikePost     cosmos.Pattern = "unlikePost"
	FollowUser     cosmos.Pattern = "followUser"
	UnfollowUser   cosmos.Pattern = "unfollowUser"
	ManyFollows    cosmos.Pattern = "manyFollows" // whether a user follows each of several authors
	Followers      cosmos.Pattern = "followers"   // an author's followers
	Following      cosmos.Pattern = "following"   // the authors whom a user follows
	Home           cosmos.Pattern = "home"        // the posts of the authors whom a user follows
	HomeIndex      cosmos.Pattern = "homeIndex"   // entries of the timeline, for the recency index
	BookmarkPost   cosmos.Pattern = "bookmarkPost"
	RemoveBookmark cosmos.Pattern = "removeBookmark"
	ManyBookmarks  cosmos.Pattern = "manyBookmarks" // whether a user has bookmarked each of several posts
	Bookmarks      cosmos.Pattern = "bookmarks"     // the posts that a user has bookmarked
	LikedPosts     cosmos.Pattern = "likedPosts"    // the posts that a user likes
	Subscribe      cosmos.Pattern = "subscribe"     // whether the post of a subscription exists

	Export    cosmos.Pattern = "export"    // everything about a user
	Readiness cosmos.Pattern = "readiness" // readiness, and whether there are users
)

// patterns lists all access patterns.
var patterns = []cosmos.Pattern{
	OneUser, OnePost, UserPosts, Comments, Likes, Feed, WriteUser, WritePost, CreateComment, LikePost,
	PostCount, UserItems, FeedCount, Months, MonthCount, Archive,
	ByUsername, ManyUsers, ManyPosts, ManyLikes, OneComment, OneLike, OneTag, TagPosts,
	TopTags, SearchPosts, DeleteUser, DeletePost, EditComment, DeleteComment, UnlikePost, Subscribe,
	FollowUser, UnfollowUser, ManyFollows, Followers, Following, Home, HomeIndex,
	BookmarkPost, RemoveBookmark, ManyBookmarks, Bookmarks, LikedPosts,
	CreateDraft, CreateUpload, PublishPost, Drafts, ManyDrafts,
	Export, Readiness,
}
