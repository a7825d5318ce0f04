package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"byline/graph/limit"
	"byline/internal/servertest"
	"byline/internal/testkit"
)

const (
	// maxResident is the memory of the container in deploy/kubernetes, in bytes.
	maxResident = 512 << 20

	// maxWait is how long another client may wait at p99. On an idle machine it waits less than 100 ms; tests of other
	// packages run beside this one.
	maxWait = 3 * time.Second

	// programBytes is the size of the program, which is counted instead of that of the test binary.
	programBytes = 32 << 20
)

// smallInstance is a server with the memory of the container in deploy/kubernetes.
type smallInstance struct {
	*process
	emoji string // the global id of a post of 400 KB
	long  string // of one of 100 posts of 200 KB

	took    []time.Duration // by requests of another client during attacks
	refused int             // of these
}

func startSmall(t *testing.T, args ...string) *smallInstance {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	cmd := servertest.Command(append([]string{"--listen", "localhost:0", "--no-demo"}, args...)...)
	cmd.Env = append(cmd.Env, "GOGC=400", "GOMEMLIMIT=440MiB")
	s := &smallInstance{process: servertest.StartCommand(t, cmd)}
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	write := func(text string) string {
		out := s.Do("ada", createPost, map[string]any{"title": "long", "content": strings.Repeat(text, 100_000)})
		return at(t, out, "createPost.post.id").(string)
	}
	s.emoji = write("\U0001F600")
	for range 100 {
		s.long = write("ä")
	}
	return s
}

// peak returns the most memory that the process has had, in bytes.
func (s *smallInstance) peak() int {
	s.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		s.T.Fatal(err)
	}
	bytes := func(name string) int {
		m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(status)
		if m == nil {
			s.T.Fatalf("no %s in %s", name, status)
		}
		kb, _ := strconv.Atoi(string(m[1]))
		return kb << 10
	}
	return bytes("VmHWM") - bytes("RssFile") + programBytes
}

// descriptors returns how many file descriptors the process has.
func (s *smallInstance) descriptors() int {
	s.T.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
	if err != nil {
		s.T.Fatal(err)
	}
	return len(all)
}

func (s *smallInstance) goroutines() float64 {
	all, err := scrape(s.Root)
	if err != nil {
		s.T.Fatal(err)
	}
	n, _ := total(all, "go_goroutines", nil)
	return n
}

// during has another client send requests during an attack, and checks that the process survives it.
func (s *smallInstance) during(t *testing.T, attack func(*testing.T)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		next := time.NewTicker(10 * time.Millisecond)
		defer next.Stop()
		for ; ctx.Err() == nil; <-next.C {
			name := fmt.Sprintf("n%d", len(s.took))
			began := time.Now()
			out, err := s.PostIn(ctx, "", "", `{ `+name+`: userByUsername(username: "ada") { username } }`, nil)
			if ctx.Err() != nil {
				return
			}
			s.took = append(s.took, time.Since(began))
			switch {
			case err != nil:
				t.Errorf("another client: %v", err)
				return
			case out.Errors != nil && out.Errors[0].Extensions["code"] == "UNAVAILABLE":
				s.refused++
			case find(out.Data, name+".username") != "ada":
				t.Errorf("another client: %v", out)
			}
		}
	})
	attack(t)
	stop()
	other.Wait()
	t.Logf("at most %d MB", s.peak()>>20)
	if peak := s.peak(); peak > maxResident {
		t.Errorf("%d MB of memory, more than %d", peak>>20, maxResident>>20)
	}
}

// checkOthers checks that the attacks have not kept others waiting.
func (s *smallInstance) checkOthers(t *testing.T) {
	t.Helper()
	slices.Sort(s.took)
	p99 := s.took[len(s.took)*99/100]
	t.Logf("%d requests of another client, %d of them refused, p99 %v", len(s.took), s.refused,
		p99.Round(time.Millisecond))
	if p99 > maxWait {
		t.Errorf("another client waits %v", p99)
	}
	if s.refused > len(s.took)/10 {
		t.Errorf("%d of %d requests of another client are refused", s.refused, len(s.took))
	}
}

