package graph

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"byline/graph/auth"
	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/files"
)

// bill is a transport that sums the charges of requests for items, but for leases and for the listings of jobs: how
// many of these are sent depends on the time alone.
type bill struct {
	to policy.Transporter

	mu sync.Mutex
	ru float64 // guarded by mu
}

func (b *bill) Do(r *http.Request) (*http.Response, error) {
	response, err := b.to.Do(r)
	_, path, _ := strings.Cut(r.URL.Path, "/colls/")
	id, isLease := strings.CutPrefix(path, "leases/docs/")
	isLease = isLease && !strings.HasPrefix(id, "rename.") && !strings.HasPrefix(id, "delete")
	isListing := strings.HasPrefix(path, "leases/") && r.Header.Get("x-ms-documentdb-query") != ""
	if err == nil && strings.Contains(path, "/docs") && !isLease && !isListing {
		ru, _ := strconv.ParseFloat(response.Header.Get("x-ms-request-charge"), 64)
		b.mu.Lock()
		b.ru += ru
		b.mu.Unlock()
	}
	return response, err
}

// take returns the charges since the last take.
func (b *bill) take() (ru float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ru, b.ru = b.ru, 0
	return ru
}

// newFleet returns a blog that several instances serve on a fake clock, of which the first answers, and their bill.
func newFleet(t *testing.T, instances int) (*testBlog, *bill) {
	t.Helper()
	engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	charges := &bill{to: engine}
	pictures, err := files.NewFolder(t.TempDir(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &testBlog{names: map[string]string{}}
	for i := range instances {
		s, err := store.New(enginetest.Account(t, engine, cosmos.Options{Transport: charges, CacheBytes: 1 << 20}),
			store.Options{Instance: fmt.Sprint("instance-", i), PollInterval: time.Second, Files: pictures})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := s.Provision(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.store = s
			b.Handler, err = NewHandler(Options{Store: s, Verifier: auth.DemoVerifier(), Logger: testkit.Logger()})
			if err != nil {
				t.Fatal(err)
			}
		}
		go func() { _ = s.Run(t.Context()) }()
		testkit.Advance(time.Second)
	}
	return b, charges
}

// checkLater executes a mutation, and compares what it is predicted to charge later with what all instances then
// charge, less what they charged before.
func (b *testBlog) checkLater(t *testing.T, charges *bill, tolerance float64, viewer, mutation string) {
	t.Helper()
	const window = 5 * time.Minute
	testkit.Advance(time.Minute + 337*time.Millisecond) // no poll is due at this moment
	charges.take()
	testkit.Advance(window)
	idle := charges.take()
	a, c := withCost(t, b, viewer, b.fill("mutation { "+mutation+" }"), "summary")
	if a.code() != "" {
		t.Fatal(a.body)
	}
	_, id, _ := strings.Cut(a.body, `"id":"`)
	b.names["last"], _, _ = strings.Cut(id, `"`)
	testkit.Advance(window)
	later := charges.take() - idle - c.ActualRU
	off, of := c.LaterRU-later, later
	switch name, _, _ := strings.Cut(mutation, "("); name {
	case "publishPost", "updatePost", "deletePost":
		// The request and the projections race for the writes of views: only what both charge can be predicted.
		off, of, tolerance = off+c.PredictedRU-c.ActualRU, later+c.ActualRU, tolerance*2/3
	case "removeBookmark":
		of = max(later, 1) // the poll that it wakes may be due anyway
		off = c.LaterRU - of
	}
	t.Logf("charged %.1f RU, later %.1f, predicted %.1f, %d items, off by %.0f%%: %.40s", c.ActualRU, later, c.LaterRU,
		c.LaterItems, 100*off/of, mutation)
	if math.Abs(off) > tolerance*of {
		t.Errorf("charged %.1f RU, predicted %.1f; later %.1f, predicted %.1f: %s", c.ActualRU, c.PredictedRU, later,
			c.LaterRU, mutation)
	}
}

var laterText = strings.Repeat("Every read of the front page is one request. ", 30)

const laterCover = `coverImage: {url: "https://pictures.example/boats.png", alt: "Three boats in a harbour"}`

// What views and jobs charge after each mutation is predicted within 30%, or 20% with the request where these race,
// with one and with three instances.
func TestLaterRU(t *testing.T) {
	testkit.Heavy(t)
	for _, instances := range []int{1, 3} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testLaterRU(t, instances) })
		})
	}
}

