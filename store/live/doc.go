// Package live turns the change feed of posts into streams of events: new posts, changes of a post, new comments of a
// post. All streams of a process share one reader of the change feed. Of its store it needs a tail of the posts,
// whether an item is hidden, and a read of a post.
package live
