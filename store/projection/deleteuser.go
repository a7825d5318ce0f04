package projection

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/jobs"
	"byline/store/stored"
)

// userDeletionView is the view of the jobs of deleted users.
type userDeletionView struct {
	*base
	sums       *sums
	partitions *feedPartitions
	feedEnd    *feedEnd
	registry   *registry
}

func (u *userDeletionView) kind() Kind { return Deletion }

func (u *userDeletionView) suspects(_ context.Context, s *scan) (found []Difference, _ error) {
	for _, id := range s.deletedUsers {
		found = append(found, Difference{Kind: Deletion, Partition: id, ID: id})
	}
	return found, nil
}

// compare checks that a deleted user, whose id is the difference's ID, has a job.
func (u *userDeletionView) compare(ctx context.Context, d Difference) (*Difference, error) {
	state, err := u.stateOf(ctx, d.ID)
	if state != deletedUser || err != nil {
		return nil, err
	}
	exists, err := u.hasJob(ctx, deleteUserJob, d.ID)
	if exists || err != nil {
		return nil, err
	}
	d.Have, d.Want = "no job", "a job that deletes the rest"
	return &d, nil
}

func (u *userDeletionView) repair(ctx context.Context, d Difference) error {
	return u.enqueue(ctx, deleteUserJob, map[string]int64{d.ID: 0})
}

// deletionStages are the stages of a deletion, in order. The second pass begins blog.DeletionGrace after the
// user became a tombstone: the continuation of the stage "wait" is that time.
var deletionStages = []string{"posts", "summaries", "follows", "timelines", "feed", "search", "wait",
	"posts-again", "summaries-again", "timelines-again", "feed-again", "search-again", "files", "names"}

// deletionPage is the number of items of a query.
const deletionPage = 100

// userDeletion is one unit of a deleteUser job.
type userDeletion struct {
	deletion
	view  *userDeletionView
	user  userTombstone
	date  string // of the deletion; "-" if it is malformed
	etag  cosmos.ETag
	until blog.Date // items created then or later do not belong to the deleted user
}

