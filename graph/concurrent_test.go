package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Likes do not change the version of a post, so an edit that expects a version never conflicts with them.
func TestUpdatePost_ConcurrentLikesDoNotConflict(t *testing.T) {
	const fans = 50
	setup := func(t *testing.T) (b *testBlog, like func(i int)) {
		b = smallBlog(t, Options{})
		for i := range fans {
			b.user(t, fmt.Sprintf("fan%02d", i))
		}
		query := b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`)
		return b, func(i int) {
			if a := post(t, b, fmt.Sprintf("demo:fan%02d", i), query, nil); a.code() != "" {
				t.Error(a.body)
			}
		}
	}
	edit := func(t *testing.T, b *testBlog, version int) (after, likes int) {
		t.Helper()
		a := post(t, b, "demo:ada",
			b.fill(`mutation($v: Int!, $t: String!) { updatePost(input: {id: "<post:notes>", title: $t, version: $v}) { post { version likeCount } } }`),
			map[string]any{"v": version, "t": fmt.Sprint("new ", version)})
		var data struct {
			UpdatePost struct {
				Post struct{ Version, LikeCount int }
			}
		}
		if err := json.Unmarshal(a.Data, &data); err != nil || a.code() != "" {
			t.Fatalf("an edit of version %d: %s", version, a.body)
		}
		return data.UpdatePost.Post.Version, data.UpdatePost.Post.LikeCount
	}

	t.Run("concurrently", func(t *testing.T) {
		b, like := setup(t)
		var liked atomic.Int32
		var likes sync.WaitGroup
		for i := range fans {
			likes.Go(func() {
				like(i)
				liked.Add(1)
			})
		}
		version, count, during := 1, 0, 0
		for done := false; !done; {
			before := liked.Load()
			done = before == fans
			next, n := edit(t, b, version)
			if next != version+1 || n < count || n < int(before) {
				t.Fatalf("version %d with %d likes became version %d with %d likes, after %d likes had succeeded",
					version, count, next, n, before)
			}
			version, count = next, n
			if liked.Load() > before {
				during++
			}
		}
		likes.Wait()
		if count != fans {
			t.Errorf("%d likes, want %d", count, fans)
		}
		t.Logf("%d edits, likes during %d of them", version-1, during)
	})

	// All likes arrive after the edit has begun its write and before Cosmos DB receives it.
	t.Run("just before the write", func(t *testing.T) {
		b, like := setup(t)
		var once sync.Once
		b.wire.setFail(func(r *http.Request) (*http.Response, error) {
			if (r.Method == http.MethodPatch || r.Method == http.MethodPut) && strings.Contains(r.URL.Path, "/posts/") {
				once.Do(func() {
					for i := range fans {
						like(i)
					}
				})
			}
			return nil, nil
		})
		if version, likes := edit(t, b, 1); version != 2 || likes != fans {
			t.Errorf("version %d with %d likes, want version 2 with %d", version, likes, fans)
		}
	})
}

// All users like and comment on one post concurrently, each twice. Half of them repeat the comment with the same
// idempotency key, as a client does after an ambiguous write.
func TestPost_ConcurrentLikesAndComments(t *testing.T) {
	const users = 64
	b := newBlog(t, Options{})
	b.user(t, "author")
	b.post(t, "author", "popular", "c")
	for i := range users {
		b.user(t, fmt.Sprintf("user%02d", i))
	}
	var wg sync.WaitGroup
	send := func(i int, query string, variables map[string]any) {
		wg.Go(func() {
			if a := post(t, b, fmt.Sprintf("demo:user%02d", i), b.fill(query), variables); a.code() != "" {
				t.Error(a.body)
			}
		})
	}
	for i := range users {
		for range 2 {
			var key any
			if i%2 == 0 {
				key = "again"
			}
			send(i, `mutation { likePost(input: {postId: "<post:popular>"}) { like { id } post { likeCount viewerHasLiked } } }`, nil)
			send(i, `mutation($key: String) { createComment(input: {postId: "<post:popular>", content: "me too", idempotencyKey: $key}) { comment { id } post { commentCount } } }`,
				map[string]any{"key": key})
		}
	}
	wg.Wait()
	b.wire.checkPartitions(t)

	var data struct {
		Post struct{ LikeCount, CommentCount int }
	}
	a := post(t, b, "", b.fill(`{ post(id: "<post:popular>") { likeCount commentCount } }`), nil)
	if err := json.Unmarshal(a.Data, &data); err != nil {
		t.Fatal(a.body)
	}
	all := func(list, fragment string) int {
		seen := map[string]bool{}
		after := ""
		for more := true; more; {
			p := page(t, b,
				fmt.Sprintf(b.fill(`{ post(id: "<post:popular>") { %s(first: 50%s) { ...%s } } }`), list, after,
					fragment), []string{"post", list})
			for _, id := range p.ids() {
				if seen[id] {
					t.Errorf("%s is listed twice", id)
				}
				seen[id] = true
			}
			after, more = fmt.Sprintf(", after: %q", p.PageInfo.EndCursor), p.PageInfo.HasNextPage
		}
		return len(seen)
	}
	if likes := all("likes", "L"); likes != users || data.Post.LikeCount != users {
		t.Errorf("likeCount %d, %d likes, want %d", data.Post.LikeCount, likes, users)
	}
	if comments, want := all("comments", "C"), users/2+users; comments != want || data.Post.CommentCount != want {
		t.Errorf("commentCount %d, %d comments, want %d", data.Post.CommentCount, comments, want)
	}
}
