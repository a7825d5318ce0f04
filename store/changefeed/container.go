package changefeed

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Container is a container whose change feed is read, or that holds leases:
// *azcosmos.ContainerClient, or a wrapper or fake of it.
type Container interface {
	Read(context.Context, *azcosmos.ReadContainerOptions) (azcosmos.ContainerResponse, error)
	ReadFeedRanges(context.Context, *azcosmos.FeedRangesOptions) ([]azcosmos.FeedRange, error)
	ReadChangeFeed(context.Context, *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error)

	NewQueryItemsPager(query string, partition azcosmos.PartitionKey,
		o *azcosmos.QueryOptions) *runtime.Pager[azcosmos.QueryItemsResponse]
	ReadItem(_ context.Context, partition azcosmos.PartitionKey, id string,
		o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
	CreateItem(_ context.Context, partition azcosmos.PartitionKey, item []byte,
		o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
	ReplaceItem(_ context.Context, partition azcosmos.PartitionKey, id string, item []byte,
		o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
	DeleteItem(_ context.Context, partition azcosmos.PartitionKey, id string,
		o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error)
}