// delete does a unit of deleteUserJob: a unit deletes a page of the user's items, and the last unit the
// user item, which is a tombstone already. A post becomes a tombstone first, which loses its author once its
// comments, likes and text are deleted. So the remaining work can always be found by the user's id, also
// after a crash. The job ends without a write if the user is not a tombstone.
func (u *userDeletionView) delete(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	d := &userDeletion{deletion: deletion{base: u.base}, view: u}
	if deleted, err := d.readUser(ctx, j.Subject); err != nil || !deleted {
		return jobs.Step{Done: err == nil}, err
	}
	stage, continuation := d.parsePosition(j.Position)
	var next string
	var err error
	switch deletionStages[stage] {
	case "posts", "posts-again":
		next, err = d.deletePosts(ctx, continuation)
	case "summaries", "summaries-again":
		next, err = d.deleteSummaries(ctx, continuation)
	case "follows":
		if d.user.FollowerCount != nil || d.user.FollowingCount != nil { // those that are not counted yet, at the end
			next, err = d.deleteOwned(ctx, "c.type != 'username'", continuation)
		}
	case "timelines", "timelines-again":
		next, err = d.deleteTimelineEntries(ctx, continuation)
	case "feed", "feed-again":
		next, err = d.deleteFeedEntries(ctx, continuation)
	case "search", "search-again":
		next, err = d.deleteSearchItems(ctx, continuation)
	case "wait":
		if wait := blog.Date(continuation).Time().Sub(d.o.Clock()); wait > 0 {
			return jobs.Step{Position: j.Position, Wait: min(wait, blog.DeletionGrace)}, nil
		}
	case "files":
		err = d.deleteFiles(ctx)
	default:
		next, err = d.deleteNames(ctx, continuation)
	}
	step := jobs.Step{Items: int(d.count.Load()), Position: j.Position}
	switch {
	case continuation != "" && cosmos.ErrorOf(err).InvalidContinuation():
		step.Position = d.position(stage, "")
		return step, nil
	case err != nil:
		return step, stored.Error("delete user", err)
	case d.partial.Load():
		if step.Items == 0 { // because of concurrent writes
			step.Wait = contentionWait
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

// userTombstone is a deleted user. Properties written by other programs may have any type.
type userTombstone struct {
	ID           string `json:"id"`
	Type         any    `json:"type"`
	Deleted      any    `json:"deleted"`
	DeletionDate any    `json:"deletionDate"`

	FollowerCount  any `json:"followerCount"`
	FollowingCount any `json:"followingCount"`
}

// position returns the Position of a stage and the continuation of its query. It begins with the date of the
// deletion, so that a later deletion of the same user does not resume it.
func (d *userDeletion) position(stage int, continuation string) string {
	return d.date + " " + deletionStages[stage] + " " + continuation
}

// parsePosition returns the stage and the continuation of a position; the beginning, if it belongs to another
// deletion.
func (d *userDeletion) parsePosition(position string) (stage int, continuation string) {
	parts := strings.SplitN(position, " ", 3)
	if len(parts) < 3 || parts[0] != d.date {
		return 0, ""
	}
	return max(0, slices.Index(deletionStages, parts[1])), parts[2]
}

// readUser reads the user, and reports whether it is a tombstone.
func (d *userDeletion) readUser(ctx context.Context, id string) (bool, error) {
	const op = "read deleted user"
	if !blog.ValidID(id) {
		return false, nil
	}
	item, err := d.users.Read(ctx, stored.Key(id, id))
	if err != nil {
		return false, stored.Error(op, err)
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
	raw, err := d.users.ReadPrimary(ctx, stored.Key(id, id))
	if err != nil || !d.isTombstone(raw) {
		return false, stored.Error(op, err)
	}
	return false, &blog.Error{Code: blog.Unavailable, Op: op,
		Err: fmt.Errorf("the replica does not have the tombstone of user %s yet", id)}
}

func (d *userDeletion) isTombstone(raw []byte) bool {
	return raw != nil && blog.Unmarshal(raw, &d.user, blog.Lenient) == nil && d.user.Type == blog.TypeUser &&
		d.user.Deleted == true
}

// isNew reports whether an item belongs to a new user with the same id: the subject may register again after
// the deletion, while another process is paused within a unit of it.
func (d *userDeletion) isNew(item ownedItem) bool {
	date, ok := item.CreatedAt.(string)
	return ok && string(d.until) <= date && date <= string(d.now())
}

// page returns the next page of the user's items that a query selects.
func (d *userDeletion) page(
	ctx context.Context, c *cosmos.Container, q cosmos.Query,
) (items []ownedItem, next string, err error) {
	q.PageSize = deletionPage
	page, next, err := c.QueryPage(ctx, q.With("@user", d.user.ID))
	for _, raw := range page {
		var item ownedItem
		if err := blog.Unmarshal(raw, &item, blog.Lenient); err != nil {
			d.skip(c.Name(), raw, err)
		} else if !d.isNew(item) {
			items = append(items, item)
		}
	}
	return items, next, err
}

// deleteSummaries deletes a page of the items in the user's partition, except the user.
func (d *userDeletion) deleteSummaries(ctx context.Context, continuation string) (next string, err error) {
	items, next, err := d.page(ctx, d.users, cosmos.Query{Partition: d.user.ID, Continuation: continuation,
		Text: "SELECT c.id, c.creationDate FROM c WHERE c.id != @user"})
	if err != nil {
		return "", err
	}
	return next, d.deleteBatch(ctx, d.users, d.user.ID, items, map[string]bool{})
}

// deleteTimelineEntries deletes a page of the user's entries in timelines. The batch that deletes them marks their
// counter with the user's id, until the counts are added up: so the query finds the counter again after a crash.
func (d *userDeletion) deleteTimelineEntries(ctx context.Context, continuation string) (next string, err error) {
	byPartition, next, err := d.pageOfFeed(ctx, "c.authorId = @user", continuation)
	if err != nil {
		return "", err
	}
	var months []monthKey
	for partition, items := range byPartition {
		t, month, ok := blog.ParseEntryPartition(partition)
		if !ok { // not written by Byline
			if err := d.deleteBatch(ctx, d.feed, partition, items, map[string]bool{}); err != nil {
				return "", err
			}
			continue
		}
		months = append(months, monthKey{t, month})
		if err := d.deleteMonthEntries(ctx, partition, items); err != nil {
			return "", err
		}
	}
	if len(months) == 0 {
		return next, nil
	}
	if err := d.view.sums.add(ctx, [][]monthKey{months}); err != nil {
		return "", err
	}
	for _, m := range months {
		p := cosmos.Patch{Condition: "from c where c.authorId = '" + d.user.ID + "'"}
		p.Remove("/authorId")
		_, err := d.feed.Patch(ctx, stored.Key(m.partition(), blog.CounterID), p)
		if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
			return "", err
		}
	}
	return next, nil
}

// deleteMonthEntries deletes entries of the user from a partition, and subtracts them from its counter.
func (d *userDeletion) deleteMonthEntries(ctx context.Context, partition string, items []ownedItem) error {
	items = slices.DeleteFunc(items, func(i ownedItem) bool { return i.ID == blog.CounterID })
	for chunk := range slices.Chunk(items, cosmos.MaxBatch-1) {
		b := cosmos.Batch{NoItems: true}
		for _, item := range chunk {
			b.Delete(item.ID)
		}
		p := patchCounter(-int64(len(chunk)))
		p.Set("/authorId", d.user.ID)
		b.Patch(blog.CounterID, p)
		r, err := d.feed.Batch(ctx, partition, &b)
		switch {
		case refused(err), err == nil && r.Failed == len(chunk): // the counter is malformed or missing
			if err := d.deleteBatch(ctx, d.feed, partition, chunk, map[string]bool{}); err != nil {
				return err
			}
		case err != nil:
			return err
		case r.Failed >= 0: // deleted meanwhile
			d.partial.Store(true)
		default:
			d.count.Add(int64(len(chunk)))
		}
	}
	return nil
}

// deleteFeedEntries deletes a page of the summaries of the user's posts in all partitions of the feed, and after the
// last page refills the feed.
func (d *userDeletion) deleteFeedEntries(ctx context.Context, continuation string) (next string, err error) {
	byPartition, next, err := d.pageOfFeed(ctx, NotEntries+" AND c.userId = @user", continuation)
	if err != nil {
		return "", err
	}
	for partition, items := range byPartition {
		if err := d.deleteBatch(ctx, d.feed, partition, items, map[string]bool{}); err != nil {
			return "", err
		}
	}
	if next != "" {
		return next, nil
	}
	for _, partition := range d.feedKeys {
		entries, err := d.view.partitions.entries(ctx, partition)
		if err == nil && len(entries) < blog.FeedRefill {
			err = d.view.feedEnd.refill(ctx, partition, entries)
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// deleteSearchItems deletes a page of the search items of the user's posts. There are none without the container.
func (d *userDeletion) deleteSearchItems(ctx context.Context, continuation string) (next string, err error) {
	items, next, err := d.page(ctx, d.search, cosmos.Query{AllPartitions: true, Continuation: continuation,
		Text: "SELECT c.id, c.decade, c.creationDate FROM c WHERE c.userId = @user"})
	if isNoContainer(err) {
		return "", nil
	}
	byDecade := map[string][]ownedItem{}
	for _, item := range items {
		decade, _ := item.Decade.(string)
		byDecade[decade] = append(byDecade[decade], item)
	}
	for decade, items := range byDecade {
		if err := d.deleteBatch(ctx, d.search, decade, items, map[string]bool{}); err != nil {
			return "", err
		}
	}
	return next, err
}

// pageOfFeed returns a page of the user's items in the feed container that meet a condition, by partition.
func (d *userDeletion) pageOfFeed(
	ctx context.Context, condition, continuation string,
) (byPartition map[string][]ownedItem, next string, err error) {
	items, next, err := d.page(ctx, d.feed, cosmos.Query{AllPartitions: true, Continuation: continuation,
		Text: "SELECT c.id, c.type, c.creationDate FROM c WHERE " + condition})
	byPartition = map[string][]ownedItem{}
	for _, item := range items {
		partition, _ := item.Type.(string)
		byPartition[partition] = append(byPartition[partition], item)
	}
	return byPartition, next, err
}

// deleteFiles deletes the user's files and uploads, and repeats until there are none. What an upload in flight leaves
// is deleted by the sweep.
func (d *userDeletion) deleteFiles(ctx context.Context) error {
	if d.o.Files == nil {
		return nil
	}
	n, err := d.o.Files.DeleteUser(ctx, d.user.ID, d.until.Time())
	d.count.Add(int64(n))
	d.partial.Store(n > 0)
	return err
}

// deleteNames deletes a page of the reservations of the user's names, and of what is left of follows, and after the
// last one the user. They are found by their owner: a crash in a rename may have left some that the user does not
// name.
func (d *userDeletion) deleteNames(ctx context.Context, continuation string) (next string, err error) {
	next, err = d.deleteOwned(ctx, "true", continuation)
	if next != "" || d.partial.Load() || err != nil {
		return next, err
	}
	return "", d.deleteOne(ctx, d.users, d.user.ID, ownedItem{ID: d.user.ID, ETag: d.etag})
}

// deleteOwned deletes a page of what the user owns in other partitions of users and meets a condition: reservations,
// and both items of follows with their tombstones.
func (d *userDeletion) deleteOwned(ctx context.Context, condition, continuation string) (next string, err error) {
	items, next, err := d.page(ctx, d.users, cosmos.Query{AllPartitions: true, Continuation: continuation,
		Text: "SELECT c.id, c.type, c.userId, c.deleted, c.creationDate, c._etag FROM c WHERE c.ownerId = @user AND " +
			condition})
	if err != nil {
		return "", err
	}
	byPartition := map[string][]ownedItem{}
	for _, item := range items {
		partition, _ := item.UserID.(string)
		byPartition[partition] = append(byPartition[partition], item)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for partition, items := range byPartition {
		g.Go(func() error {
			if items[0].Type == blog.TypeUsername {
				return d.deleteOne(ctx, d.users, partition, items[0])
			}
			return d.deleteCounted(ctx, counted{d.users, partition, FollowCount, uncountFollows}, items)
		})
	}
	return next, g.Wait()
}
