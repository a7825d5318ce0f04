package store

import (
	"context"
	"iter"
	"net/http"
	"slices"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/projection"
	"byline/store/stored"
	"byline/store/username"
)

// Thread is a post with its comments and likes. Counts and usernames must be correct: Import does not look
// them up.
type Thread struct {
	Post     *blog.Post
	Comments []*blog.Comment
	Likes    []*blog.Like
}

// importer writes the threads of bulk loads.
type importer struct {
	*base
	names *username.Names
}

// Import is for bulk loads: it writes a user and the threads of the user's posts unchanged, with ids and
// dates, and the posts' summaries in the user's partition, entries in timelines, search items and views of likes. Call
// ImportFeed afterwards.
//
// The items of a partition go into as few transactional batches as possible. Existing items are kept, so an
// interrupted import can be repeated. The reservation of the name is written last: once it exists, Import
// does nothing. Conflict (Field is "username") if another user has the name.
func (i *importer) Import(ctx context.Context, u *blog.User, threads iter.Seq[Thread]) error {
	const op = "import user"
	reservation, _, err := i.names.Read(ctx, op, u.Username)
	if err != nil {
		return err
	}
	if reservation != nil {
		if err := checkOwner(op, reservation, u); err != nil || reservation.CreatedAt == u.CreatedAt {
			return err
		}
	}
	var posts []*blog.Post
	liked := map[string][][]byte{} // by user
	items := [][]byte{
		blog.Encode(blog.UserItem{Envelope: blog.Envelope{Type: blog.TypeUser}, ItemID: u.UserID, User: *u})}
	for t := range threads {
		below := t.items()
		there, conflict, err := i.posts.CreateAll(ctx, t.Post.ID, below)
		if err != nil {
			return stored.Error("import post", err)
		}
		if (there || conflict) && len(below) > cosmos.MaxBatch { // the post may have been changed between the batches
			err := i.views.Repair(ctx,
				projection.Difference{Kind: projection.Count, Partition: t.Post.ID, ID: t.Post.ID})
			if blog.CodeOf(err) == blog.Conflict { // left to verify
				i.o.Logger.Warn("counts of an imported post not repaired", "post", t.Post.ID, "error", err)
			} else if err != nil {
				return err
			}
		}
		posts = append(posts, t.Post)
		likes := t.Likes
		if there || conflict { // another load may have written other likes
			if likes, err = i.likesThere(ctx, t); err != nil {
				return err
			}
		}
		for _, l := range likes {
			liked[l.UserID] = append(liked[l.UserID], blog.Encode(l.Liked()))
		}
		items = append(items, blog.Encode(t.Post.Summary()))
	}
	oneByOne := reservation != nil // the user exists without these posts
	if !oneByOne {
		if _, oneByOne, err = i.users.CreateAll(ctx, u.UserID, items); err != nil { // a projection was faster
			return stored.Error(op, err)
		}
	}
	if oneByOne {
		for _, p := range posts {
			if err := projection.WriteSummary(ctx, i.users, u.UserID, p); err != nil {
				return err
			}
		}
		if _, _, err := i.users.CreateAll(ctx, u.UserID, items[:1]); err != nil {
			return stored.Error(op, err)
		}
	}
	if err := i.views.ProjectTimelines(ctx, posts...); err != nil {
		return err
	}
	if err := i.views.ProjectSearch(ctx, posts...); err != nil {
		return err
	}
	if err := i.importLiked(ctx, liked); err != nil {
		return err
	}
	if have, err := stored.ReadUser(ctx, "import user", i.users, u.UserID); err != nil || have != nil &&
		have.Username != u.Username {
		return err // renamed since
	}
	k := username.Key(u.Username)
	mine := username.New(u.UserID, u.Username, u.CreatedAt)
	err = i.users.Create(ctx, k, blog.Encode(mine))
	if cosmos.HasStatus(err, http.StatusConflict) { // reserved meanwhile
		have, etag, readErr := i.names.Read(ctx, op, u.Username)
		if readErr != nil {
			return readErr
		}
		if have != nil {
			if err := checkOwner(op, have, u); err != nil {
				return err
			}
			_, err = i.names.Replace(ctx, have, etag, mine)
		}
	}
	return stored.Error(op, err)
}

// likesThere reads the likes of a thread that exist.
func (i *importer) likesThere(ctx context.Context, t Thread) ([]*blog.Like, error) {
	var users []string
	for _, l := range t.Likes {
		users = append(users, l.UserID)
	}
	likes, err := stored.ReadAll(ctx, "import likes", i.posts, users,
		func(userID string) cosmos.Key { return stored.Key(t.Post.ID, blog.LikeID(userID)) },
		blog.DecodeLike, func(l *blog.Like) string { return l.UserID })
	return slices.DeleteFunc(likes, func(l *blog.Like) bool { return l == nil }), err
}

// importLiked creates the views of likes in the partitions of their users.
func (i *importer) importLiked(ctx context.Context, byUser map[string][][]byte) error {
	for userID, items := range byUser {
		exists, conflict, err := i.users.CreateAll(ctx, userID, items)
		if exists || conflict { // some were created before
			for _, item := range items {
				if err = i.users.Create(ctx, userID, item); cosmos.HasStatus(err, http.StatusConflict) {
					err = nil
				}
				if err != nil {
					break
				}
			}
		}
		if err != nil {
			return stored.Error("import likes", err)
		}
	}
	return nil
}

// items returns the items of the post's partition.
func (t *Thread) items() [][]byte {
	items := make([][]byte, 0, 2+len(t.Comments)+len(t.Likes))
	post, text := blog.NewPostItem(t.Post)
	if items = append(items, blog.Encode(post)); text != nil {
		items = append(items, blog.Encode(text))
	}
	for _, c := range t.Comments {
		items = append(items,
			blog.Encode(blog.CommentItem{Envelope: blog.Envelope{Type: blog.TypeComment}, Comment: *c}))
	}
	for _, l := range t.Likes {
		items = append(items, blog.Encode(blog.LikeItem{Envelope: blog.Envelope{Type: blog.TypeLike},
			ID: blog.LikeID(l.UserID), Like: *l}))
	}
	return items
}

func checkOwner(op string, r *username.Reservation, u *blog.User) error {
	if r.OwnerID != u.UserID {
		return &blog.Error{Code: blog.Conflict, Op: op, Field: "username", Reason: blog.ReasonTaken,
			Message: "another user has the username " + u.Username}
	}
	return nil
}

// ImportFeed writes imported posts into the feed, which keeps the newest. The newest
// blog.FeedKept of all imports must be among them. If the feed is not full, older posts are
// added. Afterwards the views of the imported posts are complete; the projections need not handle them:
// see projection.Views.BeginLoad.
func (i *importer) ImportFeed(ctx context.Context, posts []*blog.Post) error {
	return i.views.ProjectFeed(ctx, posts)
}
