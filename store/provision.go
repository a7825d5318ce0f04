package store

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The containers of the article's V3, and the one that the change feed needs.
const (
	usersContainer  = "users"
	postsContainer  = "posts"
	feedContainer   = "feed"
	leasesContainer = "leases"
)

// Containers returns the names of the containers that hold the blog.
func Containers() []string { return []string{usersContainer, postsContainer, feedContainer} }

// containers describes every container: its partition key and what it indexes.
// Only what the queries use is indexed, because each path that is left out
// lowers the price of every write.
func containers() []azcosmos.ContainerProperties {
	container := func(id, partitionKey string, ttl *int32, paths []string, composite ...string) azcosmos.ContainerProperties {
		p := &azcosmos.IndexingPolicy{
			Automatic:     true,
			IndexingMode:  azcosmos.IndexingModeConsistent,
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
		}
		for _, path := range paths {
			p.IncludedPaths = append(p.IncludedPaths, azcosmos.IncludedPath{Path: path + "/?"})
		}
		var columns []azcosmos.CompositeIndex
		for _, path := range composite {
			columns = append(columns, azcosmos.CompositeIndex{Path: path, Order: azcosmos.CompositeIndexAscending})
		}
		if columns != nil {
			p.CompositeIndexes = [][]azcosmos.CompositeIndex{columns}
		}
		return azcosmos.ContainerProperties{
			ID:                     id,
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{partitionKey}, Version: 2},
			IndexingPolicy:         p,
			DefaultTimeToLive:      ttl,
		}
	}
	tombstones := int32(-1) // items live for ever unless they carry a ttl
	return []azcosmos.ContainerProperties{
		container(usersContainer, "/userId", &tombstones, []string{"/type"}, "/type", "/creationDate", "/id"),
		// userId serves the renames, which look for a user's items in all partitions.
		container(postsContainer, "/postId", &tombstones, []string{"/type", "/userId"}, "/type", "/creationDate", "/id"),
		container(feedContainer, "/type", &tombstones, nil, "/creationDate", "/id"),
		container(leasesContainer, "/id", nil, nil),
	}
}

// Provision creates the database and the containers that are missing. What
// exists is left as it is, except that a container whose partition key is not
// the expected one is refused with an Error of code Conflict. Safe to repeat,
// and to run in several processes at once.
func (s *Store) Provision(ctx context.Context) error {
	const op = "provision"
	if _, err := s.database.Read(ctx, nil); hasStatus(err, http.StatusNotFound) {
		_, err = s.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: s.o.Database}, nil)
		if err != nil && !hasStatus(err, http.StatusConflict) {
			return cosmosError(op, fmt.Errorf("create database %s: %w", s.o.Database, err))
		}
	} else if err != nil {
		return cosmosError(op, fmt.Errorf("read database %s: %w", s.o.Database, err))
	}
	for _, want := range containers() {
		if err := s.provisionContainer(ctx, want); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) provisionContainer(ctx context.Context, want azcosmos.ContainerProperties) error {
	const op = "provision"
	c, err := s.database.NewContainer(want.ID)
	if err != nil {
		return &Error{Code: Internal, Op: op, Err: err}
	}
	r, err := c.Read(ctx, nil)
	if hasStatus(err, http.StatusNotFound) {
		_, err = s.database.CreateContainer(ctx, want, nil)
		if !hasStatus(err, http.StatusConflict) {
			if err != nil {
				return cosmosError(op, fmt.Errorf("create container %s: %w", want.ID, err))
			}
			return nil
		}
		r, err = c.Read(ctx, nil) // another process was faster
	}
	if err != nil {
		return cosmosError(op, fmt.Errorf("read container %s: %w", want.ID, err))
	}
	have, need := r.ContainerProperties.PartitionKeyDefinition.Paths, want.PartitionKeyDefinition.Paths
	if !slices.Equal(have, need) {
		return &Error{Code: Conflict, Op: op, Field: "database", Message: fmt.Sprintf(
			"container %s of database %s is partitioned by %v, not by %v, and a partition key cannot be changed: use another database, or delete the container if its data is not needed",
			want.ID, s.o.Database, have, need)}
	}
	return nil
}
