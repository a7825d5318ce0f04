package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/jobs"
	"byline/store/stored"
)

// names is the view of authors' names on posts, comments and likes.
func (v *Views) names() view {
	return view{
		kind:    Name,
		scanned: func(_ context.Context, read *verifier) ([]Difference, error) { return read.wrongNames, nil },
		compare: v.compareName,
		repair:  v.repairName,
	}
}

const (
	renamePage   = 100             // items of a unit
	renameSettle = 3 * time.Second // longer than replicas lag
)

// renamePosition is the position of a rename.
type renamePosition struct {
	Name         string `json:"name"`         // the new name; the query finds items with another
	Continuation string `json:"continuation"` // of the query

	// Again is when the second pass may begin; "" in the first. An instance that takes over the job waits only
	// for the remaining time.
	Again blog.Date `json:"again,omitempty"`
}

func (p renamePosition) String() string { return string(blog.Encode(p)) }

// rename does a unit of renameJob: a unit sets the user's current name on a page of items that have another
// one. The job makes two passes over the user's items: in the first, the query may miss an item that was just
// written with the old name, while the handler of that item may read the old name of its author. When the
// second pass begins, replicas have caught up. A new rename starts over.
func (v *Views) rename(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	const op = "rename"
	u, err := v.renamedUser(ctx, j)
	if u == nil || err != nil {
		return jobs.Step{Done: err == nil}, stored.Error(op, err) // without a user, the feed has a later change
	}
	var at renamePosition
	if json.Unmarshal([]byte(j.Position), &at) != nil || at.Name != u.Username {
		at = renamePosition{Name: u.Username}
	}
	if wait := at.Again.Time().Sub(v.o.Clock()); wait > 0 {
		return jobs.Step{Position: at.String(), Wait: min(wait, renameSettle)}, nil
	}
	query := cosmos.Query{
		Text:          "SELECT c.id, c.type, c.postId, c.userId, c.userUsername, c._etag FROM c WHERE c.userId = @user AND c.userUsername != @name AND NOT IS_DEFINED(c.deleted)",
		AllPartitions: true, PageSize: renamePage, Continuation: at.Continuation}.With("@user", u.ID).With("@name",
		u.Username)
	page, next, err := v.posts.QueryPage(ctx, query)
	if cosmos.ErrorOf(err).InvalidContinuation() && at.Continuation != "" {
		at.Continuation = ""
		return jobs.Step{Position: at.String()}, nil
	}
	if err != nil {
		return jobs.Step{}, stored.Error(op, err)
	}
	if err := v.renameItems(ctx, page, u.Username); err != nil {
		return jobs.Step{}, err
	}
	step := jobs.Step{Items: len(page)}
	switch at.Continuation = next; {
	case next != "":
	case at.Again != "":
		step.Done = true
	default:
		at.Again, step.Wait = blog.NewDate(v.o.Clock().Add(renameSettle)), renameSettle
	}
	step.Position = at.String()
	return step, nil
}

// renamedUser reads the user of a rename, at the revision of the job or a later one. It returns nil if the
// user does not exist or is malformed.
func (v *Views) renamedUser(ctx context.Context, j jobs.Job) (*blog.User, error) {
	if !blog.ValidID(j.Subject) {
		return nil, nil
	}
	k := stored.Key(j.Subject, j.Subject)
	item, err := v.users.Read(ctx, k)
	if err != nil {
		return nil, err
	}
	if u := decodeLiveUser(item.Value); u != nil && u.Revision >= j.Generation {
		return u, nil
	}
	raw, err := v.users.ReadPrimary(ctx, k)
	return decodeLiveUser(raw), err
}

// decodeLiveUser decodes a user. It returns nil for a deleted or malformed user, and for other items.
func decodeLiveUser(raw []byte) *blog.User {
	if raw == nil {
		return nil
	}
	u, live, err := blog.Decode[blog.UserItem]("read user", blog.TypeUser, raw)
	if !live || err != nil {
		return nil
	}
	return &u.User
}

// renameItems sets the username on items. It skips malformed items, and those that Cosmos DB refuses to
// change.
func (v *Views) renameItems(ctx context.Context, items [][]byte, name string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, raw := range items {
		item, ok := v.decodeChange(raw)
		if !ok {
			continue
		}
		g.Go(func() error {
			err := v.renameItem(ctx, item, name)
			if refused(err) {
				v.skip(blog.PostsContainer, raw, err)
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// renameItem sets the username on a post, comment or like, unless the item has changed since it was read:
// that change is handled, too.
func (v *Views) renameItem(ctx context.Context, item blog.Authored, name string) error {
	p := cosmos.Patch{IfMatch: cosmos.ETag(item.ETag)}
	p.Set("/userUsername", name)
	if item.Type == blog.TypePost {
		p.Increment("/revision", 1)
	}
	_, err := v.posts.Patch(ctx, stored.Key(item.PostID, item.ID), p)
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return stored.Error("rename item", err)
	}
	return nil
}

// repairNames compares the username on every changed item with the author's current one. They
// differ on items that were written before a rename and arrived after its job.
func (v *Views) repairNames(ctx context.Context, items []blog.Authored) error {
	var ids []string
	seen := map[string]bool{}
	for _, item := range items {
		if !seen[item.UserID] {
			seen[item.UserID] = true
			ids = append(ids, item.UserID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	users, err := stored.ReadUsers(ctx, v.users, ids, v.decodeAnyUser)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for i, u := range users {
		if u != nil && u.Username != "" {
			names[ids[i]] = u.Username
		}
	}
	for _, item := range items {
		if name, ok := names[item.UserID]; ok && name != item.Username {
			err := v.renameItem(ctx, item, name)
			if refused(err) {
				v.skip(blog.PostsContainer, blog.Encode(item), err)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// readAuthored reads an item of a post's partition. It returns nil if it does not exist or is
// deleted.
func (v *Views) readAuthored(ctx context.Context, d Difference) (*blog.Authored, error) {
	raw, err := stored.Read(ctx, "verify", v.posts, stored.Key(d.Partition, d.ID))
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

func (v *Views) compareName(ctx context.Context, d Difference) (*Difference, error) {
	item, err := v.readAuthored(ctx, d)
	if item == nil || err != nil {
		return nil, err
	}
	u, err := stored.ReadUser(ctx, "verify", v.users, item.UserID)
	if u == nil || err != nil || u.Username == item.Username {
		return nil, err
	}
	d.Have, d.Want = item.Username, u.Username
	return &d, nil
}

func (v *Views) repairName(ctx context.Context, d Difference) error {
	item, err := v.readAuthored(ctx, d)
	if item == nil || err != nil {
		return err
	}
	u, err := stored.ReadUser(ctx, "repair", v.users, item.UserID)
	if u == nil || err != nil {
		return err
	}
	return v.renameItem(ctx, *item, u.Username)
}
