package projection

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
)

// projectUsers handles changes of the users container. It sets a renamed user's new name on
// everything they wrote, and reserves the name if its reservation is missing: the sweep may
// have released it while a process paused in the middle of a rename. In a rebuild it also
// repairs summaries and reservations.
func (v *Views) projectUsers(ctx context.Context, items [][]byte) error {
	const op = "project users"
	renamed := map[string]bool{}
	var suspects []Difference
	for _, raw := range items {
		var e blog.AnyItem
		err := blog.Unmarshal(raw, &e, blog.Lenient)
		if err == nil && e.Type == "" {
			err = errors.New("no type")
		}
		if err != nil {
			v.skip(blog.UsersContainer, raw, err)
			continue
		}
		if e.Type != blog.TypeUser {
			if changefeed.Replaying(ctx) {
				suspects = append(suspects, suspectOf(e.Envelope, raw)...)
			}
			continue
		}
		u, err := blog.DecodeUser(op, raw)
		if err != nil {
			v.skip(blog.UsersContainer, raw, err)
			continue
		}
		if u == nil {
			continue
		}
		if u.Revision > 1 { // a new user has written nothing
			renamed[u.ID] = true
		}
		suspects = append(suspects, Difference{Kind: Username, Partition: blog.UsernameKey(u.Username), ID: u.ID})
	}
	if err := v.repairAll(ctx, suspects); err != nil {
		return err
	}
	return v.do(ctx, sweepJob, slices.Collect(maps.Keys(renamed)))
}

// renameItems sets the user's current name on items that the user wrote, as many as a page of a
// query has, and returns how many it found. It queries only for items with another name, so a
// repetition resumes where the last one stopped. It skips what Cosmos DB refuses, once.
func (v *Views) renameItems(ctx context.Context, j *job) (found int, err error) {
	const op = "sweep name"
	u, err := blog.ReadUser(ctx, op, v.users, j.Subject)
	if u == nil || errors.Is(err, blog.ErrMalformed) {
		return 0, nil // the feed has a later change
	}
	if err != nil {
		return 0, err
	}
	items, err := v.misnamed(ctx, u, j)
	if err != nil {
		return 0, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	refusals := make([]error, len(items))
	for i, item := range items {
		g.Go(func() error {
			err := v.renameItem(gctx, item.Authored, u.Username)
			if refused(err) {
				refusals[i], err = err, nil
			}
			return err
		})
	}
	err = g.Wait()
	for i, item := range items {
		if refusals[i] != nil {
			j.skipped[item.raw] = true
			v.skip(blog.PostsContainer, []byte(item.raw), refusals[i])
		}
	}
	return len(items), err
}

// foundItem is an item as a query returned it.
type foundItem struct {
	blog.Authored
	raw string
}

// misnamed returns the first page with items of the user that have another name and were not skipped
// by the job. It queries all partitions: never on the request path.
func (v *Views) misnamed(ctx context.Context, u *blog.User, j *job) ([]foundItem, error) {
	const op = "find misnamed items"
	query := cosmos.Query{
		Text:          "SELECT c.id, c.type, c.postId, c.userId, c.userUsername, c._etag FROM c WHERE c.userId = @user AND c.userUsername != @name AND NOT IS_DEFINED(c.deleted)",
		AllPartitions: true, PageSize: 400}.With("@user", u.ID).With("@name", u.Username)
	if j.skipped == nil {
		j.skipped = map[string]bool{}
	}
	var items []foundItem
	for page, err := range v.posts.Query(ctx, query) {
		if err != nil {
			return nil, blog.CosmosError(op, err)
		}
		for _, raw := range page {
			if j.skipped[string(raw)] {
				continue
			}
			if item, ok := v.decodeChange(blog.PostsContainer, raw); ok {
				items = append(items, foundItem{item, string(raw)})
			} else {
				j.skipped[string(raw)] = true
			}
		}
		if len(items) > 0 { // pages may be empty
			break
		}
	}
	return items, nil
}
