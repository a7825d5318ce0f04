package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/graph/globalid"
	"byline/internal/account"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
)

// attackedBlog is a blog that two instances serve to an attacker and to other viewers.
type attackedBlog struct {
	provider  *identityProvider
	engine    string       // its URL
	store     *store.Store // of the test
	instances []*process
	client    graphQLClient
	others    []string // tokens of the other viewers
	publisher string   // the token of the author of long posts
	posts     []string // global ids
	longest   string   // the global id of the longest post
	probed    string   // the global id of the post that probes comment on
	commented string   // the global id of the post with the renamer's comments
	comment   string   // the global id of the last of those comments
	cursors   []string // of comments on that post
	probes    int
	rows      []string
}

const commentedPost = "post-renamer0"

var (
	renamersComments  = testkit.Pick(300, 20_000)
	commentersSeeded  = maxCommented - 10
	attackedFor       = testkit.Pick(time.Second, 10*time.Second)
	openSubscriptions = testkit.Pick(2*1500, 15_000)
)

func newAttackedBlog(t *testing.T) *attackedBlog {
	t.Helper()
	w := &attackedBlog{provider: startProvider(t), engine: startChargedEngine(t)}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	w.client = graphQLClient{&http.Client{Transport: transport}}
	t.Cleanup(transport.CloseIdleConnections)
	w.seed(t)
	for range attackInstances {
		p := startProcess(t, "--cosmos-endpoint", w.engine, "--auth-issuer", w.provider.URL, "--auth-audience",
			"byline")
		p.WaitReady()
		eventually(t, func() error {
			if c := identityCheck(&p.Instance); !c.OK {
				return errors.New(c.Detail)
			}
			return nil
		})
		w.instances = append(w.instances, p)
	}
	for i := range 8 {
		token := w.provider.token(t, fmt.Sprint("reader", i))
		w.others = append(w.others, token)
		w.must(t, token, createUser, map[string]any{"name": fmt.Sprint("reader", i)})
	}
	author := w.provider.token(t, "author")
	w.publisher = w.provider.token(t, "publisher")
	w.must(t, w.publisher, createUser, map[string]any{"name": "publisher"})
	post := func(content string) string {
		return at(t, w.must(t, author, createPost, map[string]any{"title": "t", "content": content}),
			"createPost.post.id").(string)
	}
	w.must(t, author, createUser, map[string]any{"name": "author"})
	for after := any(nil); len(w.cursors) < 400; {
		page := w.must(t, author,
			`query($id: ID!, $after: String) { post(id: $id) { comments(first: 100, after: $after) { edges { cursor } } } }`, map[string]any{"id": w.commented, "after": after})
		for _, edge := range at(t, page, "post.comments.edges").([]any) {
			w.cursors = append(w.cursors, find(edge, "cursor").(string))
		}
		after = w.cursors[len(w.cursors)-1]
	}
	w.longest, w.probed = post(strings.Repeat("𝄞", 100_000)), post("probed")
	return w
}

// seed imports posts, and a post with many comments of the renamer and nearly as many as possible of the commenter.
func (w *attackedBlog) seed(t *testing.T) {
	t.Helper()
	flags := account.Flags{CosmosEndpoint: w.engine, CosmosDatabase: "blog"}
	db, err := flags.Open(t.Context(), testkit.Logger(), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if w.store, err = flags.Loader(db, testkit.Logger()); err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-24 * time.Hour)
	user := func(name string) *blog.User {
		return &blog.User{Byline: blog.Byline{UserID: blog.UserID(w.provider.URL, name), Username: name},
			CreatedAt: blog.NewDate(began), Revision: 1}
	}
	renamer, commenter, writer := user("renamer"), user("commenter"), user("writer")
	post := func(author *blog.User, i int) store.Thread {
		return store.Thread{Post: &blog.Post{ID: fmt.Sprint("post-", author.Username, i), Byline: author.Byline,
			Title:     fmt.Sprint("post ", i),
			Content:   strings.Repeat("Every read of the front page is one request. ", 30),
			CreatedAt: blog.NewDate(began.Add(time.Duration(i) * time.Second)), Version: 1, Revision: 1}}
	}
	threads := map[*blog.User][]store.Thread{commenter: nil, renamer: {post(renamer, 0)}}
	var posts []*blog.Post
	for i := range attackBlogPosts {
		threads[writer] = append(threads[writer], post(writer, i))
		posts = append(posts, threads[writer][i].Post)
		w.posts = append(w.posts, globalid.ID{Kind: globalid.Post, Key: posts[i].ID}.String())
	}
	many := &threads[renamer][0]
	for i := range renamersComments + commentersSeeded {
		by := commenter
		if i >= commentersSeeded {
			by = renamer
		}
		many.Comments = append(many.Comments,
			&blog.Comment{ID: fmt.Sprintf("comment-%05d", i), PostID: many.Post.ID, Byline: by.Byline,
				Content: "well put", CreatedAt: blog.NewDate(began.Add(time.Duration(i) * time.Millisecond))})
	}
	many.Post.CommentCount, many.Post.Revision = int32(len(many.Comments)), int64(1+len(many.Comments))
	w.commented = globalid.ID{Kind: globalid.Post, Key: many.Post.ID}.String()
	w.comment = globalid.ID{Kind: globalid.Comment, Parent: many.Post.ID,
		Key: many.Comments[len(many.Comments)-1].ID}.String()

	if err := w.store.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	for u, theirs := range threads {
		if err := w.store.Import(t.Context(), u, slices.Values(theirs)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.ImportFeed(t.Context(), append(posts, many.Post)); err != nil {
		t.Fatal(err)
	}
}

// send sends an operation; token and session may be "".
func (w *attackedBlog) send(
	ctx context.Context, instance int, token, session, query string, variables map[string]any,
) (reply, error) {
	return w.client.send(ctx, w.instances[instance].Root, token, session, operation{query, variables})
}

// sendWithRetry sends an operation to the first instance. In the short form it retries, for a minute at most, if
// the instance is overloaded.
func (w *attackedBlog) sendWithRetry(
	ctx context.Context, token, query string, variables map[string]any,
) (reply, error) {
	r, err := w.send(ctx, 0, token, "", query, variables)
	for began := time.Now(); err == nil && r.code() == "UNAVAILABLE" && !testkit.Long() &&
		time.Since(began) < time.Minute; {
		<-time.After(100 * time.Millisecond)
		r, err = w.send(ctx, 0, token, "", query, variables)
	}
	return r, err
}

// must is sendWithRetry for operations that have to succeed, and returns their data.
func (w *attackedBlog) must(t *testing.T, token, query string, variables map[string]any) map[string]any {
	t.Helper()
	r, err := w.sendWithRetry(t.Context(), token, query, variables)
	if err != nil || r.code() != "" {
		t.Fatalf("%s: %v %v", query, err, r.Errors)
	}
	return r.Data
}

// charges returns the charges of the engine so far.
func (w *attackedBlog) charges(t *testing.T) (sum charges) {
	t.Helper()
	r, err := w.client.Get(w.engine + "/charges")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

// metric returns the sum of a metric of the instances.
func (w *attackedBlog) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	for _, p := range w.instances {
		all, err := scrape(p.Root)
		if err != nil {
			t.Fatal(err)
		}
		n, ok := total(all, name, nil)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		sum += n
	}
	return sum
}
