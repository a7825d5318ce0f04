package store

import (
	"byline/store/cosmos"
	"byline/store/deletion"
)

// The access patterns: the article's ten, and those that it omits. Projections have their own.
const (
	Q1 cosmos.Pattern = "Q1" // a user
	Q2 cosmos.Pattern = "Q2" // a post
	Q3 cosmos.Pattern = "Q3" // a user's posts
	Q4 cosmos.Pattern = "Q4" // a post's comments
	Q5 cosmos.Pattern = "Q5" // a post's likes
	Q6 cosmos.Pattern = "Q6" // the feed
	C1 cosmos.Pattern = "C1" // create or edit a user
	C2 cosmos.Pattern = "C2" // create or edit a post
	C3 cosmos.Pattern = "C3" // create a comment
	C4 cosmos.Pattern = "C4" // like a post

	PostCount     cosmos.Pattern = "postCount"      // how many posts a user has
	UserItems     cosmos.Pattern = "userItems"      // how many items a rename or deletion of a user writes
	FeedCount     cosmos.Pattern = "feedCount"      // how many posts there are
	ByUsername    cosmos.Pattern = "byUsername"     // a user by name
	ManyUsers     cosmos.Pattern = "manyUsers"      // several users at once
	ManyPosts     cosmos.Pattern = "manyPosts"      // several posts at once
	ManyLikes     cosmos.Pattern = "manyLikes"      // whether a user likes each of several posts
	OneComment    cosmos.Pattern = "oneComment"     // a comment
	OneTag        cosmos.Pattern = "oneTag"         // a tag
	TagPosts      cosmos.Pattern = "tagPosts"       // a tag's posts
	TopTags       cosmos.Pattern = "topTags"        // the most used tags
	OneLike       cosmos.Pattern = "oneLike"        // a like
	DeleteUser                   = deletion.Pattern // without the user's items
	DeletePost    cosmos.Pattern = "deletePost"     // with its comments and likes
	EditComment   cosmos.Pattern = "editComment"
	CreateDraft   cosmos.Pattern = "createDraft"
	PublishPost   cosmos.Pattern = "publishPost"
	Drafts        cosmos.Pattern = "drafts"     // a user's drafts
	ManyDrafts    cosmos.Pattern = "manyDrafts" // drafts by id
	DeleteComment cosmos.Pattern = "deleteComment"
	UnlikePost    cosmos.Pattern = "unlikePost"
	Subscribe     cosmos.Pattern = "subscribe" // whether the post of a subscription exists

	Export    cosmos.Pattern = "export"    // everything about a user
	Readiness cosmos.Pattern = "readiness" // readiness, and whether there are users
)

// patterns lists all access patterns.
var patterns = []cosmos.Pattern{
	Q1, Q2, Q3, Q4, Q5, Q6, C1, C2, C3, C4,
	PostCount, UserItems, FeedCount, ByUsername, ManyUsers, ManyPosts, ManyLikes, OneComment, OneLike, OneTag, TagPosts,
	TopTags, DeleteUser, DeletePost, EditComment, DeleteComment, UnlikePost, Subscribe,
	CreateDraft, PublishPost, Drafts, ManyDrafts,
	Export, Readiness,
}
