package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// ContainerSpec describes a container to create.
type ContainerSpec struct {
	Name         string
	PartitionKey string   // a path
	Indexed      []string // paths; nothing else is indexed
	Composite    []string // paths of a composite index, ascending; may be empty
	TTL          bool     // items may carry a ttl
}

func (s ContainerSpec) properties() azcosmos.ContainerProperties {
	policy := &azcosmos.IndexingPolicy{
		Automatic:     true,
		IndexingMode:  azcosmos.IndexingModeConsistent,
		ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
	}
	for _, path := range s.Indexed {
		policy.IncludedPaths = append(policy.IncludedPaths, azcosmos.IncludedPath{Path: path + "/?"})
	}
	var columns []azcosmos.CompositeIndex
	for _, path := range s.Composite {
		columns = append(columns, azcosmos.CompositeIndex{Path: path, Order: azcosmos.CompositeIndexAscending})
	}
	if columns != nil {
		policy.CompositeIndexes = [][]azcosmos.CompositeIndex{columns}
	}
	p := azcosmos.ContainerProperties{
		ID:                     s.Name,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{s.PartitionKey}, Version: 2},
		IndexingPolicy:         policy,
	}
	if s.TTL {
		unlessTold := int32(-1) // items live for ever unless they carry a ttl
		p.DefaultTimeToLive = &unlessTold
	}
	return p
}

// PartitionKeyError says that a container exists with another partition key, which cannot
// be changed.
type PartitionKeyError struct {
	Container  string
	Have, Want []string // paths
}

// Error implements error.
func (e *PartitionKeyError) Error() string {
	return fmt.Sprintf("container %s is partitioned by %v, not by %v", e.Container, e.Have, e.Want)
}

// Provision creates the database and the containers that are missing. What exists stays as
// it is. It may be repeated, and run in several processes at once. A *PartitionKeyError
// says that a container is there, but partitioned in another way.
func (a *Account) Provision(ctx context.Context, database string, containers ...ContainerSpec) error {
	db, err := a.client.NewDatabase(database)
	if err != nil {
		return err
	}
	if _, err := db.Read(ctx, nil); HasStatus(err, http.StatusNotFound) {
		_, err = a.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil)
		if err != nil && !HasStatus(err, http.StatusConflict) {
			return fmt.Errorf("create database %s: %w", database, wrap(err))
		}
	} else if err != nil {
		return fmt.Errorf("read database %s: %w", database, wrap(err))
	}
	for _, spec := range containers {
		if err := provisionContainer(ctx, db, spec); err != nil {
			return err
		}
	}
	return nil
}

func provisionContainer(ctx context.Context, db *azcosmos.DatabaseClient, spec ContainerSpec) error {
	c, err := db.NewContainer(spec.Name)
	if err != nil {
		return err
	}
	want := spec.properties()
	r, err := c.Read(ctx, nil)
	if HasStatus(err, http.StatusNotFound) {
		_, err = db.CreateContainer(ctx, want, nil)
		if !HasStatus(err, http.StatusConflict) {
			if err != nil {
				return fmt.Errorf("create container %s: %w", spec.Name, wrap(err))
			}
			return nil
		}
		r, err = c.Read(ctx, nil) // another process was faster
	}
	if err != nil {
		return fmt.Errorf("read container %s: %w", spec.Name, wrap(err))
	}
	have, need := r.ContainerProperties.PartitionKeyDefinition.Paths, want.PartitionKeyDefinition.Paths
	if !slices.Equal(have, need) {
		return &PartitionKeyError{spec.Name, have, need}
	}
	return nil
}
