package cosmos

import (
	"context"
	"iter"
	"net/url"
	"slices"

	"byline/store/cosmos/itemcache"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Container is a container whose partition keys are single strings.
type Container struct {
	*shared
	client   *azcosmos.ContainerClient
	database string
	path     string // /dbs/<database>/colls/<name>
	cached   *itemcache.Container
}

// ETag is the version of an item.
type ETag = azcore.ETag

// Item is an item as read or written. The zero value is a missing item.
type Item struct {
	Value []byte // JSON; nil if the item is missing or was not requested
	ETag  ETag
}

// Key names an item.
type Key struct{ Partition, ID string }

// pathOf returns the path of a container.
func pathOf(database, name string) string {
	return "/dbs/" + url.PathEscape(database) + "/colls/" + url.PathEscape(name)
}

func partitionKey(s string) azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(s) }

// ifMatch returns the options of a write that is conditional on an ETag; of an unconditional one if it
// is "".
func ifMatch(etag ETag) *azcosmos.ItemOptions {
	if etag == "" {
		return nil
	}
	return &azcosmos.ItemOptions{IfMatchEtag: &etag}
}

// Name returns the container's name.
func (c *Container) Name() string { return c.client.ID() }

// Read is a point read. It returns the zero Item if the item does not exist.
func (c *Container) Read(ctx context.Context, k Key) (Item, error) {
	r, err := c.client.ReadItem(ctx, partitionKey(k.Partition), k.ID, nil)
	if isMissing(err) {
		return Item{}, nil
	}
	return Item{r.Value, r.ETag}, wrap(err)
}

// ReadPrimary reads an item from the primary replica, where batches are executed; nil if it does not exist.
// Other replicas may lag, and the caller may have no session token: an instance that has just taken over a
// job has none. With the token of the response, later requests see no older state of the partition.
func (c *Container) ReadPrimary(ctx context.Context, k Key) ([]byte, error) {
	var b Batch
	b.Read(k.ID)
	r, err := c.Batch(ctx, k.Partition, &b)
	if err != nil || r.Failed >= 0 { // a read fails with 404 only
		return nil, err
	}
	return r.Items[0], nil
}

// ReadMany reads items in one request for each partition key range, in no order; missing items are
// omitted. A single item is a point read, which costs less. An item may be returned twice; the later
// one is not older.
func (c *Container) ReadMany(ctx context.Context, keys []Key) ([][]byte, error) {
	switch len(keys) {
	case 0:
		return nil, nil
	case 1:
		item, err := c.Read(ctx, keys[0])
		if item.Value == nil || err != nil {
			return nil, err
		}
		return [][]byte{item.Value}, nil
	}
	all := make([]azcosmos.ItemIdentity, len(keys))
	for i, k := range keys {
		all[i] = azcosmos.ItemIdentity{ID: k.ID, PartitionKey: partitionKey(k.Partition)}
	}
	ctx, x := withPageItems(ctx)
	_, err := c.client.ReadManyItems(ctx, all, nil)
	if err == nil {
		err = ctx.Err() // then azcosmos omits items without an error
	}
	if err != nil {
		return nil, wrap(err)
	}
	return x.items, nil
}

// Create creates an item. It fails with 409 if the item exists.
func (c *Container) Create(ctx context.Context, partition string, item []byte) error {
	_, err := c.client.CreateItem(ctx, partitionKey(partition), item, nil)
	return c.writeError(ctx, partition, err)
}

// Replace replaces an item, and returns the new ETag. Unless etag is "", it fails with 412 if the item
// has another ETag.
func (c *Container) Replace(ctx context.Context, k Key, item []byte, etag ETag) (ETag, error) {
	r, err := c.client.ReplaceItem(ctx, partitionKey(k.Partition), k.ID, item, ifMatch(etag))
	return r.ETag, c.writeError(ctx, k.Partition, err)
}

// Delete deletes an item, under the condition of Replace.
func (c *Container) Delete(ctx context.Context, k Key, etag ETag) error {
	_, err := c.client.DeleteItem(ctx, partitionKey(k.Partition), k.ID, ifMatch(etag))
	return c.writeError(ctx, k.Partition, err)
}

