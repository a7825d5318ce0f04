package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/jobs"
	"byline/store/stored"
)

// bylineView is the view of authors' bylines on posts, comments and likes.
type bylineView struct{ *base }

func (b *bylineView) kind() Kind { return Byline }

// suspects lists the items whose byline is not their author's.
func (b *bylineView) suspects(_ context.Context, s *scan) ([]Difference, error) {
	return differences(Byline, s.wrongBylines), nil
}

const (
	renamePage   = 100             // items of a unit
	renameSettle = 3 * time.Second // longer than replicas lag
)

// renamePosition is the position of a rename.
type renamePosition struct {
	Byline       blog.Byline `json:"byline"`            // the new one; the query finds items with another
	Follows      bool        `json:"follows,omitempty"` // the query is that of follows
	Continuation string      `json:"continuation"`      // of the query

	// Again is when the second pass may begin; "" in the first. An instance that takes over the job waits only
	// for the remaining time.
	Again blog.Date `json:"again,omitempty"`
}

func (p renamePosition) String() string {
	b, _ := json.Marshal(p) // cannot fail: only strings
	return string(b)
}

// rename does a unit of renameJob: a unit sets the user's current byline on a page of items that have another
// one. The job makes two passes over the user's items: in the first, the query may miss an item that was just
// written with the old byline, while the handler of that item may read the old byline of its author. When the
// second pass begins, replicas have caught up. A new byline starts over.
func (b *bylineView) rename(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	const op = "rename"
	u, err := b.renamedUser(ctx, j)
	if u == nil || err != nil {
		return jobs.Step{Done: err == nil}, stored.Error(op, err) // without a user, the feed has a later change
	}
	var at renamePosition
	if json.Unmarshal([]byte(j.Position), &at) != nil || at.Byline != u.Byline {
		at = renamePosition{Byline: u.Byline}
	}
	if wait := at.Again.Time().Sub(b.o.Clock()); wait > 0 {
		return jobs.Step{Position: at.String(), Wait: min(wait, renameSettle)}, nil
	}
	container, query := b.posts, otherBylines(u.Byline)
	if at.Follows {
		container, query = b.users, otherFollowers(u.Byline)
	}
	query.Continuation = at.Continuation
	page, next, err := container.QueryPage(ctx, query)
	if cosmos.ErrorOf(err).InvalidContinuation() && at.Continuation != "" {
		at.Continuation = ""
		return jobs.Step{Position: at.String()}, nil
	}
	if err != nil {
		return jobs.Step{}, stored.Error(op, err)
	}
	set := b.setBylines
	if at.Follows {
		set = b.setFollowers
	}
	if err := set(ctx, page, u.Byline); err != nil {
		return jobs.Step{}, err
	}
	step := jobs.Step{Items: len(page)}
	switch at.Continuation = next; {
	case next != "":
	case !at.Follows && u.FollowingCount > 0: // the handler of a follow that is not counted yet sees the new byline
		at.Follows = true
	case at.Again != "":
		if err := b.markSpread(ctx, u); err != nil {
			return jobs.Step{}, stored.Error(op, err)
		}
		step.Done = true
	default:
		at.Follows = false
		at.Again, step.Wait = blog.NewDate(b.o.Clock().Add(renameSettle)), renameSettle
	}
	step.Position = at.String()
	return step, nil
}

// otherBylines is the query for a user's posts, comments and likes with another byline.
func otherBylines(b blog.Byline) cosmos.Query {
	differ, q := differentByline(b, "c.")
	q.Text = "SELECT c.id, c.type, c.postId, " + blog.BylineFields + ", c._etag FROM c WHERE c.userId = @user AND " +
		"c.type IN ('post', 'comment', 'like') AND " + differ + " AND NOT IS_DEFINED(c.deleted)"
	return q
}

// otherFollowers is the query for a user's follows, in the partitions of the authors, with another byline.
func otherFollowers(b blog.Byline) cosmos.Query {
	differ, q := differentByline(b, "c.follower.")
	q.Text = "SELECT * FROM c WHERE c.ownerId = @user AND c.type = 'follower' AND " + differ
	return q
}

// differentByline returns the condition that a byline, whose properties have a path, is another, and a query with its
// parameters.
func differentByline(b blog.Byline, path string) (condition string, q cosmos.Query) {
	q = cosmos.Query{AllPartitions: true, PageSize: renamePage}.With("@user", b.UserID)
	var differ []string
	for p := range b.Properties() {
		parameter := "@" + p.Name
		q = q.With(parameter, p.Value)
		differ = append(differ, path+p.Name+" != "+parameter)
		if p.Value != "" {
			differ = append(differ, "NOT IS_DEFINED("+path+p.Name+")")
		}
	}
	return "(" + strings.Join(differ, " OR ") + ")", q
}

// markSpread records that every copy has the byline of the user, so that later changes of the user need no job, unless
// the user has been changed since.
func (b *bylineView) markSpread(ctx context.Context, u *blog.UserItem) error {
	if u.Spread() { // by a job that was enqueued twice
		return nil
	}
	p := cosmos.Patch{Condition: fmt.Sprintf("from c where c.revision = %d", u.Revision)}
	p.Set("/spreadRevision", u.Revision)
	_, err := b.users.Patch(ctx, stored.Key(u.UserID, u.UserID), p)
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return nil
	}
	return err
}

