package projection

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/jobs"
)

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
		return jobs.Step{Done: err == nil}, blog.CosmosError(op, err) // without a user, the feed has a later change
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
		AllPartitions: true, PageSize: renamePage, Continuation: at.Continuation}.With("@user", u.ID).With("@name", u.Username)
	page, next, err := v.posts.QueryPage(ctx, query)
	if cosmos.InvalidContinuation(err) && at.Continuation != "" {
		at.Continuation = ""
		return jobs.Step{Position: at.String()}, nil
	}
	if err != nil {
		return jobs.Step{}, blog.CosmosError(op, err)
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
	k := blog.Key(j.Subject, j.Subject)
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
	_, err := v.posts.Patch(ctx, blog.Key(item.PostID, item.ID), p)
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return blog.CosmosError("rename item", err)
	}
	return nil
}
