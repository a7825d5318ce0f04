package store

import (
	"context"
	"errors"
	"fmt"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/provision"
	"byline/store/stored"
)

// Containers returns the names of the blog's containers, without leases.
func Containers() []string {
	return []string{blog.UsersContainer, blog.PostsContainer, blog.FeedContainer, blog.SearchContainer}
}

// containerSpecs returns every container's partition key and indexed paths. Only the paths that queries use
// are indexed, because each makes every write more expensive, and the partition key: without it, a query in
// a logical partition costs as much as a scan of the physical one. For the same reason a composite index begins
// with the partition key, and the queries that it serves name that in WHERE and ORDER BY.
func containerSpecs() []provision.ContainerSpec {
	sort := []string{"/type", "/creationDate", "/id"}
	return []provision.ContainerSpec{
		// ownerId is for deletions of users, which query all partitions for a user's reservations.
		{Name: blog.UsersContainer, PartitionKey: "/userId", Indexed: []string{"/userId", "/type", "/ownerId"},
			Composite: [][]string{append([]string{"/userId"}, sort...)}, TTL: true},
		// userId is for renames, which query all partitions for a user's items, filesOf for deletions of files, which
		// query them for the files that the user's posts use.
		{Name: blog.PostsContainer, PartitionKey: "/postId", Indexed: []string{"/postId", "/type", "/userId", "/filesOf"},
			Composite: [][]string{append([]string{"/postId"}, sort...)}, TTL: true},
		// authorId is for deletions of users, which query all partitions for a user's entries in timelines.
		{Name: blog.FeedContainer, PartitionKey: "/type", Indexed: []string{"/type", "/authorId"},
			Composite: [][]string{sort, {"/type", "/posts", "/id"}}, TTL: true},
		// kind is for listings of jobs. Some path must be indexed: azcosmos omits an empty includedPaths, and the
		// service may then index all paths.
		{Name: blog.LeasesContainer, PartitionKey: "/id", Indexed: []string{"/kind"}},
		// userId and tags are for searches that these restrict.
		{Name: blog.SearchContainer, PartitionKey: "/decade", Indexed: []string{"/decade", "/userId", "/tags/[]"},
			Composite: [][]string{{"/decade", "/creationDate", "/id"}}, TTL: true, FullText: []string{"/text"}},
	}
}

// DefaultMaxThroughput is the throughput of a new database: autoscale up to so many RU/s, the least that autoscale
// has, shared by the containers. Of it a tenth is billed while nothing happens.
const DefaultMaxThroughput = 1000

// DatabaseSpec returns the spec of the blog's database. For maxThroughput see provision.DatabaseSpec.
func DatabaseSpec(name string, maxThroughput int) provision.DatabaseSpec {
	return provision.DatabaseSpec{Name: name, MaxThroughput: maxThroughput, Containers: containerSpecs()}
}

// Provision creates the database, with DefaultMaxThroughput, and the containers that are missing, and keeps
// those that exist. Conflict if an existing one differs so that requests would break, or if the account has
// multi-region writes; Unavailable if this identity may not create what is missing. It can be repeated, and run
// in several processes at once.
func (s *Store) Provision(ctx context.Context) error {
	return Provision(ctx, s.account, DatabaseSpec(s.o.Database, DefaultMaxThroughput))
}

// Provision is Store.Provision without a store, and with the throughput of the spec.
func Provision(ctx context.Context, account *cosmos.Account, spec provision.DatabaseSpec) error {
	const op = "provision"
	err := provision.Create(ctx, account, spec)
	if errors.Is(err, cosmos.ErrMultiRegionWrites) {
		return &blog.Error{Code: blog.Conflict, Op: op, Message: err.Error()}
	}
	if broken := (*provision.ContainersError)(nil); errors.As(err, &broken) {
		return &blog.Error{Code: blog.Conflict, Op: op, Field: "database", Message: fmt.Sprintf(
			"database %s cannot be used: %v. Change the containers as docs/configuration.md has them, use another "+
				"database (or --data directory), or delete the containers if their data is not needed",
			spec.Name, broken)}
	}
	if missing := (*provision.MissingError)(nil); errors.As(err, &missing) {
		return &blog.Error{Code: blog.Unavailable, Op: op, Field: "database", Message: fmt.Sprintf(
			"%v: run \"byline provision --cosmos-endpoint %s --cosmos-database %s\" with the account's key in "+
				"COSMOS_KEY, or the commands that \"byline provision --template az --cosmos-database %[3]s\" prints",
			missing, account.Client().Endpoint(), spec.Name)}
	}
	return stored.Error(op, err)
}