// Patch changes an item, under the conditions of the patch.
func (c *Container) Patch(ctx context.Context, k Key, p Patch) (Item, error) {
	o := ifMatch(p.IfMatch)
	if p.ReturnItem {
		if o == nil {
			o = &azcosmos.ItemOptions{}
		}
		o.EnableContentResponseOnWrite = true
	}
	patch, _ := withRequestBody(ctx, p.appendTo(nil))
	r, err := c.client.PatchItem(patch, partitionKey(k.Partition), k.ID, azcosmos.PatchOperations{}, o)
	return Item{r.Value, r.ETag}, c.writeError(ctx, k.Partition, err)
}

// writeError returns the error of a write as an *Error. After an ambiguous write, the session token of
// the write is missing, so writeError fetches the partition's newest with a batch, which is executed
// where writes are. A later read of the outcome then waits for a replica that has the write.
func (c *Container) writeError(ctx context.Context, partition string, err error) error {
	if err == nil {
		return nil
	}
	e := ErrorOf(err)
	if e.Ambiguous() && ctx.Err() == nil {
		b := Batch{NoItems: true}
		b.Read(partition) // the item need not exist
		_, _ = c.execute(ctx, partition, &b)
	}
	return e
}

// Query is a query of one partition, or of all.
type Query struct {
	Text          string
	Partition     string
	AllPartitions bool  // never on the request path
	PageSize      int32 // largest number of items in a page; 0: Cosmos DB's default

	// Continuation is the position of the first page, as QueryPage returned it for the same query; "" is
	// the beginning. Cosmos DB refuses the continuation of another query with 400.
	Continuation string

	parameters []azcosmos.QueryParameter
}

// With returns the query with an additional parameter, which has a name such as "@id".
func (q Query) With(name string, value any) Query {
	q.parameters = append(slices.Clip(q.parameters), azcosmos.QueryParameter{Name: name, Value: value})
	return q
}

func (q Query) arguments() (azcosmos.PartitionKey, *azcosmos.QueryOptions) {
	o := &azcosmos.QueryOptions{PageSizeHint: q.PageSize, QueryParameters: q.parameters}
	if q.Continuation != "" {
		o.ContinuationToken = &q.Continuation
	}
	if q.AllPartitions {
		return azcosmos.NewPartitionKey(), o
	}
	return partitionKey(q.Partition), o
}

// Query returns the pages of items that a query selects. Pages may be empty. An error ends the sequence.
func (c *Container) Query(ctx context.Context, q Query) iter.Seq2[[][]byte, error] {
	return pages(ctx, c, q, withPageItems, func(x *rawBodies) [][]byte { return x.items })
}

// QueryPage returns one page of items that a query selects, which may be empty, and the continuation of
// the next page: "" after the last.
func (c *Container) QueryPage(ctx context.Context, q Query) (items [][]byte, continuation string, err error) {
	key, o := q.arguments()
	ctx, x := withPageItems(ctx)
	page, err := c.client.NewQueryItemsPager(q.Text, key, o).NextPage(ctx)
	if err != nil {
		return nil, "", wrap(err)
	}
	if page.ContinuationToken != nil {
		continuation = *page.ContinuationToken
	}
	return x.items, continuation, nil
}

// QueryBodies is Query for callers that decode whole pages: each is an object whose Documents are the
// items.
func (c *Container) QueryBodies(ctx context.Context, q Query) iter.Seq2[[]byte, error] {
	return pages(ctx, c, q, withResponseBody, func(x *rawBodies) []byte { return x.body })
}

func pages[T any](
	ctx context.Context, c *Container, q Query, capture func(context.Context) (context.Context, *rawBodies),
	result func(*rawBodies) T,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		key, o := q.arguments()
		pager := c.client.NewQueryItemsPager(q.Text, key, o)
		for pager.More() {
			pageCtx, x := capture(ctx)
			if _, err := pager.NextPage(pageCtx); err != nil {
				var none T
				yield(none, wrap(err))
				return
			}
			if !yield(result(x), nil) {
				return
			}
		}
	}
}
