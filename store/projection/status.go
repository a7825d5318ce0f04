package projection

import (
	"context"

	"byline/store/changefeed"
	"byline/store/stored"
)

// Status is the progress of a processor in one feed range of a container.
type Status struct {
	Processor string // "projections-posts", "projections-users", or "usernames" (the sweep)
	Container string
	changefeed.RangeStatus
}

// Status returns the progress and the owner of every feed range, of the projections and of the
// sweep of usernames. It takes no lease. It returns nothing before the first Run.
func (v *Views) Status(ctx context.Context) ([]Status, error) {
	ctx = v.account.Begin(ctx, Verify)
	var all []Status
	for _, p := range v.processors() {
		ranges, err := changefeed.Status(ctx, p.source.ChangeFeed(), v.leases.ChangeFeed(), p.options.Name)
		if err != nil {
			return nil, stored.Error("read status of projections", err)
		}
		for _, r := range ranges {
			all = append(all, Status{p.options.Name, p.source.Name(), r})
		}
	}
	return all, nil
}