// unread sends a request and does not read the response.
func (s *smallInstance) unread(t *testing.T, user, query string, variables map[string]any) net.Conn {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		t.Error(err)
	}
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { // the system receives little for the client
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		})
	}}
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Root, "http://"))
	if err != nil {
		t.Error(err)
		return nil
	}
	authorization := ""
	if user != "" {
		authorization = "Authorization: Bearer demo:" + user + "\r\n"
	}
	fmt.Fprintf(c,
		"POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", authorization, len(body), body)
	return c
}

// beginning reads the beginning of a response, and returns the code of its first error, or OK.
func beginning(t *testing.T, c net.Conn) (code string, body string) {
	t.Helper()
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Error(err)
		return "", ""
	}
	defer r.Body.Close()
	start := make([]byte, 1000)
	n, _ := io.ReadFull(r.Body, start)
	m := regexp.MustCompile(`^\{"errors":.*"code":"(\w+)"`).FindSubmatch(start[:n])
	if m == nil {
		return "OK", string(start[:n])
	}
	return string(m[1]), string(start[:n])
}

// slowReaders sends a request n times, over three seconds, and reads the responses only afterwards. If the query has
// the alias response, each request has another in its place, so that they share no cached response. It returns how many
// responses there were of each code.
func (s *smallInstance) slowReaders(
	t *testing.T, n int, user, query string, variables map[string]any,
) (codes map[string]int, last map[string]string) {
	t.Helper()
	conns := make([]net.Conn, n)
	pause := time.NewTicker(3 * time.Second / time.Duration(n))
	defer pause.Stop()
	for i := range conns {
		conns[i] = s.unread(t, user, strings.Replace(query, "response:", fmt.Sprintf("response%d:", i), 1), variables)
		<-pause.C
	}
	codes, last = map[string]int{}, map[string]string{}
	for _, c := range conns {
		code, body := beginning(t, c)
		codes[code]++
		if _, ok := last[code]; !ok || strings.Contains(body, `"id":`) { // rather one that says what was written
			last[code] = body
		}
	}
	t.Log(codes)
	return codes, last
}

// TestMemory attacks a small instance with responses that are large, slow, or both.
func TestMemory(t *testing.T) {
	testkit.Heavy(t)
	s := startSmall(t, "--data", t.TempDir())
	t.Run("short requests for long responses", func(t *testing.T) {
		ids := slices.Repeat([]string{s.emoji}, 100)
		s.during(t, func(t *testing.T) {
			codes, last := s.slowReaders(t, 4, "",
				`query($ids: [ID!]!) { nodes(ids: $ids) { ... on Post { a: content b: content c: content } } }`,
				map[string]any{"ids": ids})
			if codes["QUERY_TOO_EXPENSIVE"] != 4 ||
				!strings.Contains(last["QUERY_TOO_EXPENSIVE"], `"field":"nodes.a"`) {
				t.Error(codes, last)
			}
			codes, _ = s.slowReaders(t, 20, "",
				`query($ids: [ID!]!) { response: nodes(ids: $ids) { ... on Post { content } } }`,
				map[string]any{"ids": ids[:80]})
			if codes["OK"] == 0 || codes["UNAVAILABLE"] == 0 || codes["OK"]+codes["UNAVAILABLE"] != 20 {
				t.Error(codes)
			}
		})
	})
	t.Run("slow readers", func(t *testing.T) {
		s.during(t, func(t *testing.T) {
			codes, _ := s.slowReaders(t, 150, "", `{ response: feed(first: 80) { edges { node { content } } } }`, nil)
			if codes["OK"] == 0 || codes["UNAVAILABLE"] == 0 || codes["OK"]+codes["UNAVAILABLE"] != 150 {
				t.Error(codes)
			}
		})
	})
	t.Run("clients that do not read", func(t *testing.T) {
		s.during(t, func(t *testing.T) { s.neverReads(t, 10) })
	})
	t.Run("slow WebSockets", func(t *testing.T) {
		s.during(t, func(t *testing.T) { s.slowSockets(t, 40) })
	})
	t.Run("slow mutations", func(t *testing.T) {
		var query strings.Builder
		for i := range 80 {
			fmt.Fprintf(&query, " a%d: content", i)
		}
		s.during(t, func(t *testing.T) {
			codes, last := s.slowReaders(t, 60, "ada",
				`mutation($post: ID!) { likePost(input: {postId: $post}) { post {`+query.String()+` } } }`,
				map[string]any{"post": s.long})
			if codes["OK"] == 0 || codes["UNAVAILABLE"] == 0 || codes["OK"]+codes["UNAVAILABLE"] != 60 {
				t.Error(codes)
			}
			if id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(last["UNAVAILABLE"]); id == nil {
				t.Errorf("not the id of what was written: %s", last["UNAVAILABLE"])
			} else {
				testkit.Until(t, func() error { // the server may still be overloaded
					out, err := s.PostIn(t.Context(), "", "",
						`query($id: ID!) { node(id: $id) { ... on Like { user { username } } } }`,
						map[string]any{"id": id[1]})
					if err == nil && find(out.Data, "node.user.username") != "ada" {
						err = fmt.Errorf("%v", out)
					}
					return err
				})
			}
		})
	})
	t.Run("refused WebSockets", func(t *testing.T) {
		s.during(t, func(t *testing.T) { s.unfinishedMessages(t, 120) })
	})
	s.checkOthers(t)
}

