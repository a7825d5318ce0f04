package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"byline/graph/auth"
	"byline/graph/globalid"
	"byline/internal/account"
	"byline/store/emulator"
	"byline/store/seed"
)

var (
	uniformUsers = flag.Int("uniform.users", 1000, "users of BenchmarkUniform, each with 5 to 50 posts")
	uniformData  = flag.String("uniform.data", "", "data directory of BenchmarkUniform, which is filled if it is new; default: a temporary one")
	uniformCache = flag.String("uniform.cache", "0", "the server's --cache in BenchmarkUniform")
)

// BenchmarkUniform sends requests about random posts and users of a blog to a server without caches, over 16 and
// 64 connections, each with one request at a time. It reports latencies, and what a request takes of the
// server's CPU, of requests to Cosmos DB and of request units, the projections' work after writes included.
//
//	go test ./internal/e2e -run '^$' -bench Uniform/C -benchtime 10000x
func BenchmarkUniform(b *testing.B) {
	makeProfileDir(b)
	blog := seed.Blog{Seed: 1, Users: *uniformUsers, Authors: *uniformUsers, Posts: [2]int{5, 50}, Comments: 4, Likes: 4, UserID: auth.DemoUserID}
	if testing.Short() {
		blog.Users, blog.Authors = 20, 20
	}
	config := account.Flags{Data: cmp.Or(*uniformData, b.TempDir()), CosmosDatabase: "blog", FeedPartitions: 1}
	if files, err := filepath.Glob(filepath.Join(config.Data, "*")); err != nil || len(files) == 0 {
		loadBlog(b, config, blog)
	}
	p := startProcess(b, "--data", config.Data, "--cache", *uniformCache)
	for _, r := range uniformRequests(blog) {
		b.Run(r.name, func(b *testing.B) {
			for _, connections := range []int{16, 64} {
				b.Run(fmt.Sprint("connections=", connections), func(b *testing.B) {
					measureUniform(b, p, r, connections)
				})
			}
		})
	}
}

// loadBlog loads a data set with its views.
func loadBlog(b *testing.B, config account.Flags, blog seed.Blog) {
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
		err = seed.Load(b.Context(), blog, s, nil)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		b.Fatal(err)
	}
}

// uniformRequest is a request of an access pattern about something random.
type uniformRequest struct {
	name string
	make func(*rand.Rand) (user, query, id string)
}

func uniformRequests(blog seed.Blog) []uniformRequest {
	var posts, users []string
	for i := range blog.Authors {
		users = append(users, globalid.ID{Kind: globalid.User, Key: blog.User(i).ID}.String())
		for n := range blog.PostCount(i) {
			posts = append(posts, globalid.ID{Kind: globalid.Post, Key: blog.PostID(i, n)}.String())
		}
	}
	read := func(query string, ids []string) func(*rand.Rand) (string, string, string) {
		return func(r *rand.Rand) (string, string, string) { return "", query, ids[r.IntN(len(ids))] }
	}
	write := func(query string) func(*rand.Rand) (string, string, string) {
		return func(r *rand.Rand) (string, string, string) {
			return blog.User(r.IntN(blog.Users)).Username, query, posts[r.IntN(len(posts))]
		}
	}
	const short = `id title excerpt commentCount likeCount createdAt author { id username }`
	const paged = ` pageInfo { hasNextPage endCursor }`
	return []uniformRequest{
		{"Q1", read(`query($id: ID!) { user(id: $id) { id username createdAt } }`, users)},
		{"Q2", read(`query($id: ID!) { post(id: $id) { id title content commentCount likeCount createdAt author { id username } } }`, posts)},
		{"Q3", read(`query($id: ID!) { user(id: $id) { posts(first: 20) { edges { node { `+short+` } }`+paged+` } } }`, users)},
		{"Q4", read(`query($id: ID!) { post(id: $id) { comments(first: 25) { edges { node { id content createdAt author { id username } } }`+paged+` } } }`, posts)},
		{"Q5", read(`query($id: ID!) { post(id: $id) { likes(first: 100) { edges { node { id createdAt user { id username } } }`+paged+` } } }`, posts)},
		{"Q6", read(`{ feed(first: 100) { edges { node { `+short+` } }`+paged+` } }`, users)},
		{"C3", write(`mutation($id: ID!) { createComment(input: {postId: $id, content: "` + strings.Repeat("And another thing. ", 10) + `"}) { comment { id } post { commentCount } } }`)},
		{"C4", write(`mutation($id: ID!) { likePost(input: {postId: $id}) { like { id } post { likeCount } } }`)},
	}
}

// seeds make every run of requests another one.
var seeds atomic.Uint64

