package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is the server as a process of its own.
type process struct {
	instance
	cmd *exec.Cmd
}

func startProcess(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{instance: instance{t: t, log: &output{}}}
	p.cmd = exec.Command(os.Args[0], append([]string{"--listen", "localhost:0"}, args...)...)
	p.cmd.Env = append(os.Environ(), "BYLINE_TEST_MAIN=1")
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	address := regexp.MustCompile(`msg=listening .*address=(\S+)`)
	eventually(t, func() error {
		m := address.FindStringSubmatch(p.log.String())
		if m == nil {
			return fmt.Errorf("not listening: %s", p.log)
		}
		p.root = "http://" + m[1]
		return nil
	})
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// TestKill kills the server under load, again and again, and finds every
// acknowledged write, and true copies.
func TestKill(t *testing.T) {
	data := t.TempDir()
	p := startProcess(t, "--data", data, "--no-demo")
	ada := at(t, p.do("ada", createUser, map[string]any{"name": "ada"}), "createUser.user.id")
	target := at(t, p.do("ada", createPost, map[string]any{"title": "target", "content": "x"}), "createPost.post.id")
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
					out, err := p.post("ada", createPost, map[string]any{"title": title, "content": "x"})
					if err != nil || out.Errors != nil {
						return // killed
					}
					mu.Lock()
					posts = append(posts, written{find(out.Data, "createPost.post.id").(string), title})
					mu.Unlock()
					out, err = p.post("ada", createComment, map[string]any{"post": target, "content": title})
					if err != nil || out.Errors != nil {
						return
					}
					mu.Lock()
					comments[find(out.Data, "createComment.comment.id").(string)]++
					mu.Unlock()
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		p.kill()
		wg.Wait()
		p = startProcess(t, "--data", data, "--no-demo")
		if round == 1 {
			p.do("ada", updateUser, map[string]any{"name": "Countess"})
			p.kill() // with the rename on its way
			p = startProcess(t, "--data", data, "--no-demo")
		}
	}
	if len(posts) < 10 || len(comments) < 10 {
		t.Fatalf("only %d posts and %d comments were written", len(posts), len(comments))
	}
	for _, w := range posts {
		if got := at(t, p.do("", q2, map[string]any{"id": w.id}), "post.title"); got != w.title {
			t.Fatalf("post %s: %v", w.title, got)
		}
	}
	seen, after := map[string]bool{}, any(nil)
	for {
		page := p.do("", `query($id: ID!, $after: String) { post(id: $id) { commentCount comments(first: 100, after: $after) {
			edges { node { id } } pageInfo { endCursor hasNextPage } } } }`, map[string]any{"id": target, "after": after})
		for _, e := range at(t, page, "post.comments.edges").([]any) {
			seen[at(t, e, "node.id").(string)] = true
		}
		if after = find(page, "post.comments.pageInfo.endCursor"); at(t, page, "post.comments.pageInfo.hasNextPage") == false {
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
		feed := at(t, p.do("", q6, nil), "feed.edges").([]any)
		if n := len(feed); n < min(100, len(posts)+1) {
			return fmt.Errorf("the feed has %d entries", n)
		}
		own := at(t, p.do("", `query($id: ID!) { user(id: $id) { posts(first: 100) { edges { node { id title author { username } commentCount } } } } }`,
			map[string]any{"id": ada}), "user.posts.edges").([]any)
		if n := len(own); n < min(100, len(posts)+1) {
			return fmt.Errorf("the author has %d posts", n)
		}
		for _, e := range append(feed, own...) {
			if at(t, e, "node.author.username") != "Countess" {
				return errors.New("an old name in the feed")
			}
			if source := p.do("", q2, map[string]any{"id": at(t, e, "node.id")}); at(t, source, "post.title") != at(t, e, "node.title") ||
				at(t, source, "post.commentCount") != at(t, e, "node.commentCount") {
				return fmt.Errorf("copy %v of %v", e, source)
			}
		}
		return nil
	})
}

func TestStopsOnASignal(t *testing.T) {
	p := startProcess(t, "--data", t.TempDir(), "--no-demo")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, p.log)
	}
}

// beginRequest returns the connection of a request whose body the server waits for.
func beginRequest(t *testing.T, root string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprint(c, "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatal(line, err)
	}
	return c
}

// A request under way is waited for when the process is told to stop, but not when it is
// told again.
func TestEndsOnASecondSignal(t *testing.T) {
	p := startProcess(t, "--data", t.TempDir(), "--no-demo")
	beginRequest(t, p.root)
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	for {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case err := <-ended:
			if want := "signal: terminated"; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
