package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// subscriber is the client's end of a subscription.
type subscriber struct {
	*websocket.Conn
	ready chan struct{} // closed when it has seen a probe
	got   []string
	late  []time.Duration // from the start of the write
}

// probe is the content of comments that are written until every subscription has begun.
const probe = "0"

func subscribe(ctx context.Context, p *process, query string) (*subscriber, error) {
	c, res, err := websocket.Dial(ctx, p.Root+"/graphql",
		&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return nil, err
	}
	if res.Body != nil {
		res.Body.Close()
	}
	s := &subscriber{Conn: c, ready: make(chan struct{})}
	body, err := json.Marshal(map[string]any{"type": "subscribe", "id": "1",
		"payload": map[string]string{"query": query}})
	if err != nil {
		return nil, err
	}
	for _, m := range []string{`{"type":"connection_init"}`, string(body)} {
		if err := c.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			return nil, err
		}
	}
	_, ack, err := c.Read(ctx)
	if err == nil && string(ack) != `{"type":"connection_ack"}` {
		err = fmt.Errorf("%s", ack)
	}
	return s, err
}

// follow reads n comments, whose content is the time of the write.
func (s *subscriber) follow(ctx context.Context, n int) error {
	begun := sync.OnceFunc(func() { close(s.ready) })
	s.SetReadLimit(1 << 20)
	for len(s.got) < n {
		_, raw, err := s.Read(ctx)
		if err != nil {
			return fmt.Errorf("after %d events: %w", len(s.got), err)
		}
		var m struct {
			Payload struct {
				Data struct{ CommentAdded struct{ Content string } }
			}
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		content := m.Payload.Data.CommentAdded.Content
		if begun(); content == probe {
			continue
		}
		began, err := strconv.ParseInt(content, 10, 64)
		if err != nil {
			return fmt.Errorf("%s", raw)
		}
		s.got, s.late = append(s.got, content), append(s.late, time.Since(time.Unix(0, began)))
	}
	return nil
}

// BenchmarkSubscribers sends a hundred comments on one post to a thousand subscribers of a server in its
// own process. It reports the memory of an idle subscriber, and the delay from the start of a write to
// its event. The subscribers share the machine with the server. GOGC is 100, so that garbage does not
// count as memory of subscribers.
func BenchmarkSubscribers(b *testing.B) {
	b.Setenv("GOGC", "100")
	subscribers, subscribedChanges := 1000, 100
	if testing.Short() {
		subscribers, subscribedChanges = 100, 5
	}
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
		p := startProcess(b, "--data", b.TempDir(), "--no-demo")
		p.Do("ada", `mutation { createUser(input: {username: "ada"}) { user { id } } }`, nil)
		post := at(b, p.Do("ada", `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`, nil),
			"createPost.post.id")
		query := fmt.Sprintf(`subscription { commentAdded(postId: %q) { content } }`, post)
		before := residentKB(b, p)
		all := make([]*subscriber, subscribers)
		for i := range all {
			var err error
			if all[i], err = subscribe(ctx, p, query); err != nil {
				b.Fatal(err)
			}
		}
		idle := (residentKB(b, p) - before) / float64(subscribers)
		var reading sync.WaitGroup
		errs := make(chan error, subscribers)
		for _, s := range all {
			reading.Go(func() { errs <- s.follow(ctx, subscribedChanges) })
		}
		comment := func(content string) {
			p.Do("ada", `mutation($p: ID!, $c: String!) { createComment(input: {postId: $p, content: $c}) { comment { id } } }`, map[string]any{"p": post, "c": content})
		}
		for _, s := range all {
			for begun := false; !begun; {
				select {
				case <-s.ready:
					begun = true
				case <-time.After(100 * time.Millisecond):
					comment(probe)
				case err := <-errs:
					b.Fatal(err)
				}
			}
		}
		var want []string
		tick := time.NewTicker(100 * time.Millisecond)
		for range subscribedChanges {
			want = append(want, strconv.FormatInt(time.Now().UnixNano(), 10))
			comment(want[len(want)-1])
			<-tick.C
		}
		tick.Stop()
		reading.Wait()
		close(errs)
		var late []time.Duration
		for err := range errs {
			if err != nil {
				b.Fatal(err)
			}
		}
		for _, s := range all {
			if !slices.Equal(s.got, want) {
				b.Fatalf("got %v", s.got)
			}
			late = append(late, s.late...)
			s.CloseNow()
		}
		slices.Sort(late)
		b.ReportMetric(idle, "KB/subscriber")
		b.ReportMetric(late[len(late)/2].Seconds()*1000, "ms-p50")
		b.ReportMetric(late[len(late)*99/100].Seconds()*1000, "ms-p99")
		p.Kill()
		cancel()
	}
}

// residentKB returns the resident memory of the process.
func residentKB(t testing.TB, p *process) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc here")
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kb float64
	fmt.Sscan(rest, &kb)
	return kb
}