func measureUniform(b *testing.B, p *process, r uniformRequest, connections int) {
	if b.N >= judged {
		sendUniform(b, p, r, connections, min(b.N, warmUp))
	}
	projectAll(b, p)
	stop := profileTo(p, fmt.Sprint("uniform-", r.name, "-", connections))
	before, err := scrape(p.Root)
	if err != nil {
		b.Fatal(err)
	}
	took := -cpuOf(b, p.Cmd.Process.Pid)
	b.ResetTimer()
	latencies := sendUniform(b, p, r, connections, b.N)
	b.StopTimer()
	projectAll(b, p)
	took += cpuOf(b, p.Cmd.Process.Pid)
	stop()
	after, err := scrape(p.Root)
	if err != nil {
		b.Fatal(err)
	}
	grown := func(name string) float64 {
		counts := func(labels map[string]string) bool { return labels["pattern"] != "leases" }
		now, _ := total(after, name, counts)
		then, _ := total(before, name, counts)
		return (now - then) / float64(b.N)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(grown("byline_cosmos_requests_total"), "cosmos-requests/op")
	b.ReportMetric(grown("byline_cosmos_request_units_total"), "RU/op")
	for _, q := range []int{50, 90, 99} {
		b.ReportMetric(float64(latencies[(len(latencies)-1)*q/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", q))
	}
}

// projectAll waits until the projections have handled all writes.
func projectAll(b *testing.B, p *process) {
	tick := time.NewTicker(1500 * time.Millisecond) // in which counts are to be projected
	defer tick.Stop()
	for before, now := -1.0, projected(b, p.Root); now != before; before, now = now, projected(b, p.Root) {
		<-tick.C
	}
}

// sendUniform sends requests and returns their latencies, sorted. Like other load generators it is one thread
// that waits for all connections: the next request of a connection is there as soon as the response is.
func sendUniform(b *testing.B, p *process, r uniformRequest, connections, count int) []time.Duration {
	epoll, err := syscall.EpollCreate1(0)
	if err != nil {
		b.Fatal(err)
	}
	defer syscall.Close(epoll)
	random := rand.New(rand.NewPCG(1, seeds.Add(1)))
	all := map[int32]*uniformConnection{}
	for range min(connections, count) {
		c, err := dialUniform(p.Root)
		if err == nil {
			err = syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, c.fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(c.fd)})
		}
		if err != nil {
			b.Fatal(err)
		}
		defer syscall.Close(c.fd)
		all[int32(c.fd)] = c
		c.send(b, r, random)
	}
	var latencies []time.Duration
	events := make([]syscall.EpollEvent, connections)
	for sent := len(all); len(latencies) < count; {
		n, err := syscall.EpollWait(epoll, events, -1)
		if err != nil && err != syscall.EINTR {
			b.Fatal(err)
		}
		for _, event := range events[:max(n, 0)] {
			c := all[event.Fd]
			if !c.receive(b) {
				continue
			}
			latencies = append(latencies, time.Since(c.began))
			if sent < count {
				sent++
				c.send(b, r, random)
			}
		}
	}
	slices.Sort(latencies)
	return latencies
}

// uniformConnection is a connection with at most one request.
type uniformConnection struct {
	fd       int
	began    time.Time
	response []byte // so far
}

func dialUniform(root string) (*uniformConnection, error) {
	address, err := netip.ParseAddrPort(strings.TrimPrefix(root, "http://"))
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()})
	}
	return &uniformConnection{fd: fd}, err
}

func (c *uniformConnection) send(b *testing.B, r uniformRequest, random *rand.Rand) {
	request := encodeUniform(r.make(random))
	c.response, c.began = c.response[:0], time.Now()
	if n, err := syscall.Write(c.fd, request); err != nil || n < len(request) {
		b.Fatal(n, err)
	}
}

// receive reads what there is of a response, and reports whether that is all. There must be no errors in it.
func (c *uniformConnection) receive(b *testing.B) bool {
	c.response = slices.Grow(c.response, 64<<10)
	n, err := syscall.Read(c.fd, c.response[len(c.response):cap(c.response)])
	if err != nil || n == 0 {
		b.Fatal(n, err)
	}
	c.response = c.response[:len(c.response)+n]
	header, body, ok := bytes.Cut(c.response, []byte("\r\n\r\n"))
	if !ok {
		return false
	}
	complete := bytes.HasSuffix(body, []byte("0\r\n\r\n")) // of chunks
	if _, length, there := bytes.Cut(header, []byte("Content-Length: ")); there {
		length, _, _ = bytes.Cut(length, []byte("\r\n"))
		want, err := strconv.Atoi(string(length))
		if err != nil {
			b.Fatalf("%s", header)
		}
		complete = len(body) >= want
	}
	if complete && (!bytes.HasPrefix(header, []byte("HTTP/1.1 200 ")) || bytes.HasPrefix(body, []byte(`{"errors"`))) {
		b.Fatalf("%s", c.response)
	}
	return complete
}

func encodeUniform(user, query, id string) []byte {
	body, err := json.Marshal(map[string]any{"query": query, "variables": map[string]string{"id": id}})
	if err != nil {
		panic(err) // only strings
	}
	header := fmt.Sprintf("POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nByline-Cost: none\r\nContent-Length: %d\r\n", len(body))
	if user != "" {
		header += "Authorization: Bearer demo:" + user + "\r\n"
	}
	return append([]byte(header+"\r\n"), body...)
}
