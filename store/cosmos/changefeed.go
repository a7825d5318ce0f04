package cosmos

import (
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/changefeed"
	"byline/store/cosmos/itemcache"
)

// ChangeFeed returns the container for package changefeed: as the source of changes, or for the leases
// of a processor.
func (c *Container) ChangeFeed() changefeed.Container { return changeFeed{c.client} }

// changeFeed is a container that returns pages of changes undecoded.
type changeFeed struct{ *azcosmos.ContainerClient }

// ReadChangeFeed reads a page of the change feed.
func (c changeFeed) ReadChangeFeed(
	ctx context.Context, o *azcosmos.ChangeFeedOptions,
) (azcosmos.ChangeFeedResponse, error) {
	ctx, x := withPageItems(ctx)
	page, err := c.ContainerClient.ReadChangeFeed(ctx, o)
	page.Items = x.items
	return page, err
}

// Tail returns a Tail, which calls handle with the changes unless it is nil. While it runs, items and pages of the
// container are cached. property is the partition key property of items.
func (c *Container) Tail(property string, handle changefeed.Handler, o changefeed.Options) *itemcache.Tail {
	return c.cached.Tail(c.ChangeFeed(), property, handle, o)
}

// Writes returns a signal that is set when a request of this process, other than background work, has
// written to the container.
func (c *Container) Writes() *changefeed.Signal { return c.cached.Writes() }

// writeSignals is a policy, per try, for requests: it sets the signals of a container after a write.
type writeSignals struct{ *shared }

// Do implements policy.Policy.
func (s writeSignals) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if path := containerPath(req.Raw().URL.EscapedPath()); path != "" && isWrite(req.Raw()) {
		s.cache.Container(path).Wrote()
	}
	return resp, err
}
