package stored

import (
	"context"
	"fmt"

	"byline/store/blog"
	"byline/store/cosmos"
)

// TimelineKey returns the key of the item of a timeline.
func TimelineKey(t blog.Timeline) cosmos.Key { return Key(blog.TimelinesKey, string(t)) }

// ReadTimeline reads the item of a timeline from the feed container. It returns nil if it does not exist.
func ReadTimeline(ctx context.Context, op string, feed *cosmos.Container, t blog.Timeline) (*blog.TimelineItem, error) {
	raw, err := Read(ctx, op, feed, TimelineKey(t))
	if raw == nil || err != nil {
		return nil, err
	}
	return DecodeTimeline(op, raw)
}

// DecodeTimeline decodes the item of a timeline.
func DecodeTimeline(op string, raw []byte) (*blog.TimelineItem, error) {
	var item blog.TimelineItem
	if err := blog.Unmarshal(raw, &item); err != nil {
		return nil, blog.Malformed(op, "timeline", err)
	}
	return &item, nil
}

// ReadCounter reads how many entries a month of a timeline has, given their partition.
func ReadCounter(ctx context.Context, op string, feed *cosmos.Container, partition string) (int64, error) {
	var c blog.CounterItem
	raw, err := Read(ctx, op, feed, Key(partition, blog.CounterID))
	if raw == nil || err != nil {
		return 0, err
	}
	if err := blog.Unmarshal(raw, &c); err != nil {
		return 0, blog.Malformed(op, "counter", err)
	}
	return c.Posts, nil
}

// ReadEntries reads the n newest entries of a month of a timeline that are older than after, or the n newest of all if
// that is the zero Entry: by one query, which the composite index serves. It takes a second request only if Cosmos DB
// ends a page early.
func ReadEntries(
	ctx context.Context, op string, feed *cosmos.Container, partition string, after blog.Entry, n int,
) ([]blog.Entry, error) {
	return readEntries(ctx, op, feed, blog.Entries, partition, after, n)
}

// ReadAuthoredEntries is ReadEntries with the authors of the posts.
func ReadAuthoredEntries(
	ctx context.Context, op string, feed *cosmos.Container, partition string, after blog.Entry, n int,
) ([]blog.AuthoredEntry, error) {
	return readEntries(ctx, op, feed, blog.AuthoredEntries, partition, after, n)
}

func readEntries[T any](
	ctx context.Context, op string, feed *cosmos.Container, format blog.Format[T], partition string, after blog.Entry,
	n int,
) (entries []T, err error) {
	q := cosmos.Query{Partition: partition, PageSize: int32(n)}.With("@partition", partition)
	older := " AND c.creationDate > ''" // the counter has none
	if after.ID != "" {
		older = " AND c.creationDate <= @date AND (c.creationDate < @date OR c.id < @id)"
		q = q.With("@date", after.CreatedAt).With("@id", after.ID)
	}
	const newestFirst = "ORDER BY c.type DESC, c.creationDate DESC, c.id DESC"
	q.Text = fmt.Sprintf("SELECT %s FROM c WHERE c.type = @partition%s %s", format.Fields, older, newestFirst)
	for body, err := range feed.QueryBodies(ctx, q) {
		if err != nil {
			return nil, Error(op, err)
		}
		some, err := format.Decode(body, *new(T), n+1)
		if err != nil {
			return nil, blog.Malformed(op, "listed", err)
		}
		entries = append(entries, some...)
		if len(entries) >= n {
			return entries[:n], nil
		}
	}
	return entries, nil
}
