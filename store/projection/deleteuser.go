package projection

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/jobs"
)

// deletionStages are what a deletion does, in this order. The second pass begins blog.DeletionGrace after
// the user became a tombstone: the continuation of the stage "wait" is when.
var deletionStages = []string{"posts", "summaries", "feed", "wait", "posts-again", "summaries-again", "feed-again", "names"}

const (
	deletionPage = 100         // items of a query
	deletionUnit = time.Second // after which a unit begins with no further partition

	contention = 100 * time.Millisecond // the wait after a unit in which others changed everything
)

// deletion is one unit of a deleteUser job, or of a deletePost job, which has no user.
type deletion struct {
	*Views
	user  userTombstone
	date  string // of the deletion; "-" if it is malformed
	etag  cosmos.ETag
	until blog.Date    // what was created then, or later, is not of the deleted user
	done  atomic.Int64 // items deleted
	left  atomic.Bool  // something of the page is left
}

// userTombstone is a deleted user. What another program has written may have any type.
type userTombstone struct {
	ID           string `json:"id"`
	Type         any    `json:"type"`
	Deleted      any    `json:"deleted"`
	DeletionDate any    `json:"deletionDate"`
}

// written is an item of a deleted user, in any container.
type written struct {
	ID        string      `json:"id"`
	Type      any         `json:"type"`
	PostID    any         `json:"postId"`
	UserID    any         `json:"userId"`
	Deleted   any         `json:"deleted"`
	CreatedAt any         `json:"creationDate"`
	ETag      cosmos.ETag `json:"_etag"`
}

// deleteUser is the work of deleteUserJob: a unit deletes a page of what a user has written, and the last
// one the user, whose item is a tombstone already. A post becomes a tombstone first; once nothing is left
// under it, also the tombstone loses its author. So whatever is left to do is found by the user's id, and
// no crash can hide it. It ends without a write if the user is no tombstone.
func (v *Views) deleteUser(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	d := &deletion{Views: v}
	if deleted, err := d.readUser(ctx, j.Subject); err != nil || !deleted {
		return jobs.Step{Done: err == nil}, err
	}
	stage, continuation := d.at(j.Position)
	var next string
	var err error
	switch deletionStages[stage] {
	case "posts", "posts-again":
		next, err = d.deletePosts(ctx, continuation)
	case "summaries", "summaries-again":
		next, err = d.deleteSummaries(ctx, continuation)
	case "feed", "feed-again":
		next, err = d.deleteFeedEntries(ctx, continuation)
	case "wait":
		if wait := blog.Date(continuation).Time().Sub(d.o.Clock()); wait > 0 {
			return jobs.Step{Position: j.Position, Wait: min(wait, blog.DeletionGrace)}, nil
		}
	default:
		next, err = d.deleteNames(ctx, continuation)
	}
	step := jobs.Step{Items: int(d.done.Load()), Position: j.Position}
	switch {
	case continuation != "" && cosmos.InvalidContinuation(err):
		step.Position = d.position(stage, "")
		return step, nil
	case err != nil:
		return step, blog.CosmosError("delete user", err)
	case d.left.Load():
		if step.Items == 0 { // others are changing it
			step.Wait = contention
		}
	case next != "":
		step.Position = d.position(stage, next)
	case stage == len(deletionStages)-1:
		step.Done = true
	default:
		step.Position = d.position(stage+1, "")
		if deletionStages[stage+1] == "wait" {
			now := d.o.Clock()
			step.Wait = min(max(0, d.until.Time().Sub(now)), blog.DeletionGrace)
			step.Position = d.position(stage+1, string(blog.NewDate(now.Add(step.Wait))))
		}
	}
	return step, nil
}

// position returns the Position of a stage and the continuation of its query. It begins with the date, so that
// a job that was left over does not take a later deletion of the same user for its own.
func (d *deletion) position(stage int, continuation string) string {
	return d.date + " " + deletionStages[stage] + " " + continuation
}

// at returns what position was made of; the beginning, of another deletion.
func (d *deletion) at(position string) (stage int, continuation string) {
	parts := strings.SplitN(position, " ", 3)
	if len(parts) < 3 || parts[0] != d.date {
		return 0, ""
	}
	return max(0, slices.Index(deletionStages, parts[1])), parts[2]
}

// readUser reads the user, and reports whether it is a tombstone.
func (d *deletion) readUser(ctx context.Context, id string) (bool, error) {
	const op = "read deleted user"
	if !blog.ValidID(id) {
		return false, nil
	}
	item, err := d.users.Read(ctx, blog.Key(id, id))
	if err != nil {
		return false, blog.CosmosError(op, err)
	}
	if d.isTombstone(item.Value) {
		d.etag = item.ETag
		deleted := d.o.Clock()
		d.date = "-"
		if date, _ := d.user.DeletionDate.(string); blog.ValidDate(date) {
			d.date, deleted = date, blog.Date(date).Time()
		}
		d.until = blog.NewDate(deleted.Add(blog.DeletionGrace))
		return true, nil
	}
	raw, err := readWritten(ctx, d.users, blog.Key(id, id))
	if err != nil || !d.isTombstone(raw) {
		return false, blog.CosmosError(op, err)
	}
	return false, &blog.Error{Code: blog.Unavailable, Op: op, Err: fmt.Errorf("the replica does not have the tombstone of user %s yet", id)}
}

