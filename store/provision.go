package store

import (
	"context"
	"errors"
	"fmt"

	"byline/store/blog"
	"byline/store/cosmos"
)

// Containers returns the names of the containers that hold the blog.
func Containers() []string {
	return []string{blog.UsersContainer, blog.PostsContainer, blog.FeedContainer}
}

// containerSpecs describes every container: its partition key and what it indexes.
// Only what the queries use is indexed, because each path that is left out
// lowers the price of every write.
func containerSpecs() []cosmos.ContainerSpec {
	sort := []string{"/type", "/creationDate", "/id"}
	return []cosmos.ContainerSpec{
		{Name: blog.UsersContainer, PartitionKey: "/userId", Indexed: []string{"/type"}, Composite: sort, TTL: true},
		// userId serves the renames, which look for a user's items in all partitions.
		{Name: blog.PostsContainer, PartitionKey: "/postId", Indexed: []string{"/type", "/userId"}, Composite: sort, TTL: true},
		{Name: blog.FeedContainer, PartitionKey: "/type", Composite: sort[1:], TTL: true},
		{Name: blog.LeasesContainer, PartitionKey: "/id"},
	}
}

// Provision creates the database and the containers that are missing. What
// exists is left as it is, except that a container whose partition key is not
// the expected one is refused with an Error of code Conflict. Safe to repeat,
// and to run in several processes at once.
func (s *Store) Provision(ctx context.Context) error {
	const op = "provision"
	err := s.account.Provision(ctx, s.o.Database, containerSpecs()...)
	if other := (*cosmos.PartitionKeyError)(nil); errors.As(err, &other) {
		return &blog.Error{Code: blog.Conflict, Op: op, Field: "database", Message: fmt.Sprintf(
			"container %s of database %s is partitioned by %v, not by %v, and a partition key cannot be changed: use another database, or delete the container if its data is not needed",
			other.Container, s.o.Database, other.Have, other.Want)}
	}
	return blog.CosmosError(op, err)
}
