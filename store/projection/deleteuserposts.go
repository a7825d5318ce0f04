package projection

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// deletePosts deletes a page of the user's posts, comments and likes.
func (d *userDeletion) deletePosts(ctx context.Context, continuation string) (next string, err error) {
	end := time.Now().Add(deletionUnit)
	items, next, err := d.page(ctx, d.posts, cosmos.Query{AllPartitions: true, Continuation: continuation,
		Text: "SELECT c.id, c.type, c.postId, c.deleted, c.creationDate, c._etag FROM c WHERE c.userId = @user"})
	if err != nil {
		return "", err
	}
	byPost := map[string][]ownedItem{}
	var posts []string
	for _, item := range items {
		postID, _ := item.PostID.(string)
		if !blog.Addressable(postID) || !blog.Addressable(item.ID) {
			d.skipID(d.posts.Name(), item.ID,
				fmt.Errorf("item %q of the deleted user %s has an id or postId that cannot be used in a request",
					item.ID,
					d.user.ID))
			continue
		}
		if byPost[postID] == nil {
			posts = append(posts, postID)
		}
		byPost[postID] = append(byPost[postID], item)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, postID := range posts {
		if time.Now().After(end) {
			d.partial.Store(true)
			break
		}
		g.Go(func() error {
			items := byPost[postID]
			if slices.ContainsFunc(items, func(i ownedItem) bool {
				return i.ID == postID || i.Type == blog.TypeText || i.Type == blog.TypeDeletedText
			}) {
				own, err := d.erasePost(gctx, postID, end)
				if own || err != nil {
					return err
				}
			}
			return d.deleteFromPost(gctx, postID, items)
		})
	}
	return next, g.Wait()
}

// erasePost deletes a post of the user with its comments, likes and text, until end. It reports false, and
// does nothing, if the user has no such post.
func (d *userDeletion) erasePost(ctx context.Context, id string, end time.Time) (own bool, err error) {
	tombstone, etag, deleted, err := d.readPost(ctx, id)
	if tombstone == nil || err != nil {
		return false, err
	}
	replace := func() (changed bool, err error) {
		tombstone.Revision++
		etag, err = d.posts.Replace(ctx, stored.Key(id, id), blog.Encode(tombstone), etag)
		if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
			return true, nil
		}
		return false, err
	}
	if deleted { // maybe by another instance
		_, err = d.posts.ReadPrimary(ctx, stored.Key(id, id)) // so that the query sees the latest items
	} else {
		var changed bool
		if changed, err = replace(); changed { // by concurrent likes and comments
			d.partial.Store(true)
			return true, nil
		}
	}
	if err != nil {
		return true, d.skipRefused(d.posts, id, err)
	}
	if partial, err := d.deleteItems(ctx, d.posts, id, end); partial || err != nil {
		d.partial.Store(true)
		return true, err
	}
	tombstone.UserID = ""
	changed, err := replace()
	if err != nil {
		return true, d.skipRefused(d.posts, id, err)
	}
	if changed {
		d.partial.Store(true)
	} else {
		d.count.Add(1)
	}
	return true, nil
}

// readPost returns the tombstone of a post of the user, and whether it is stored already; nil if the post does
// not exist.
func (d *userDeletion) readPost(ctx context.Context, id string) (*blog.PostTombstone, cosmos.ETag, bool, error) {
	r, err := d.posts.Read(ctx, stored.Key(id, id))
	if r.Value == nil || err != nil {
		return nil, "", false, err
	}
	var post struct {
		ownedItem
		Revision any `json:"revision"`
	}
	err = blog.Unmarshal(r.Value, &post, blog.Lenient)
	isPost := post.Type == blog.TypePost || post.Type == blog.TypeDeletedPost
	if err != nil || !isPost || post.UserID != d.user.ID || d.isNew(post.ownedItem) {
		return nil, "", false, nil
	}
	// The tombstone of an erased post has no username.
	t := blog.NewPostTombstone(&blog.Post{ID: id, Byline: blog.Byline{UserID: d.user.ID}, CreatedAt: d.now()})
	if date, _ := post.CreatedAt.(string); blog.ValidDate(date) {
		t.CreatedAt = blog.Date(date)
	}
	if revision, ok := post.Revision.(float64); ok {
		t.Revision = int64(revision)
	}
	return &t, r.ETag, post.Deleted == true, nil
}

// deleteFromPost deletes comments and likes of the user on a post of another, and decrements its counts in the
// same transactional batch. The ETags ensure that each is counted once: a concurrent removal of a comment,
// which makes it a tombstone, decrements the count, too.
func (d *userDeletion) deleteFromPost(ctx context.Context, postID string, items []ownedItem) error {
	for chunk := range slices.Chunk(items, cosmos.MaxBatch-1) {
		if err := d.deleteCounted(ctx, counted{d.posts, postID, Count, uncountFromPost}, chunk); err != nil {
			return err
		}
	}
	return nil
}

// counted is a post or user that counts items in its partition.
type counted struct {
	container *cosmos.Container
	id        string
	kind      Kind                           // of a difference of the counts
	uncount   func([]ownedItem) cosmos.Patch // subtracts items from the counts
}

// deleteCounted deletes items of the user from the partition of a post or user that counts them, in one transactional
// batch.
func (d *userDeletion) deleteCounted(ctx context.Context, of counted, items []ownedItem) error {
	b := cosmos.Batch{NoItems: true}
	for _, item := range items {
		b.DeleteIf(item.ID, item.ETag)
	}
	p := of.uncount(items)
	if p.Changes() > 0 {
		b.Patch(of.id, p)
	}
	r, err := of.container.Batch(ctx, of.id, &b)
	switch {
	case refused(err) && len(items) > 1:
		for i := range items {
			if err := d.deleteCounted(ctx, of, items[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	case refused(err) && p.Changes() > 0: // a count may be malformed
		if err := d.deleteOne(ctx, of.container, of.id, items[0]); err != nil {
			return err
		}
		return d.view.registry.repairAll(ctx, []Difference{{Kind: of.kind, Partition: of.id, ID: of.id}})
	case err != nil:
		return d.skipRefused(of.container, items[0].ID, err)
	case r.Failed < 0:
		d.count.Add(int64(len(items)))
		return nil
	case r.Failed == len(items): // the post or user is missing or deleted
		uncounted := slices.Clone(items)
		for i := range uncounted {
			uncounted[i].Deleted = true
		}
		return d.deleteCounted(ctx, of, uncounted)
	}
	d.partial.Store(true) // changed meanwhile: query again
	return nil
}

// uncountFromPost subtracts comments and likes from the counts of a post that is not deleted.
func uncountFromPost(items []ownedItem) (p cosmos.Patch) {
	p.Condition = "from c where c.type = '" + blog.TypePost + "' AND NOT IS_DEFINED(c.deleted)"
	uncount(&p, items, blog.TypeComment, "/commentCount")
	uncount(&p, items, blog.TypeLike, "/likeCount")
	if p.Changes() > 0 {
		p.Increment("/revision", 1)
	}
	return p
}

// uncount subtracts the items of a type from a count.
func uncount(p *cosmos.Patch, items []ownedItem, typ, count string) {
	var n int64
	for _, item := range items {
		if item.Type == typ && item.Deleted == nil {
			n++
		}
	}
	if n > 0 {
		p.Increment(count, -n)
	}
}
