package e2e

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"byline/internal/testkit"
)

// TestKill kills the server under load repeatedly, and checks that no acknowledged write is lost and that
// every projection is equal to its source.
func TestKill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startProcess(t, "--data", data, "--no-demo")
	ada := at(t, p.Do("ada", createUser, map[string]any{"name": "ada"}), "createUser.user.id")
	target := at(t, p.Do("ada", createPost, map[string]any{"title": "target", "content": "x"}), "createPost.post.id")
	type written struct{ id, title string }
	var mu sync.Mutex
	var posts []written
	comments := map[string]int{}
	for round := range 3 {
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				for n := 0; ; n++ {
					title := fmt.Sprintf("%d-%d-%d", round, worker, n)
					out, err := p.Post("ada", createPost, map[string]any{"title": title, "content": "x"})
					if err != nil || out.Errors != nil {
						return // killed
					}
					mu.Lock()
					posts = append(posts, written{find(out.Data, "createPost.post.id").(string), title})
					mu.Unlock()
					out, err = p.Post("ada", createComment, map[string]any{"post": target, "content": title})
					if err != nil || out.Errors != nil {
						return
					}
					mu.Lock()
					comments[find(out.Data, "createComment.comment.id").(string)]++
					mu.Unlock()
				}
			})
		}
		testkit.WaitFor(t, func() bool { // in the middle of the writes that follow
			mu.Lock()
			defer mu.Unlock()
			return len(posts)+len(comments) >= 40*(round+1)
		})
		p.Kill()
		wg.Wait()
		p = startProcess(t, "--data", data, "--no-demo")
		if round == 1 {
			p.Do("ada", updateUser, map[string]any{"name": "Countess"})
			p.Kill() // with the rename in flight
			p = startProcess(t, "--data", data, "--no-demo")
		}
	}
	if len(posts) < 10 || len(comments) < 10 {
		t.Fatalf("only %d posts and %d comments were written", len(posts), len(comments))
	}
	for _, w := range posts {
		if got := at(t, p.Do("", q2, map[string]any{"id": w.id}), "post.title"); got != w.title {
			t.Fatalf("post %s: %v", w.title, got)
		}
	}
	seen, after := map[string]bool{}, any(nil)
	for {
		page := p.Do("",
			`query($id: ID!, $after: String) { post(id: $id) { commentCount comments(first: 100, after: $after) {
			edges { node { id } } pageInfo { endCursor hasNextPage } } } }`,
			map[string]any{"id": target, "after": after})
		for _, e := range at(t, page, "post.comments.edges").([]any) {
			seen[at(t, e, "node.id").(string)] = true
		}
		if after = find(page, "post.comments.pageInfo.endCursor"); at(t, page,
			"post.comments.pageInfo.hasNextPage") == false {
			if n := at(t, page, "post.commentCount").(float64); int(n) != len(seen) {
				t.Errorf("commentCount %v, %d comments", n, len(seen))
			}
			break
		}
	}
	for id := range comments {
		if !seen[id] {
			t.Errorf("comment %s was acknowledged and is lost", id)
		}
	}
	eventually(t, func() error {
		feed := at(t, p.Do("", q6, nil), "feed.edges").([]any)
		if n := len(feed); n < min(100, len(posts)+1) {
			return fmt.Errorf("the feed has %d entries", n)
		}
		own := at(t,
			p.Do("", `query($id: ID!) { user(id: $id) { posts(first: 100) { edges { node { id title author { username } commentCount } } } } }`,
				map[string]any{"id": ada}), "user.posts.edges").([]any)
		if n := len(own); n < min(100, len(posts)+1) {
			return fmt.Errorf("the author has %d posts", n)
		}
		for _, e := range append(feed, own...) {
			if at(t, e, "node.author.username") != "Countess" {
				return errors.New("an old name in the feed")
			}
			if source := p.Do("", q2, map[string]any{"id": at(t, e, "node.id")}); at(t, source, "post.title") != at(t,
				e, "node.title") ||
				at(t, source, "post.commentCount") != at(t, e, "node.commentCount") {
				return fmt.Errorf("projection %v of %v", e, source)
			}
		}
		return nil
	})
}
