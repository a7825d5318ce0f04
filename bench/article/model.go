package article

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/seed"
)

// model is a version of the article's data model, in a database of its own. All versions
// return the same results: V1 looks up the values that its items lack.
type model interface {
	seed.Target
	provision(ctx context.Context) error
	begin(ctx context.Context) error                                      // once for each client
	createUser(ctx context.Context, u *blog.User) error                   // C1
	user(ctx context.Context, id string) (*blog.User, error)              // Q1
	createPost(ctx context.Context, p *blog.Post) error                   // C2
	post(ctx context.Context, id string) (*blog.Post, error)              // Q2
	userPosts(ctx context.Context, userID string) ([]*blog.Post, error)   // Q3, short forms
	createComment(ctx context.Context, c *blog.Comment) error             // C3
	comments(ctx context.Context, postID string) ([]*blog.Comment, error) // Q4
	like(ctx context.Context, l *blog.Like) error                         // C4
	likes(ctx context.Context, postID string) ([]*blog.Like, error)       // Q5
	feed(ctx context.Context) ([]*blog.Post, error)                       // Q6, short forms
}

// The versions, in the article's order.
const (
	V1 = "v1"
	V2 = "v2"
	V3 = "v3"
)

// Versions returns the names of the models.
func Versions() []string { return []string{V1, V2, V3} }

// label returns the display name of a version.
func label(version string) string { return strings.ToUpper(version) }

// newModel returns a model.
func newModel(account *cosmos.Account, version, database string) (model, error) {
	if version == V3 {
		return newV3(account, database)
	}
	old, err := newV1(account, database)
	if version == V2 {
		return &v2{old}, err
	}
	return old, err
}

func hasStatus(err error, status int) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && r.StatusCode == status
}

// provision creates the database and the containers that are missing, with the default indexing policy.
// containers has the path of each partition key.
func provision(ctx context.Context, client *azcosmos.Client, database string, containers map[string]string) error {
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil)
	if err != nil && !hasStatus(err, http.StatusConflict) {
		return err
	}
	db, err := client.NewDatabase(database)
	if err != nil {
		return err
	}
	for name, key := range containers {
		_, err := db.CreateContainer(ctx, azcosmos.ContainerProperties{ID: name,
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{key}, Version: 2}}, nil)
		if err != nil && !hasStatus(err, http.StatusConflict) {
			return err
		}
	}
	return nil
}
