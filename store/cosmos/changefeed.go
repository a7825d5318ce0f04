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

// ChangeFeed returns the container as package changefeed takes it: as the source of changes,
// or for the leases of a processor.
func (c *Container) ChangeFeed() changefeed.Container { return changeFeed{c.client} }

// changeFeed is a container whose pages of changes arrive undecoded.
type changeFeed struct{ *azcosmos.ContainerClient }

// ReadChangeFeed reads a page of the change feed.
func (c changeFeed) ReadChangeFeed(ctx context.Context, o *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error) {
	ctx, x := receivingItems(ctx)
	page, err := c.ContainerClient.ReadChangeFeed(ctx, o)
	page.Items = x.items
	return page, err
}

// Tail follows the changes of a container from when it runs. While it does, items and pages
// of the container are cached.
type Tail struct {
	*changefeed.Tail
	following *following
}

// Tail makes a Tail, which hands the changes to handle unless that is nil. property names an
// item's partition.
func (c *Container) Tail(property string, handle changefeed.Handler, o changefeed.Options) *Tail {
	if c.cache == nil {
		if handle == nil {
			handle = func(context.Context, [][]byte) error { return nil }
		}
		o.OnDemand, o.Wake = nil, &c.following.wanted // nothing but writes would wake it
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

// Writes is signalled when this process has written to the container at a client's request, and not
// for background work.
func (c *Container) Writes() *changefeed.Signal { return &c.following.writes }

// writeSignals is a policy of requests: it signals what they write to those who follow it.
type writeSignals struct{ *shared }

// Do implements policy.Policy.
func (s writeSignals) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if path := containerPath(req.Raw().URL.EscapedPath()); path != "" && isWrite(req.Raw()) {
		f := s.followingOf(path)
		f.writes.Set()
		if onDemand := f.onDemand.Load(); onDemand == nil || !(*onDemand)() {
			f.wanted.Set()
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

// Within reports whether the changes up to some time ago have been handled. After half of that time
// it wakes the Tail.
func (t *Tail) Within(ago time.Duration) bool {
	age := time.Now().UnixNano() - t.following.until.Load()
	if age > int64(ago/2) {
		t.following.wanted.Set()
	}
	return age <= int64(ago)
}

// Failing reports whether the last attempt to read changes has failed.
func (t *Tail) Failing() bool { return t.following.failing.Load() }

// CatchUp waits until the Tail has handled the changes up to some time ago.
func (t *Tail) CatchUp(ctx context.Context, ago time.Duration) error {
	since := time.Now().Add(-ago).UnixNano()
	for {
		reached := t.following.news.Next()
		if t.following.since.Load() != 0 && t.following.until.Load() >= since {
			return nil
		}
		t.following.wanted.Set()
		select {
		case <-reached:
		case <-time.After(ago): // it was not waiting yet
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Run is changefeed.Tail's. When it ends, changes are not known any more.
func (t *Tail) Run(ctx context.Context) error {
	defer t.following.reset()
	return t.Tail.Run(ctx)
}
