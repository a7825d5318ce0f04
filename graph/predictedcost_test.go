package graph

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/globalid"
	"byline/graph/refusal"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
)

// predicted returns the prediction for a query's only operation.
func predicted(
	t testing.TB, schema *ast.Schema, query string, variables map[string]any, signedIn bool,
) cost.Prediction {
	t.Helper()
	document, err := gqlparser.LoadQueryWithRules(schema, query, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cost.Predict(document.Operations[0], variables, signedIn, cost.Blog{})
}

// The predicted cost of the access patterns, alone and with batches, is within a fifth of the actual charge.
func TestPredictedCost(t *testing.T) {
	testkit.Heavy(t)
	b, patterns := accessPatterns(t)
	read := func(subject, format string, args ...any) func(int) (string, string) {
		return func(int) (string, string) { return subject, b.fill(fmt.Sprintf(format, args...)) }
	}
	text := strings.Repeat("Every read of the front page is one request. ", 30)
	search := fmt.Sprintf(`seoTitle: "%s", seoDescription: "%s", canonicalUrl: "https://elsewhere.example/%s"`,
		strings.Repeat("語", 200), strings.Repeat("語", 500), strings.Repeat("a", 1974)) // as long as they may be
	patterns = append(patterns,
		accessPattern{"Q1, the viewer",
			read("user0001", `{ viewer { username createdAt posts(first: 1) { edges { cursor } } } }`)},
		accessPattern{"Q2, by node", read("", `{ node(id: "<post:post 0>") { ... on Post { title content } } }`)},
		accessPattern{"Q2 and Q4",
			read("", `{ post(id: "<post:post 0>") { title comments(first: 10) { edges { node { content } } } } }`)},
		accessPattern{"a user's number of posts", read("", `{ user(id: "<user:user0000>") { postCount } }`)},
		accessPattern{"Q4 and the number of comments",
			read("", `{ post(id: "<post:post 0>") { comments(first: 10) { totalCount edges { node { content } } } } }`)},
		accessPattern{"a user by name", read("", `{ userByUsername(username: "user0002") { id createdAt } }`)},
		accessPattern{"Q5 and its users",
			read("", `{ post(id: "<post:post 0>") { likes(first: 100) { edges { node { user { createdAt } } } } } }`)},
		accessPattern{"Q4 and the comments' post",
			read("", `{ post(id: "<post:post 0>") { comments(first: 25) { edges { node { post { title } } } } } }`)},
		accessPattern{"Q4 of several posts",
			read("", `{ feed(first: 5) { edges { node { comments(first: 1) { edges { cursor } } likes(first: 1) { edges { cursor } } } } } }`)},
		accessPattern{"nodes of all types",
			read("", `{ nodes(ids: ["<user:user0001>", "<user:user0002>", "<post:post 0>", "<post:post 1>", "<post:post 2>", "<like:user0001>", "<like:user0002>"]) { id } }`)},
		accessPattern{"a field with @skip",
			read("", `{ post(id: "<post:post 0>") { title comments(first: 25) @skip(if: true) { edges { cursor } } } }`)},
		accessPattern{"createUser with a key",
			read("keyed", `mutation { createUser(input: {username: "keyed", idempotencyKey: "k"}) { user { id } } }`)},
		accessPattern{"updateUser",
			read("user0009", `mutation { updateUser(input: {username: "other0009"}) { user { id } } }`)},
		accessPattern{"deleteUser",
			read("user0008", `mutation { deleteUser(input: {username: "user0008"}) { deletedUserId } }`)},
		accessPattern{"updatePost",
			read("user0000",
				`mutation { updatePost(input: {id: "<post:post 3>", title: "t"}) { post { title content } } }`)},
		accessPattern{"drafts", read("user0001", `{ viewer { drafts(first: 20) { edges { node { title } } } } }`)},
		accessPattern{"publishPost",
			read("user0001", `mutation { publishPost(input: {id: "<post:draft>"}) { post { title content } } }`)},
		accessPattern{"deletePost",
			read("user0000", `mutation { deletePost(input: {id: "<post:post 4>"}) { deletedPostId } }`)},
		accessPattern{"updateComment",
			read("user0001",
				`mutation { updateComment(input: {id: "<comment:of user0001>", content: "c"}) { comment { content } } }`)},
		accessPattern{"deleteComment",
			read("user0001", `mutation { deleteComment(input: {id: "<comment:of user0001>"}) { deletedCommentId } }`)},
		accessPattern{"updateUser of the username",
			read("user0002", `mutation { updateUser(input: {username: "user2"}) { user { username } } }`)},
		accessPattern{"updateUser of all",
			read("user0003", `mutation { updateUser(input: {username: "user3", displayName: "n", avatarUrl: "/a", bio: "b"}) {
				user { username } } }`)},
		accessPattern{"updateUser of the display name",
			read("user0004", `mutation { updateUser(input: {displayName: "n"}) { user { username } } }`)},
		accessPattern{"updateUser of the avatar",
			read("user0004", `mutation { updateUser(input: {avatarUrl: "/a"}) { user { username } } }`)},
		accessPattern{"updateUser of the biography",
			read("user0004", `mutation { updateUser(input: {bio: "b"}) { user { username } } }`)},
		accessPattern{"updateUser without the biography",
			read("user0004", `mutation { updateUser(input: {bio: null}) { user { username } } }`)},
		accessPattern{"updateUser of nothing", read("user0004", `mutation { updateUser(input: {}) { user { username } } }`)},
		accessPattern{"updatePost of the content",
			read("user0000", `mutation { updatePost(input: {id: "<post:post 5>", content: "c"}) { post { title } } }`)},
		accessPattern{"updatePost of the tags",
			read("user0000", `mutation { updatePost(input: {id: "<post:post 5>", tags: ["t"]}) { post { title } } }`)},
		accessPattern{"updatePost of nothing",
			read("user0000", `mutation { updatePost(input: {id: "<post:post 5>"}) { post { title } } }`)},
		accessPattern{"createPost of a draft",
			read("user0005", `mutation { createPost(input: {title: "t", content: %q, draft: true}) {
				post { title } } }`, text)},
		accessPattern{"createPost of a draft with a key",
			read("user0005", `mutation { createPost(input: {title: "t", content: %q, draft: true, idempotencyKey: "k"}) {
				post { title } } }`, text)},
		accessPattern{"createPost of a long draft",
			read("user0005", `mutation { createPost(input: {title: "t", content: %q, draft: true}) {
				post { title } } }`, strings.Repeat(text, 10))},
		accessPattern{"createPost with texts for search engines",
			read("user0006", `mutation { createPost(input: {title: "t", content: %q, %s}) { post { title } } }`, text, search)},
		accessPattern{"createPost of a draft with texts for search engines",
			read("user0006", `mutation { createPost(input: {title: "t", content: %q, %s, draft: true}) {
				post { title } } }`, text, search)},
		accessPattern{"updatePost of the texts for search engines",
			read("user0000", `mutation { updatePost(input: {id: "<post:post 5>", %s}) { post { title } } }`, search)},
		accessPattern{"createPost with a cover",
			read("user0006", `mutation { createPost(input: {title: "t", content: %q, coverImage: {
				url: "https://pictures.example/2026/a-harbour-in-the-morning-1200.jpg", alt: "Boats in the morning light"}}) {
				post { title } } }`, text)},
		accessPattern{"unlikePost",
			read("user0001", `mutation { unlikePost(input: {postId: "<post:post 0>"}) { post { likeCount } } }`)},
	)
	for i := range 20 {
		id, _ := globalid.Parse(b.names[fmt.Sprint("post:post ", 20+i)])
		b.like(t, "user0050", id.Key)
		if _, err := b.store.BookmarkPost(t.Context(), subjectID("user0050"), id.Key); err != nil {
			t.Fatal(err)
		}
	}
	patterns = append(patterns,
		accessPattern{"bookmarkPost",
			read("user0050", `mutation { bookmarkPost(input: {id: "<post:post 3>"}) { post { title } } }`)},
		accessPattern{"removeBookmark",
			read("user0050", `mutation { removeBookmark(input: {id: "<post:post 20>"}) { post { title } } }`)},
		accessPattern{"whether posts are bookmarked",
			read("user0051", `{ feed(first: 20) { edges { node { viewerHasBookmarked } } } }`)},
		accessPattern{"the number of bookmarks", read("user0050", `{ viewer { bookmarks { totalCount } } }`)},
	)
	for _, n := range []int{1, 10, 20} {
		for _, list := range []string{"bookmarks", "likedPosts"} {
			patterns = append(patterns, accessPattern{fmt.Sprint(n, " ", list),
				read("user0050", `{ viewer { %s(first: %d) { edges { node { title } } } } }`, list, n)})
		}
	}
	for i := range 100 {
		name := fmt.Sprintf("user%04d", i)
		if i > 20 {
			b.follow(t, name, "user0020")
		}
		if i != 19 {
			b.follow(t, "user0019", name)
		}
	}
	patterns = append(patterns,
		accessPattern{"followUser",
			read("user0001", `mutation { followUser(input: {id: "<user:user0003>"}) { user { followerCount viewerFollows } } }`)},
		accessPattern{"unfollowUser",
			read("user0030", `mutation { unfollowUser(input: {id: "<user:user0020>"}) { user { followerCount } } }`)},
		accessPattern{"a user's counts of follows",
			read("user0001", `{ user(id: "<user:user0020>") { followerCount followingCount viewerFollows } }`)},
	)
	for _, n := range []int{1, 20, 79} {
		patterns = append(patterns,
			accessPattern{fmt.Sprintf("%d followers", n), read("", `{ user(id: "<user:user0020>") {
				followers(first: %d) { totalCount edges { node { id username } } } } }`, n)},
			accessPattern{fmt.Sprintf("%d followers and whether the viewer follows them", n), read("user0001",
				`{ user(id: "<user:user0020>") { followers(first: %d) { edges { node { username viewerFollows } } } } }`, n)},
			accessPattern{fmt.Sprintf("%d followed authors", n), read("", `{ user(id: "<user:user0019>") {
				following(first: %d) { totalCount edges { node { id username } } } } }`, n)})
	}
	b.settle(t)
	b.project(t, b.caughtUp)
	for _, n := range []int{1, 2, 10, 100} {
		patterns = append(patterns,
			accessPattern{fmt.Sprintf("Q6 of %d", n), read("", `{ feed(first: %d) { edges { node { title } } } }`, n)},
			accessPattern{fmt.Sprintf("Q6 and %d contents", n),
				read("", `{ feed(first: %d) { edges { node { content } } } }`, n)},
			accessPattern{fmt.Sprintf("Q6 and %d likes of the viewer", n),
				read("user0001", `{ feed(first: %d) { edges { node { viewerHasLiked } } } }`, n)})
	}
	post0, err := parseID("", b.names["post:post 0"])
	if err != nil {
		t.Fatal(err)
	}
	b.comment(t, "user0001", post0.Key, "of user0001")
	for range 20 {
		a := post(t, b, "demo:user0001",
			`mutation { createPost(input: {title: "t", content: "`+text+`", draft: true}) { post { id } } }`, nil)
		_, rest, _ := strings.Cut(a.body, `"id":"`)
		b.names["post:draft"], _, _ = strings.Cut(rest, `"`)
	}
	schema := readSchema(t)
	without := map[string]bool{} // the mutations that no case executes
	for _, f := range schema.Mutation.Fields {
		without[f.Name] = true
	}
	delete(without, "createUpload") // no request charges it
	for _, p := range patterns {
		t.Run(p.name, func(t *testing.T) {
			subject, query := p.query(0)
			for mutation := range without {
				if strings.Contains(query, "mutation { "+mutation+"(") {
					delete(without, mutation)
				}
			}
			token := ""
			if subject != "" {
				token = "demo:" + subject
			}
			b.wire.reset()
			if a := post(t, b, token, query, nil); a.code() != "" {
				t.Fatal(a.body)
			}
			want, got := b.wire.charged(), predicted(t, schema, query, nil, subject != "").RU
			t.Logf("charged %.2f RU, predicted %.2f", want, got)
			if math.Abs(got-want) > want/5 {
				t.Errorf("charged %.2f RU, predicted %.2f: %v", want, got, b.wire.seen())
			}
		})
	}
	for mutation := range without {
		t.Errorf("no case executes %s: a wrong price would not be found", mutation)
	}
}

// The predicted cost of a home feed is within a fifth of the actual charge at 100 follows. Who reads it first causes
// the requests that load the index, and is not charged for them.
func TestPredictedCost_Home(t *testing.T) {
	b := newBlog(t, Options{})
	text := strings.Repeat("Every read of the front page is one request. ", 30)
	b.user(t, "ada")
	for i := range 100 {
		name := fmt.Sprintf("user%04d", i)
		b.user(t, name)
		b.follow(t, "ada", name)
		if i < 30 {
			b.post(t, name, fmt.Sprint("post ", i), text)
		}
	}
	b.project(t, b.caughtUp)
	const query = `{ viewer { home(first: 20) { edges { node { title author { username } } } } } }`
	a, c := withCost(t, newInstance(t, b, "one", 5*time.Millisecond), "demo:ada", query, "summary")
	want := predicted(t, readSchema(t), query, nil, true).RU
	t.Logf("charged %.2f RU, predicted %.2f", c.ActualRU, want)
	if strings.Count(a.body, "title") != 20 || c.Requests != 3 || math.Abs(c.ActualRU-want) > c.ActualRU/5 {
		t.Errorf("charged %.2f RU in %d requests, predicted %.2f: %s", c.ActualRU, c.Requests, want, a.body)
	}
}

// The predicted cost of the lists that a timeline serves is within a fifth of the actual charge, as is that of a page
// where the newest posts end.
func TestPredictedCost_Timelines(t *testing.T) {
	testkit.Heavy(t)
	b := newBlog(t, Options{})
	b.user(t, "ada")
	text := strings.Repeat("Every read of a tag is two requests. ", 37)
	for i := range 230 {
		b.post(t, "ada", fmt.Sprint("post ", i), text, "tag")
	}
	b.project(t, b.caughtUp)                                    // more posts than settle looks at
	b.store.Views().SeeTimeline(&blog.TimelineItem{Full: true}) // as Run does
	schema := readSchema(t)
	check := func(query string) testResponse {
		t.Helper()
		b.wire.reset()
		a := post(t, b, "", query, nil)
		if a.code() != "" {
			t.Fatal(a.body)
		}
		want, got := b.wire.charged(), predicted(t, schema, query, nil, false).RU
		t.Logf("charged %.2f RU, predicted %.2f: %.60s", want, got, query)
		if math.Abs(got-want) > want/5 {
			t.Errorf("charged %.2f RU, predicted %.2f: %v", want, got, b.wire.seen())
		}
		return a
	}
	check(`{ tags { name postCount } }`)
	check(`{ months { month postCount } }`)
	check(`{ feed(first: 20) { totalCount edges { node { title } } } }`)
	for _, n := range []int{1, 20, 100} {
		check(fmt.Sprintf(`{ archive(month: "2026-03", first: %d) { totalCount edges { node { title } } } }`, n))
	}
	check(`{ feed(first: 1) { totalCount } }`)
	check(`{ tag(name: "tag") { posts(first: 20) { totalCount edges { node { title } } } } }`)
	check(`{ userByUsername(username: "ada") { posts(first: 20) { ...F } } } fragment F on PostConnection { edges { node { title } } total: totalCount }`)
	for _, n := range []int{1, 20, 100} {
		check(fmt.Sprintf(`{ tag(name: "tag") { name postCount posts(first: %d) { edges { node { title } } } } }`, n))
	}
	cursor := ""
	for _, n := range []int{20, 70, 20, 20, 100} { // the third page ends after the newest 100
		query := fmt.Sprintf(
			`{ feed(first: %d, after: %q) { edges { node { title } } pageInfo { hasNextPage endCursor } } }`, n, cursor)
		a := check(query)
		if count := strings.Count(a.body, `"title"`); count != n ||
			!strings.Contains(a.body, `"hasNextPage":`+fmt.Sprint(n < 100)) {
			t.Errorf("%d posts: %.100s", count, a.body)
		}
		_, cursor, _ = strings.Cut(a.body, `"endCursor":"`)
		cursor, _, _ = strings.Cut(cursor, `"`)
	}
}

// The predicted cost of a search is within a fifth of the charge once the statistics of its words are known, of full
// pages in both orders.
func TestPredictedCost_Search(t *testing.T) {
	testkit.Heavy(t)
	b := newBlog(t, Options{})
	b.user(t, "ada")
	text := strings.Repeat("Every read of a tag is two requests. ", 37)
	for i := range 240 {
		b.post(t, "ada", fmt.Sprint("post ", i), text+[]string{"Zebras.", "No stripes."}[i%2], "tag")
	}
	b.project(t, b.caughtUp)
	for _, query := range []string{"zebra", "requests", "read requests", "every read tag zebra", "requests -stripes"} {
		for _, order := range []store.SearchOrder{store.ByRelevance, store.ByDate} {
			for _, n := range []int{1, 20, 100} {
				document := fmt.Sprintf(`{ search(query: %q, order: %s, first: %d) { edges { node { title } } } }`, query, order, n)
				search := func() (charged, predicted float64) {
					a, c := withCost(t, b, "", document, "detail")
					if found := strings.Count(a.body, `"title"`); a.code() != "" || found != n {
						t.Fatalf("%d posts: %.500s", found, a.body)
					}
					return c.ActualRU, c.PredictedRU
				}
				search() // reads the statistics
				charged, predicted := search()
				t.Logf("%s %s %d: charged %.2f RU, predicted %.2f", order, query, n, charged, predicted)
				if math.Abs(predicted-charged) > charged/5 {
					t.Errorf("%s: charged %.2f RU, predicted %.2f", document, charged, predicted)
				}
			}
		}
	}

	// How many posts a tag or an author has is not known: the prediction is that of a search whose words are not,
	// either.
	const unknown = `{ search(query: "every read unknown") { edges { node { title } } } }`
	_, c := withCost(t, b, "", unknown, "detail")
	want := c.PredictedRU
	for _, filter := range []string{`tag: "tag"`, `author: "<user:ada>"`, `tag: "tag", author: "<user:ada>"`} {
		for _, order := range []store.SearchOrder{store.ByRelevance, store.ByDate} {
			document := b.fill(fmt.Sprintf(`{ search(query: "requests", order: %s, %s) { edges { node { title } } } }`, order,
				filter))
			a, c := withCost(t, b, "", document, "detail")
			if found := strings.Count(a.body, `"title"`); a.code() != "" || found != 20 {
				t.Fatalf("%d posts: %.500s", found, a.body)
			}
			t.Logf("%s %s: charged %.2f RU, predicted %.2f", order, filter, c.ActualRU, c.PredictedRU)
			if c.PredictedRU != want || c.ActualRU > want {
				t.Errorf("%s: charged %.2f RU, predicted %.2f, want %.2f", document, c.ActualRU, c.PredictedRU, want)
			}
		}
	}
}

// A partitioned feed is written in each of its partitions and read in one. Predictions and Explain account for that.
func TestPredictedCost_PartitionedFeed(t *testing.T) {
	const partitions = 4
	b := newBlogOf(t, Options{}, store.Options{FeedPartitions: partitions}, 0)
	b.user(t, "ada")
	text := strings.Repeat("Every read of the front page is one request. ", 30)
	for _, title := range []string{"one", "two"} {
		b.post(t, "ada", title, text)
	}
	b.settle(t)
	for _, query := range []string{
		`mutation { createPost(input: {title: "t", content: "` + text + `"}) { post { title } } }`,
		`mutation { updatePost(input: {id: "<post:one>", title: "t"}) { post { title } } }`,
		`mutation { deletePost(input: {id: "<post:two>"}) { deletedPostId } }`,
		`{ feed(first: 1) { edges { node { title } } } }`,
	} {
		query = b.fill(query)
		a, c := withCost(t, b, "ada", query, "detail")
		if a.code() != "" {
			t.Fatal(a.body)
		}
		t.Logf("charged %.2f RU, predicted %.2f", c.ActualRU, c.PredictedRU)
		if math.Abs(c.PredictedRU-c.ActualRU) > c.ActualRU/5 {
			t.Errorf("%.30s: charged %.2f RU, predicted %.2f", query, c.ActualRU, c.PredictedRU)
		}
		explained, err := cost.Explain(Schema(true), query, nil, partitions)
		if err != nil {
			t.Fatal(err)
		}
		if explained[0].PredictedRU != c.PredictedRU {
			t.Errorf("%.30s: explained as %.2f RU, predicted %.2f", query, explained[0].PredictedRU, c.PredictedRU)
		}
		explainedKey, want := "", 0
		for _, r := range explained[0].Fields[0].Requests {
			if r.Container == "feed" {
				explainedKey = r.PartitionKey
			}
		}
		switch explainedKey {
		case "(one of post.0 to post.3)":
			want = 1
		case "(each of post.0 to post.3)":
			want = partitions
		}
		used := map[string]bool{}
		for _, o := range c.Operations {
			if o.Container == "feed" {
				used[o.PartitionKey[0]] = true
			}
		}
		if len(used) != want {
			t.Errorf("%.30s: explained as %q, executed in %v", query, explainedKey, used)
		}
	}
}

func TestCostLimit(t *testing.T) {
	a := post(t, newTestHandler(t, Options{}), "",
		`{ front: feed(first: 100) { edges { node { likes(first: 1) { edges { cursor } } comments(first: 100) { edges { cursor } } } } } }`, nil)
	if a.code() != "QUERY_TOO_EXPENSIVE" || a.Data != nil || a.field() != "front.edges.node.comments" {
		t.Error(a.body)
	}
	for _, says := range []string{"932 RU", "the limit of 400 RU", "front.edges.node.comments with 602 RU"} {
		if !strings.Contains(a.Errors[0].Message, says) {
			t.Errorf("does not say %q: %s", says, a.Errors[0].Message)
		}
	}
	const nodes = `(ids: $ids) { ... on User { posts(first: 100) { edges { node { comments(first: 100) { edges { cursor } } } } } } } }`
	for name, tt := range map[string]struct {
		query string
		ids   any
	}{
		"a list of one":            {`query($ids: [ID!]!) { nodes` + nodes, []any{userGlobalID("u")}},
		"a single id for the list": {`query($ids: [ID!]!) { nodes` + nodes, userGlobalID("u")},
		"a single id for the list, by default": {`query($ids: [ID!]! = "` + userGlobalID("u") + `") { nodes` + nodes,
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			variables := map[string]any{}
			if tt.ids != nil {
				variables["ids"] = tt.ids
			}
			if a := post(t, newTestHandler(t, Options{}), "", tt.query,
				variables); a.code() != "QUERY_TOO_EXPENSIVE" || a.field() != "nodes.posts.edges.node.comments" {
				t.Error(a.body)
			}
		})
	}
	long := strings.Repeat("a", document.MaxAlias)
	a = post(t, newTestHandler(t, Options{}), "",
		`{ `+long+`: feed(first: 100) { `+long+`: edges { `+long+
			`: node { comments(first: 100) { edges { cursor } } } } } }`, nil)
	if a.code() != "QUERY_TOO_EXPENSIVE" || a.field() != (long + "." + long)[:refusal.MaxMessage]+"..." ||
		len(a.body) > 3*refusal.MaxMessage {
		t.Errorf("%d bytes: %.300s", len(a.body), a.body)
	}
}
