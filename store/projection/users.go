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

// renameItems sets the user's current name on everything the user wrote. It queries only for
// items with another name, so a repetition resumes where the last one stopped. It ends when
// the query finds nothing.
func (v *Views) renameItems(ctx context.Context, userID string) error {
	const op = "sweep name"
	count, skipped := 0, map[blog.Authored]bool{}
	for {
		u, err := blog.ReadUser(ctx, op, v.users, userID)
		if u == nil || errors.Is(err, blog.ErrMalformed) {
			return nil // the feed has a later change
		}
		if err != nil {
			return err
		}
		items, err := v.misnamed(ctx, u, skipped)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			if count > 0 {
				v.o.Logger.Info("renamed everything a user has written", logUser, userID, logCount, count)
			}
			return nil
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(workers)
		refusals := make([]error, len(items))
		for i, item := range items {
			g.Go(func() error {
				err := v.renameItem(gctx, item, u.Username)
				if refused(err) {
					refusals[i], err = err, nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for i, item := range items {
			if refusals[i] != nil {
				skipped[item] = true
				v.skip(blog.PostsContainer, blog.Encode(item), refusals[i])
			}
		}
		count += len(items)
	}
}

// misnamed returns the first page with items of the user that have another name and are not in
// skipped. It queries all partitions: never on the request path.
func (v *Views) misnamed(ctx context.Context, u *blog.User, skipped map[blog.Authored]bool) ([]blog.Authored, error) {
	const op = "find misnamed items"
	query := cosmos.Query{
		Text:          "SELECT c.id, c.type, c.postId, c.userId, c.userUsername, c._etag FROM c WHERE c.userId = @user AND c.userUsername != @name AND NOT IS_DEFINED(c.deleted)",
		AllPartitions: true, PageSize: 100}.With("@user", u.ID).With("@name", u.Username)
	var items []blog.Authored
	for page, err := range v.posts.Query(ctx, query) {
		if err != nil {
			return nil, blog.CosmosError(op, err)
		}
		for _, raw := range page {
			if item, ok := v.decodeChange(blog.PostsContainer, raw); ok && !skipped[item] {
				items = append(items, item)
			}
		}
		if len(items) > 0 { // pages may be empty
			break
		}
	}
	return items, nil
}