func (d *deletion) isTombstone(raw []byte) bool {
	return raw != nil && blog.Unmarshal(raw, &d.user, blog.Lenient) == nil && d.user.Type == blog.TypeUser && d.user.Deleted == true
}

// isNew reports whether an item is of a new life: the same subject may register again once the deletion
// has ended, which a process that was paused in the middle of a unit does not know.
func (d *deletion) isNew(item written) bool {
	date, ok := item.CreatedAt.(string)
	return ok && string(d.until) <= date && date <= string(d.now())
}

// page returns the next items of the user that a query finds.
func (d *deletion) page(ctx context.Context, c *cosmos.Container, q cosmos.Query) (items []written, next string, err error) {
	q.PageSize = deletionPage
	page, next, err := c.QueryPage(ctx, q.With("@user", d.user.ID))
	for _, raw := range page {
		var item written
		if err := blog.Unmarshal(raw, &item, blog.Lenient); err != nil {
			d.skip(c.Name(), raw, err)
		} else if !d.isNew(item) {
			items = append(items, item)
		}
	}
	return items, next, err
}

// deleteSummaries deletes a page of what is in the user's partition, but the user.
func (d *deletion) deleteSummaries(ctx context.Context, continuation string) (next string, err error) {
	items, next, err := d.page(ctx, d.users, cosmos.Query{Partition: d.user.ID, Continuation: continuation,
		Text: "SELECT c.id, c.creationDate FROM c WHERE c.id != @user"})
	if err != nil {
		return "", err
	}
	return next, d.deleteAll(ctx, d.users, d.user.ID, items, map[string]bool{})
}

// deleteFeedEntries deletes a page of the user's entries of all partitions of the feed, which it refills
// at the end.
func (d *deletion) deleteFeedEntries(ctx context.Context, continuation string) (next string, err error) {
	items, next, err := d.page(ctx, d.feed, cosmos.Query{AllPartitions: true, Continuation: continuation,
		Text: "SELECT c.id, c.type, c.creationDate FROM c WHERE c.userId = @user"})
	if err != nil {
		return "", err
	}
	byPartition := map[string][]written{}
	for _, item := range items {
		partition, _ := item.Type.(string)
		byPartition[partition] = append(byPartition[partition], item)
	}
	for partition, items := range byPartition {
		if err := d.deleteAll(ctx, d.feed, partition, items, map[string]bool{}); err != nil {
			return "", err
		}
	}
	if next != "" {
		return next, nil
	}
	for _, partition := range d.feedPartitions {
		entries, err := d.feedEntries(ctx, partition)
		if err == nil && len(entries) < feedRefill {
			err = d.refillFeed(ctx, partition, entries)
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// deleteAll deletes up to 100 items of a partition, in one transactional batch if nothing is refused. All
// are left if others delete them, too. It adds the ids of what is refused.
func (d *deletion) deleteAll(ctx context.Context, c *cosmos.Container, partition string, items []written, rejected map[string]bool) error {
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
			d.done.Add(int64(len(items)))
			return nil
		case err == nil:
			d.left.Store(true)
			return nil
		case !refused(err):
			return err
		}
	}
	for _, item := range items {
		item.ETag = ""
		before := d.done.Load()
		if err := d.deleteAlone(ctx, c, partition, item); err != nil {
			return err
		}
		rejected[item.ID] = d.done.Load() == before
	}
	return nil
}

// deleteAlone deletes an item, or skips what cannot be deleted.
func (d *deletion) deleteAlone(ctx context.Context, c *cosmos.Container, partition string, item written) error {
	if !blog.Addressable(partition) || !blog.Addressable(item.ID) {
		d.skip(c.Name(), blog.Encode(item), fmt.Errorf("item %q in partition %q, which is to be deleted, cannot be addressed", item.ID, partition))
		return nil
	}
	err := c.Delete(ctx, blog.Key(partition, item.ID), item.ETag)
	switch {
	case cosmos.HasStatus(err, http.StatusPreconditionFailed):
		d.left.Store(true)
		return nil
	case cosmos.HasStatus(err, http.StatusNotFound):
		err = nil
	}
	if err == nil {
		d.done.Add(1)
	}
	return d.refuse(c, item, err)
}

// refuse skips an item that Cosmos DB refuses to change, and returns other errors.
func (d *deletion) refuse(c *cosmos.Container, item any, err error) error {
	if !refused(err) {
		return err
	}
	d.skip(c.Name(), blog.Encode(item), err)
	return nil
}

// deleteNames deletes a page of the reservations of the user's names, and after the last one the user.
// They are found by their owner: a crash in a rename may have left some that the user does not name.
func (d *deletion) deleteNames(ctx context.Context, continuation string) (next string, err error) {
	items, next, err := d.page(ctx, d.users, cosmos.Query{AllPartitions: true, Continuation: continuation,
		Text: "SELECT c.id, c.userId, c.creationDate, c._etag FROM c WHERE c.type = 'username' AND c.ownerId = @user"})
	if err != nil {
		return "", err
	}
	for _, item := range items {
		partition, _ := item.UserID.(string)
		if err := d.deleteAlone(ctx, d.users, partition, item); err != nil {
			return "", err
		}
	}
	if next != "" || d.left.Load() {
		return next, nil
	}
	return "", d.deleteAlone(ctx, d.users, d.user.ID, written{ID: d.user.ID, ETag: d.etag})
}
