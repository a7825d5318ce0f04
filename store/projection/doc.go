// Package projection maintains the denormalized views of the blog: summaries of posts in their
// authors' partitions and in the feed, timelines and tags, search items, bylines on posts, comments,
// likes and follows, follows in the partitions of the followers, and the reservations of usernames.
//
// Run applies the changes of posts and users, which changefeed delivers at least once and in order per
// feed range. Every write of a view is conditional on the revision, so that repeated and late changes
// do no harm. Long work is done by jobs, which Run executes beside the changes: changes of bylines, and
// the deletions of users and of the items that belong to a deleted post. UpdateViews is for writers:
// it updates the views of a post before its author gets the response. Verify compares all views with
// their sources, Repair fixes one difference, Rebuild replays the change feed. BeginLoad is for bulk loads
// that write the views themselves.
//
// New does no I/O. Every error that leaves the package is a *blog.Error.
package projection