func testLaterRU(t *testing.T, instances int) {
	b, charges := newFleet(t, instances)
	var ids []string
	for _, name := range []string{"ada", "grace", "alan", "idle", "follower", "followed"} {
		b.user(t, name)
	}
	write := func(author string, n int, tags ...string) {
		for i := range n {
			ids = append(ids, b.post(t, author, fmt.Sprint(author, " ", i), laterText, tags...))
			testkit.Advance(time.Millisecond)
		}
	}
	write("ada", 110)
	for _, name := range []string{"commenter", "liker", "poster", "tagger"} {
		b.user(t, name)
		for i := range 20 {
			switch name {
			case "commenter":
				b.comment(t, name, ids[i], fmt.Sprint("comment ", i))
			case "liker":
				b.like(t, name, ids[i])
			}
		}
	}
	write("poster", 20)
	write("tagger", 20, "tag", "two")
	write("alan", 20, "tag")
	for i := range 20 {
		b.like(t, "grace", ids[len(ids)-1-i])
		b.comment(t, "grace", ids[len(ids)-1-i], fmt.Sprint("comment of grace ", i))
		b.comment(t, "alan", ids[i], fmt.Sprint("comment of alan ", i))
		b.like(t, "alan", ids[i])
		b.comment(t, "grace", ids[105], fmt.Sprint("another of grace ", i))
	}
	for i := range 20 {
		other := fmt.Sprint("other", i)
		b.user(t, other)
		b.follow(t, "follower", other)
		b.follow(t, other, "followed")
	}
	testkit.Advance(10 * time.Minute)
	without := map[string]bool{} // the mutations that no case executes
	for _, f := range readSchema(t).Mutation.Fields {
		without[f.Name] = true
	}
	for _, c := range []struct{ viewer, mutation string }{
		{"new", `createUser(input: {username: "new"}) { user { id } }`},
		{"ada", `updateUser(input: {username: "ada", bio: "of engines"}) { user { id } }`},
		{"alan", `updateUser(input: {username: "turing"}) { user { id } }`},
		{"alan", `updateUser(input: {displayName: "Alan", avatarUrl: "/a"}) { user { id } }`},
		{"commenter", `updateUser(input: {displayName: "C"}) { user { id } }`},
		{"liker", `updateUser(input: {displayName: "L"}) { user { id } }`},
		{"poster", `updateUser(input: {displayName: "P"}) { user { id } }`},
		{"idle", `updateUser(input: {displayName: "I"}) { user { id } }`},
		{"ada", `createPost(input: {title: "new", content: "` + laterText + `"}) { post { id } }`},
		{"ada", `createPost(input: {title: "new", content: "` + laterText + `", ` + laterCover + `}) { post { id } }`},
		{"ada", `createPost(input: {title: "n", content: "` + laterText + `", tags: ["one", "two"]}) { post { id } }`},
		{"ada", `createPost(input: {title: "n", content: "` + laterText + `", draft: true}) { post { id } }`},
		{"ada", `publishPost(input: {id: "<last>"}) { post { id } }`},
		{"ada", `updatePost(input: {id: "<post:ada 100>", title: "changed"}) { post { id } }`},
		{"ada", `updatePost(input: {id: "<post:ada 100>", ` + laterCover + `}) { post { id } }`},
		{"ada", `updatePost(input: {id: "<post:ada 100>", content: "changed"}) { post { id } }`},
		{"ada", `updatePost(input: {id: "<post:ada 100>", tags: ["tag"]}) { post { id } }`},
		{"ada", `createComment(input: {postId: "<post:ada 100>", content: "Nice."}) { comment { id } }`},
		{"ada", `updateComment(input: {id: "<last>", content: "Good."}) { comment { id } }`},
		{"ada", `deleteComment(input: {id: "<last>"}) { deletedCommentId }`},
		{"ada", `likePost(input: {postId: "<post:ada 100>"}) { post { id } }`},
		{"ada", `unlikePost(input: {postId: "<post:ada 100>"}) { post { id } }`},
		{"ada", `bookmarkPost(input: {id: "<post:ada 100>"}) { post { id } }`},
		{"ada", `removeBookmark(input: {id: "<post:ada 100>"}) { post { id } }`},
		{"ada", `followUser(input: {id: "<user:grace>"}) { user { id } }`},
		{"ada", `unfollowUser(input: {id: "<user:grace>"}) { user { id } }`},
		{"follower", `updateUser(input: {displayName: "F"}) { user { id } }`},
		{"follower", `deleteUser(input: {username: "follower"}) { deletedUserId }`},
		{"followed", `deleteUser(input: {username: "followed"}) { deletedUserId }`},
		{"ada", `deletePost(input: {id: "<post:ada 100>"}) { deletedPostId }`},
		{"ada", `deletePost(input: {id: "<post:ada 102>"}) { deletedPostId }`},
		{"ada", `deletePost(input: {id: "<post:ada 105>"}) { deletedPostId }`},
		{"tagger", `deletePost(input: {id: "<post:tagger 0>"}) { deletedPostId }`},
		{"idle", `deleteUser(input: {username: "idle"}) { deletedUserId }`},
		{"commenter", `deleteUser(input: {username: "commenter"}) { deletedUserId }`},
		{"liker", `deleteUser(input: {username: "liker"}) { deletedUserId }`},
		{"poster", `deleteUser(input: {username: "poster"}) { deletedUserId }`},
		{"tagger", `deleteUser(input: {username: "tagger"}) { deletedUserId }`},
		{"alan", `deleteUser(input: {username: "turing"}) { deletedUserId }`},
	} {
		b.checkLater(t, charges, .3, c.viewer, c.mutation)
		name, _, _ := strings.Cut(c.mutation, "(")
		delete(without, name)
	}
	delete(without, "createUpload") // it writes nothing
	for mutation := range without {
		t.Errorf("no case executes %s", mutation)
	}
}

// The rename of an author of 5,000 items is predicted within 10%.
func TestLaterRU_ProlificAuthor(t *testing.T) {
	testkit.Heavy(t)
	for _, instances := range []int{1, 3} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, charges := newFleet(t, instances)
				b.user(t, "ada")
				b.user(t, "grace")
				var ids []string
				for i := range 500 {
					ids = append(ids, b.post(t, []string{"ada", "grace"}[i%2], fmt.Sprint("post ", i), laterText))
					testkit.Advance(time.Millisecond)
				}
				for i := range 4750 {
					if post := ids[i%500]; i < 4250 {
						b.comment(t, "ada", post, fmt.Sprint("comment ", i))
					} else {
						b.like(t, "ada", post)
					}
				}
				testkit.Advance(time.Hour)
				b.checkLater(t, charges, .1, "ada", `updateUser(input: {username: "lovelace"}) { user { id } }`)
			})
		})
	}
}
