package article

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"golang.org/x/sync/errgroup"
)

func key(s string) azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(s) }

func param(name string, value any) azcosmos.QueryParameter {
	return azcosmos.QueryParameter{Name: name, Value: value}
}

// query returns all results of a query.
func query[T any](
	ctx context.Context, c *azcosmos.ContainerClient, partition azcosmos.PartitionKey, text string,
	parameters ...azcosmos.QueryParameter,
) ([]T, error) {
	var all []T
	pager := c.NewQueryItemsPager(text, partition, &azcosmos.QueryOptions{QueryParameters: parameters})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, raw := range page.Items {
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// queryRanges runs a cross-partition query on each feed range, several at a time. The caller merges the results.
// azcosmos sends cross-partition queries to the gateway, which refuses ORDER BY and TOP.
func (m *v1) queryRanges(ctx context.Context, text string, parameters ...azcosmos.QueryParameter) ([]item, error) {
	results := make([][]item, len(m.ranges))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, id := range m.ranges {
		g.Go(func() (err error) {
			results[i], err = query[item](policy.WithHTTPHeader(gctx, http.Header{rangeHeader: {id}}), m.posts,
				azcosmos.NewPartitionKey(), text, parameters...)
			return err
		})
	}
	err := g.Wait()
	return slices.Concat(results...), err
}

const rangeHeader = "x-ms-documentdb-partitionkeyrangeid"

// rangeIDs returns the ids of a container's partition key ranges. The client does not
// expose them, but each session token begins with one.
func rangeIDs(ctx context.Context, c *azcosmos.ContainerClient) ([]string, error) {
	ranges, err := c.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range ranges {
		page, err := c.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &r, MaxItemCount: 1})
		if err != nil {
			return nil, err
		}
		id, _, _ := strings.Cut(page.RawResponse.Header.Get("x-ms-session-token"), ":")
		ids = append(ids, id)
	}
	return ids, nil
}
