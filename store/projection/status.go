package projection

import (
	"context"

	"byline/store/blog"
	"byline/store/changefeed"
)

// ProjectionStatus is how far a processor has come with one feed range of a
// container.
type Status struct {
	Processor string // "projections-posts", "projections-users", or "usernames", the sweep
	Container string
	changefeed.RangeStatus
}

// Projections tells how far the projections and the sweep of usernames have come,
// and who is at work. It takes part in nothing. Before they have ever run it
// returns nothing.
func (v *Views) Status(ctx context.Context) ([]Status, error) {
	ctx = v.account.Begin(ctx, Verify)
	var all []Status
	for _, p := range v.processors() {
		ranges, err := changefeed.Status(ctx, p.source.ChangeFeed(), v.leases.ChangeFeed(), p.name)
		if err != nil {
			return nil, blog.CosmosError("read status of projections", err)
		}
		for _, r := range ranges {
			all = append(all, Status{p.name, p.source.Name(), r})
		}
	}
	return all, nil
}
