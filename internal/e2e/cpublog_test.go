package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"byline/graph/auth"
	"byline/graph/globalid"
	"byline/internal/account"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
	"byline/store/seed"
)

// cpuPattern is an access pattern of the article.
type cpuPattern struct {
	name, query string
	on          globalid.Kind // of the variable id; "" for none
	writes      bool
}

const (
	shortPost = `id title excerpt commentCount likeCount createdAt author { id username }`
	paged     = ` pageInfo { hasNextPage endCursor }`
)

var cpuPatterns = []cpuPattern{
	{name: "Q1", on: globalid.User, query: `query User($id: ID!) { user(id: $id) { id username createdAt } }`},
	{name: "Q2", on: globalid.Post,
		query: `query Post($id: ID!) { post(id: $id) { id title content commentCount likeCount createdAt author { id username } } }`},
	{name: "Q3", on: globalid.User,
		query: `query Posts($id: ID!) { user(id: $id) { posts(first: 20) { edges { node { ` + shortPost + ` } }` +
			paged + ` } } }`},
	{name: "Q4", on: globalid.Post,
		query: `query Comments($id: ID!) { post(id: $id) { comments(first: 25) { edges { node { id content createdAt author { id username } } }` + paged + ` } } }`},
	{name: "Q5", on: globalid.Post,
		query: `query Likes($id: ID!) { post(id: $id) { likes(first: 100) { edges { node { id createdAt user { id username } } }` + paged + ` } } }`},
	{name: "Q6", query: `query Feed { feed(first: 100) { edges { node { ` + shortPost + ` } }` + paged + ` } }`},
	{name: "C3", on: globalid.Post, writes: true,
		query: `mutation Comment($id: ID!, $content: String!) { createComment(input: {postId: $id, content: $content}) { comment { id } post { commentCount } } }`},
	{name: "C4", on: globalid.Post, writes: true,
		query: `mutation Like($id: ID!) { likePost(input: {postId: $id}) { like { id } post { likeCount } } }`},
}

// pathPatterns are the patterns of BenchmarkPath: also those that the peers lack.
var pathPatterns = append(slices.Clone(cpuPatterns),
	cpuPattern{name: "C1", writes: true,
		query: `mutation User($username: String!) { createUser(input: {username: $username}) { user { id } } }`},
	cpuPattern{name: "C2", writes: true,
		query: `mutation Post($title: String!, $content: String!) { createPost(input: {title: $title, content: $content}) { post { id } } }`},
)

// cpuSeed is the seed of the blog and of the requests.
const cpuSeed = 353

// maxDifferent is the number of different sets of variables of a read.
const maxDifferent = 1000

// cpuBlog is the data set of BenchmarkCPU. Each server assigns its own ids.
type cpuBlog struct {
	seed.Blog
	users       []string // names
	posts       []string // ids, oldest first
	sampleUsers []int    // different users, in random order
	samplePosts []int    // different posts, in random order
}

func newCPUBlog(users int) *cpuBlog {
	b := &cpuBlog{Blog: seed.Article(cpuSeed, users, auth.DemoUserID), users: make([]string, users)}
	type dated struct {
		date blog.Date
		id   string
	}
	posts := make([][]dated, users)
	each(users, func(i int) {
		b.users[i] = b.User(i).Username
		for n := range b.PostCount(i) {
			post := b.Thread(i, n).Post
			posts[i] = append(posts[i], dated{post.CreatedAt, post.ID})
		}
	})
	all := slices.Concat(posts...)
	slices.SortFunc(all, func(x, y dated) int { return cmp.Or(cmp.Compare(x.date, y.date), cmp.Compare(x.id, y.id)) })
	for _, post := range all {
		b.posts = append(b.posts, post.id)
	}
	random := rand.New(rand.NewPCG(cpuSeed, 0))
	b.sampleUsers = random.Perm(users)[:min(users, maxDifferent)]
	b.samplePosts = random.Perm(len(all))[:min(len(all), maxDifferent)]
	return b
}

// userID and postID are Byline's ids.
func (b *cpuBlog) userID(i int) string {
	return globalid.ID{Kind: globalid.User, Key: auth.DemoUserID(b.users[i])}.String()
}
func (b *cpuBlog) postID(i int) string {
	return globalid.ID{Kind: globalid.Post, Key: b.posts[i]}.String()
}

// different returns the number of different sets of variables of a read.
func (b *cpuBlog) different(p cpuPattern) int {
	switch p.on {
	case globalid.User:
		return len(b.sampleUsers)
	case globalid.Post:
		return len(b.samplePosts)
	}
	return 1
}

// request returns the n-th request of a pattern, and the name of the user who sends it; "" for no user.
// A random user writes, to a random post; C1 creates the n-th user.
func (b *cpuBlog) request(p cpuPattern, to *cpuSide, n int) (user string, body []byte) {
	variables := map[string]string{}
	if p.writes {
		random := rand.New(rand.NewPCG(cpuSeed, uint64(n)))
		user = b.users[random.IntN(len(b.users))]
		if p.on == globalid.Post {
			variables["id"] = to.post(random.IntN(len(b.posts)))
		}
	} else if p.on == globalid.User {
		variables["id"] = to.user(b.sampleUsers[n%len(b.sampleUsers)])
	} else if p.on == globalid.Post {
		variables["id"] = to.post(b.samplePosts[n%len(b.samplePosts)])
	}
	const sentence = "Every read of the front page is one request. "
	switch p.name {
	case "C1":
		user = fmt.Sprint("new-user-", n)
		variables["username"] = user
	case "C2":
		variables["title"], variables["content"] = sentence, strings.Repeat(sentence, 25)[:1000]
	case "C3":
		variables["content"] = strings.Repeat(sentence, 5)[:200]
	}
	body, err := json.Marshal(map[string]any{"query": p.query, "variables": variables})
	if err != nil {
		panic(err) // only strings
	}
	return user, body
}

// seedByline loads the blog as `byline seed` does.
func seedByline(b *testing.B, data string) {
	var log output
	cmd := bylineCommand("seed", "--data", data, "--users", strconv.Itoa(*cpuUsers), "--seed", strconv.Itoa(cpuSeed))
	cmd.Stderr = &log
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %s", err, &log)
	}
}

// inBlog calls load with a new blog in a data directory.
func inBlog(b testing.TB, data string, load func(*store.Store) error) {
	config := account.Flags{Data: data, CosmosDatabase: "blog", FeedPartitions: 1}
	log := slog.New(slog.DiscardHandler)
	db, err := config.Open(b.Context(), log, account.Options{Engine: emulator.Options{NoSync: true}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := config.Loader(db, log)
	if err == nil {
		err = s.Provision(b.Context())
	}
	if err == nil {
		err = s.Views().FillFeed(b.Context())
	}
	if err == nil {
		err = load(s)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		b.Fatal(err)
	}
}

// each calls f for the numbers below n, with limited concurrency.
func each(n int, f func(int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