// renamedUser reads the user of a rename, at the revision of the job or a later one. It returns nil if the
// user does not exist or is malformed.
func (b *bylineView) renamedUser(ctx context.Context, j jobs.Job) (*blog.UserItem, error) {
	if !blog.ValidID(j.Subject) {
		return nil, nil
	}
	k := stored.Key(j.Subject, j.Subject)
	item, err := b.users.Read(ctx, k)
	if err != nil {
		return nil, err
	}
	if u := decodeLiveUser(item.Value); u != nil && u.Revision >= j.Generation {
		return u, nil
	}
	raw, err := b.users.ReadPrimary(ctx, k)
	return decodeLiveUser(raw), err
}

// decodeLiveUser decodes a user. It returns nil for a deleted or malformed user, and for other items.
func decodeLiveUser(raw []byte) *blog.UserItem {
	if raw == nil {
		return nil
	}
	u, live, err := blog.Decode[blog.UserItem]("read user", blog.TypeUser, raw)
	if !live || err != nil {
		return nil
	}
	return &u
}

// setBylines sets the byline on items. It skips malformed items, and those that Cosmos DB refuses to
// change.
func (b *bylineView) setBylines(ctx context.Context, items [][]byte, byline blog.Byline) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, raw := range items {
		item, ok := b.decodeChange(raw)
		if !ok {
			continue
		}
		g.Go(func() error {
			err := b.setByline(ctx, item, byline)
			if refused(err) {
				b.skip(blog.PostsContainer, raw, err)
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// setFollowers is setBylines for a user's follows.
func (b *bylineView) setFollowers(ctx context.Context, items [][]byte, byline blog.Byline) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, raw := range items {
		item, err := blog.DecodeFollow("rename", raw)
		if err != nil {
			b.skip(blog.UsersContainer, raw, err)
			continue
		}
		g.Go(func() error { return b.setFollower(ctx, item, byline) })
	}
	return g.Wait()
}

// setByline sets the byline on a post, comment or like with another one, unless the item has changed since it was read:
// that change is handled, too.
func (b *bylineView) setByline(ctx context.Context, item blog.Authored, byline blog.Byline) error {
	p := cosmos.Patch{IfMatch: cosmos.ETag(item.ETag)}
	for changed := range item.Byline.Changes(byline) {
		stored.SetText(&p, "/"+changed.Name, changed.Value)
	}
	if p.Changes() == 0 {
		return nil
	}
	if item.Type == blog.TypePost {
		p.Increment("/revision", 1)
	}
	_, err := b.posts.Patch(ctx, stored.Key(item.PostID, item.ID), p)
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return stored.Error("set byline", err)
	}
	return nil
}

// authors reads the authors of items.
func (b *bylineView) authors(ctx context.Context, items []blog.Authored) (map[string]*blog.User, error) {
	var ids []string
	authors := map[string]*blog.User{}
	for _, item := range items {
		if _, ok := authors[item.UserID]; !ok {
			authors[item.UserID] = nil
			ids = append(ids, item.UserID)
		}
	}
	users, err := stored.ReadUsers(ctx, b.users, ids, b.decodeAnyUser)
	for _, u := range users {
		if u != nil {
			authors[u.UserID] = u
		}
	}
	return authors, err
}

// project compares the byline on every changed item with the author's current one. They
// differ on items that were written before a change of it and arrived after its job.
func (b *bylineView) project(ctx context.Context, c postChanges) error {
	for _, item := range c.authored {
		if u := c.authors[item.UserID]; u != nil && u.Username != "" && u.Byline != item.Byline {
			err := b.setByline(ctx, item, u.Byline)
			if refused(err) {
				b.skipID(blog.PostsContainer, item.ID, err)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// readAuthored reads an item of a post's partition. It returns nil if it does not exist or is
// deleted.
func (b *bylineView) readAuthored(ctx context.Context, d Difference) (*blog.Authored, error) {
	raw, err := stored.Read(ctx, "verify", b.posts, stored.Key(d.Partition, d.ID))
	if raw == nil || err != nil {
		return nil, err
	}
	var item blog.Authored
	if err := json.Unmarshal(raw, &item); err != nil {
		return nil, &blog.Error{Code: blog.Internal, Op: "verify", Err: fmt.Errorf("%w: %w", blog.ErrMalformed, err)}
	}
	if item.Deleted {
		return nil, nil
	}
	return &item, nil
}

func (b *bylineView) compare(ctx context.Context, d Difference) (*Difference, error) {
	item, err := b.readAuthored(ctx, d)
	if item == nil || err != nil {
		return nil, err
	}
	u, err := stored.ReadUser(ctx, "verify", b.users, item.UserID)
	if u == nil || err != nil || u.Byline == item.Byline {
		return nil, err
	}
	d.Have, d.Want = describeByline(item.Byline), describeByline(u.Byline)
	return &d, nil
}

// describeByline returns the byline as a difference shows it.
func describeByline(b blog.Byline) string {
	var values []string
	for p := range b.Properties() {
		if p.Value != "" {
			values = append(values, p.Value)
		}
	}
	return strings.Join(values, ", ")
}

func (b *bylineView) repair(ctx context.Context, d Difference) error {
	item, err := b.readAuthored(ctx, d)
	if item == nil || err != nil {
		return err
	}
	u, err := stored.ReadUser(ctx, "repair", b.users, item.UserID)
	if u == nil || err != nil {
		return err
	}
	return b.setByline(ctx, *item, u.Byline)
}
