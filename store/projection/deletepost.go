package projection

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/jobs"
	"byline/store/stored"
)

// deletion is one unit of a job that deletes items.
type deletion struct {
	*base
	count   atomic.Int64 // of deleted items
	partial atomic.Bool  // items that can be deleted remain

	youngFiles bool // files remain that something may be about to use
}

const (
	deletionUnit = time.Second // after this a unit does not start on another partition

	contentionWait = 100 * time.Millisecond // wait after a unit without progress because of concurrent writes
)

// ownedItem is an item of a deleted user or post, in any container.
type ownedItem struct {
	ID        string      `json:"id"`
	Type      any         `json:"type"`
	PostID    any         `json:"postId"`
	Decade    any         `json:"decade"`
	UserID    any         `json:"userId"`
	Deleted   any         `json:"deleted"`
	CreatedAt any         `json:"creationDate"`
	ETag      cosmos.ETag `json:"_etag"`
}

// postDeletions deletes what belongs to deleted posts.
type postDeletions struct {
	*base
	entries timelineEntries
	files   *fileDeletions
}

// delete does a unit of deletePostJob: a unit deletes some of the items of a deleted post, and the last one its
// entries in timelines and its files. It needs no position, as the query does not find deleted items.
func (p *postDeletions) delete(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	const op = "delete what belonged to a post"
	if !blog.ValidID(j.Subject) {
		return jobs.Step{Done: true}, nil
	}
	d := &deletion{base: p.base}
	// With the session token of this response, the query of deleteItems sees the latest items.
	raw, err := p.posts.ReadPrimary(ctx, stored.Key(j.Subject, j.Subject))
	if err != nil {
		return jobs.Step{}, stored.Error(op, err)
	}
	partial, err := d.deleteItems(ctx, p.posts, j.Subject, time.Now().Add(deletionUnit))
	if !partial && err == nil && raw != nil {
		partial, err = d.deleteEntriesAndFiles(ctx, p, raw)
	}
	step := jobs.Step{Items: int(d.count.Load()), Done: !partial && err == nil}
	switch {
	case d.youngFiles:
		step.Wait = blog.MaxWriteTime
	case partial && step.Items == 0:
		step.Wait = contentionWait
	}
	return step, stored.Error(op, err)
}

// update deletes a page of the items of a post that was just deleted; the job deletes the rest.
func (p *postDeletions) update(ctx context.Context, postID string) error {
	_, err := (&deletion{base: p.base}).deleteItems(ctx, p.requests.posts, postID, time.Now())
	return err
}

// deleteEntriesAndFiles deletes the entries of a deleted post in timelines, and the files that no other post uses.
// Then it deletes the tags and files of its tombstone, by which they were found. It reports whether to
// repeat it: the tombstone has changed meanwhile, or there are young files.
func (d *deletion) deleteEntriesAndFiles(ctx context.Context, p *postDeletions, raw []byte) (again bool, err error) {
	const op = "delete entries and files of a post"
	post, err := blog.DecodePostOrTombstone(op, raw)
	if err != nil {
		p.skip(p.posts.Name(), raw, err)
		return false, nil
	}
	if !post.Tombstone {
		return false, nil
	}
	keys := allEntryKeys(post)
	if err := p.entries.delete(ctx, keys); err != nil {
		return false, err
	}
	n, young, err := p.files.deleteOf(ctx, post)
	d.count.Add(int64(n))
	if d.youngFiles = young; young || err != nil || len(keys) == 1 && len(post.Files) == 0 {
		return young, err
	}
	post.Revision++
	post.Username = ""
	tombstone := blog.Encode(blog.NewPostTombstone(post))
	_, err = p.posts.Replace(ctx, stored.Key(post.ID, post.ID), tombstone, stored.ETagOf(raw))
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return true, nil
	}
	return false, stored.Error(op, p.skipRefused(p.posts, post.ID, err))
}

// deleteItems deletes comments, likes and the text of a deleted post from the posts container, until the end
// of the unit. It reports whether items that can be deleted remain.
func (d *deletion) deleteItems(
	ctx context.Context, c *cosmos.Container, postID string, end time.Time,
) (partial bool, err error) {
	rejected := map[string]bool{}
	for {
		found, err := readPages[ownedItem](ctx, "find what belongs to a post", c, cosmos.Query{Partition: postID,
			Text: "SELECT TOP 100 c.id FROM c WHERE c.postId = @post AND c.type IN ('comment', 'like', 'text', " +
				"'deletedComment', 'deletedText')"}.With("@post", postID))
		if err != nil {
			return true, err
		}
		found = slices.DeleteFunc(found, func(i ownedItem) bool { return rejected[i.ID] })
		if len(found) == 0 {
			return false, nil
		}
		if err := d.deleteBatch(ctx, c, postID, found, rejected); err != nil {
			return true, err
		}
		if d.partial.Load() || !time.Now().Before(end) {
			return true, nil
		}
	}
}

// deleteBatch deletes up to 100 items of a partition in one transactional batch, or one by one if Cosmos DB
// refuses the batch. It deletes nothing if an item is deleted concurrently. It adds the ids of refused items
// to rejected.
func (d *deletion) deleteBatch(
	ctx context.Context, c *cosmos.Container, partition string, items []ownedItem, rejected map[string]bool,
) error {
	if len(items) == 0 {
		return nil
	}
	if blog.Addressable(partition) {
		b := cosmos.Batch{NoItems: true}
		for _, item := range items {
			b.Delete(item.ID)
		}
		r, err := c.Batch(ctx, partition, &b)
		switch {
		case err == nil && r.Failed < 0:
			d.count.Add(int64(len(items)))
			return nil
		case err == nil:
			d.partial.Store(true)
			return nil
		case !refused(err):
			return err
		}
	}
	for _, item := range items {
		item.ETag = ""
		before := d.count.Load()
		if err := d.deleteOne(ctx, c, partition, item); err != nil {
			return err
		}
		rejected[item.ID] = d.count.Load() == before
	}
	return nil
}

// deleteOne deletes an item, or skips it if it cannot be deleted.
func (d *deletion) deleteOne(ctx context.Context, c *cosmos.Container, partition string, item ownedItem) error {
	if !blog.Addressable(partition) || !blog.Addressable(item.ID) {
		d.skipID(c.Name(), item.ID,
			fmt.Errorf("item %q in partition %q, which is to be deleted, cannot be addressed", item.ID, partition))
		return nil
	}
	err := c.Delete(ctx, stored.Key(partition, item.ID), item.ETag)
	switch {
	case cosmos.HasStatus(err, http.StatusPreconditionFailed):
		d.partial.Store(true)
		return nil
	case cosmos.HasStatus(err, http.StatusNotFound):
		err = nil
	}
	if err == nil {
		d.count.Add(1)
	}
	return d.skipRefused(c, item.ID, err)
}
