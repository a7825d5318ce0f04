package cosmos

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/jsonpart"
	"byline/store/changefeed"
)

// ChangeFeed returns the container for package changefeed: as the source of changes, or for the leases
// of a processor.
func (c *Container) ChangeFeed() changefeed.Container { return changeFeed{c.client} }

// changeFeed is a container that returns pages of changes undecoded.
type changeFeed struct{ *azcosmos.ContainerClient }

// ReadChangeFeed reads a page of the change feed.
func (c changeFeed) ReadChangeFeed(ctx context.Context, o *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error) {
	ctx, x := withPageItems(ctx)
	page, err := c.ContainerClient.ReadChangeFeed(ctx, o)
	page.Items = x.items
	return page, err
}

// Tail follows the changes of a container while it runs. Meanwhile items and pages of the container are
// cached.
type Tail struct {
	*changefeed.Tail
	following *following
}

// Tail returns a Tail, which calls handle with the changes unless it is nil. property is the partition
// key property of items.
func (c *Container) Tail(property string, handle changefeed.Handler, o changefeed.Options) *Tail {
	if c.cache == nil {
		if handle == nil {
			handle = func(context.Context, [][]byte) error { return nil }
		}
		o.Unwatched, o.Wake = nil, &c.following.wake // without a cache only writes would wake it
		return &Tail{changefeed.NewTail(c.ChangeFeed(), handle, o), c.following}
	}
	c.following.follow(&o)
	observe := o.Observe
	o.Observe = func(p changefeed.Progress) {
		if observe != nil {
			observe(p)
		}
		c.following.observe(p)
	}
	return &Tail{changefeed.NewTail(c.ChangeFeed(), func(ctx context.Context, items [][]byte) error {
		for _, raw := range items {
			c.cache.changes.changed(c.path, stringOf(raw, property))
		}
		if handle == nil {
			return nil
		}
		return handle(ctx, items)
	}, o), c.following}
}

// Writes returns a signal that is set when a request of this process, other than background work, has
// written to the container.
func (c *Container) Writes() *changefeed.Signal { return &c.following.writes }

// writeSignals is a policy, per try, for requests: it sets the signals of a container after a write.
type writeSignals struct{ *shared }

// Do implements policy.Policy.
func (s writeSignals) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if path := containerPath(req.Raw().URL.EscapedPath()); path != "" && isWrite(req.Raw()) {
		f := s.followingOf(path)
		f.writes.Set()
		if unwatched := f.unwatched.Load(); unwatched == nil || !(*unwatched)() {
			f.wake.Set()
		}
	}
	return resp, err
}

// stringOf returns a string property of an item, "" if it is missing or of another type.
func stringOf(item []byte, property string) (value string) {
	for p := range jsonpart.Children(item) {
		if string(p.Name) == property {
			_ = json.Unmarshal(p.Value, &value)
			return value
		}
	}
	return ""
}

// CaughtUp reports whether the Tail has handled all changes older than ago. If it lags by more than half
// of ago, CaughtUp wakes it.
func (t *Tail) CaughtUp(ago time.Duration) bool {
	age := time.Now().UnixNano() - t.following.until.Load()
	if age > int64(ago/2) {
		t.following.wake.Set()
	}
	return age <= int64(ago)
}

// Failing reports whether the last attempt to read changes has failed.
func (t *Tail) Failing() bool { return t.following.failing.Load() }

// minRewake is the shortest interval after which CatchUp wakes the Tail again.
const minRewake = 10 * time.Millisecond

// CatchUp waits until the Tail has handled all changes older than ago.
func (t *Tail) CatchUp(ctx context.Context, ago time.Duration) error {
	since := time.Now().Add(-ago).UnixNano()
	for {
		reached := t.following.advanced.Next()
		if t.following.since.Load() != 0 && t.following.until.Load() > since {
			return nil
		}
		t.following.wake.Set()
		select {
		case <-reached:
		case <-time.After(max(ago, time.Duration(t.following.poll.Load()), minRewake)): // the Tail was not waiting for wake yet
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Run runs the changefeed.Tail. When it ends, caching ends.
func (t *Tail) Run(ctx context.Context) error {
	defer t.following.reset()
	return t.Tail.Run(ctx)
}