// neverReads has n viewers take as much memory as they get, by responses of 16 MB down to 200 KB, and read nothing.
// Responses of 200 KB to another client keep coming.
func (s *smallInstance) neverReads(t *testing.T, n int) {
	t.Helper()
	var viewers sync.WaitGroup
	var mu sync.Mutex
	var held []net.Conn // guarded by mu
	for viewer := range n {
		viewers.Go(func() {
			for _, aliases := range []int{78, 20, 5, 1} {
				for request := range 12 {
					var query strings.Builder
					for i := range aliases { // no other request has these: their response is cached for nobody
						fmt.Fprintf(&query, " r%d_%d_%d: content", aliases, request, i)
					}
					c := s.unread(t, fmt.Sprint("viewer", viewer),
						`query($id: ID!) { viewer { id } post(id: $id) {`+query.String()+` } }`, map[string]any{"id": s.long})
					if c == nil {
						return
					}
					status := make([]byte, len("HTTP/1.1 200"))
					_, err := io.ReadFull(c, status)
					mu.Lock()
					held = append(held, c)
					mu.Unlock()
					if err != nil || !strings.HasSuffix(string(status), "200") {
						break
					}
				}
			}
		})
	}
	viewers.Wait()
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	all, err := scrape(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	used, _ := total(all, "byline_response_memory_bytes", nil)
	t.Logf("%d connections, %.0f MB of responses", len(held), used/(1<<20))
	const responses = 200
	for i := range responses {
		name := fmt.Sprint("other", i)
		out, err := s.PostIn(t.Context(), "", "", `query($id: ID!) { post(id: $id) { `+name+`: content } }`,
			map[string]any{"id": s.long})
		if err != nil || out.Errors != nil {
			t.Errorf("response %d of %d to another client: %v %v", i, responses, err, out.Errors)
			return
		}
	}
}

// dialSocket opens a WebSocket. The server may still be overloaded by the previous attack.
func (s *smallInstance) dialSocket(t *testing.T) *websocket.Conn {
	t.Helper()
	var c *websocket.Conn
	testkit.Until(t, func() error {
		conn, response,
			err := websocket.Dial(t.Context(), s.Root+"/graphql",
			&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		if err != nil && (response == nil || response.StatusCode != http.StatusServiceUnavailable) {
			t.Fatal(err)
		}
		c = conn
		return err
	})
	t.Cleanup(func() { c.CloseNow() })
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"connection_init"}`)); err != nil {
		t.Fatal(err)
	}
	return c
}

// slowSockets queries over n WebSockets and reads no response; then each is either sent one, or closed.
func (s *smallInstance) slowSockets(t *testing.T, n int) {
	t.Helper()
	all := make([]*websocket.Conn, n)
	for i := range all {
		all[i] = s.dialSocket(t)
		if err := all[i].Write(t.Context(), websocket.MessageText,
			[]byte(`{"type":"subscribe","id":"1","payload":{"query":"{ feed(first: 80) { edges { node { content } } } }"}}`)); err != nil {
			t.Fatal(err)
		}
	}
	sent, refused := 0, 0
	for _, c := range all {
		c.SetReadLimit(64 << 20)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, _, err := c.Read(ctx) // connection_ack
		if err == nil {
			_, _, err = c.Reader(ctx)
		}
		cancel()
		switch {
		case err == nil:
			sent++
		case websocket.CloseStatus(err) == websocket.StatusTryAgainLater:
			refused++
		default:
			t.Error(err)
		}
		c.CloseNow()
	}
	t.Logf("%d sent, %d refused", sent, refused)
	if sent == 0 || refused == 0 {
		t.Errorf("%d sent, %d refused", sent, refused)
	}
}

// unfinishedMessages sends the beginning of a long message over n WebSockets. Those that are refused must be closed,
// although their clients neither send the rest nor close.
func (s *smallInstance) unfinishedMessages(t *testing.T, n int) {
	t.Helper()
	const admitted = 440 / 16 // of 1 MB, of GOMEMLIMIT
	begun, running := s.descriptors(), s.goroutines()
	// masked with zeros
	frame := append(binary.BigEndian.AppendUint64([]byte{0x81, 0x80 | 127}, 500_000), make([]byte, 4+32<<10)...)
	for range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.Root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c,
			"GET /graphql HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: "+
				"Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
				"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n")
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	most := begun + admitted + 10
	testkit.WaitFor(t, func() bool { return s.descriptors() >= begun+n/2 })
	testkit.Until(t, func() error {
		if d, g := s.descriptors(), s.goroutines(); d > most || g > running+4*admitted {
			return fmt.Errorf("of %d connections %d are open, with %.0f goroutines", n, d-begun, g-running)
		}
		return nil
	})
}

// The memory in the manifests is enough for what the documentation says takes it. Go's limit leaves a seventh of the
// container's for the rest of the process, and for collections that come late on a busy machine.
func TestMemory_OfManifests(t *testing.T) {
	const cache, base = 64 << 20, 100 << 20 // --cache, and a server without load
	for file, patterns := range map[string][2]string{
		"deploy/kubernetes/byline.yaml": {`GOMEMLIMIT[^\n]*\n\s+value: (\d+)MiB`, `limits: \{memory: (\d+)Mi\}`},
		"deploy/azure/main.bicep":       {`'GOMEMLIMIT'\s+value: '(\d+)MiB'`, `memory: '(\d+)Gi'`},
		"deploy/azure/azuredeploy.json": {`"GOMEMLIMIT",\s+"value": "(\d+)MiB"`, `"memory": "(\d+)Gi"`},
	} {
		text, err := os.ReadFile(servertest.Path(file))
		if err != nil {
			t.Fatal(err)
		}
		var bytes [2]int
		for i, pattern := range patterns {
			m := regexp.MustCompile(pattern).FindSubmatch(text)
			if m == nil {
				t.Fatalf("%s: no %s", file, pattern)
			}
			bytes[i], _ = strconv.Atoi(string(m[1]))
			if bytes[i] <<= 20; strings.HasSuffix(pattern, "Gi'") || strings.HasSuffix(pattern, `Gi"`) {
				bytes[i] <<= 10
			}
		}
		limits, container := bytes[0], bytes[1]
		if 100*limits > 86*container {
			t.Errorf("%s: GOMEMLIMIT is %d MB of %d", file, limits>>20, container>>20)
		}
		responses := limits / limit.ResponsesShare
		if used := responses + limits/limit.LargeBodiesShare + cache + base; used > limits {
			t.Errorf("%s: %d MB of %d are used", file, used>>20, limits>>20)
		}
		if largest := 3 * limit.MaxResponse; largest > 2*responses/3 { // its bytes, as read, decoded and encoded
			t.Errorf("%s: the largest response takes %d MB of %d for responses", file, largest>>20, responses>>20)
		}
	}
}
