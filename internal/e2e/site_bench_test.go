package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/servertest"
)

// siteDir is the front end of BenchmarkSite, such as the build of examples/spa, whose documents are those of an
// application.
var siteDir = flag.String("site.dir", "testdata/site", "folder of the front end of BenchmarkSite")

// crawlerAgent is the User-Agent of a crawler.
const crawlerAgent = "Mozilla/5.0 (compatible; Examplebot/2.1; +https://bot.example)"

// BenchmarkSite measures pages over HTTP, as browsers and crawlers request them: the CPU of pages that are cached,
// beside a net/http server of the same bytes; what the page of a post costs that nobody has read; and how long readers
// wait during a crawl of all posts.
//
//	go test ./internal/e2e -run '^$' -bench Site -benchtime 10000x -cpu.users 1000 -site.dir DIST
func BenchmarkSite(b *testing.B) {
	if testing.Short() {
		*cpuUsers = min(*cpuUsers, 10)
	}
	blog, data := newCPUBlog(*cpuUsers), b.TempDir()
	seedByline(b, data)
	byline := startByline(b, blog, data, "--site", *siteDir, "--site-url", siteURL)
	posts := postPaths(b, byline)
	report := measureCrawl(b, byline, posts) // once: then the pages are cached
	b.Run("cold", report)
	for name, path := range map[string]string{"front": "/", "post": posts[len(posts)/2]} {
		b.Run("hot/"+name, func(b *testing.B) {
			body, coding := byline.get(b, path, browser)
			ready := serveResponses(b, byline, map[string]*readyResponse{path: {Coding: coding, Body: body}})
			defer ready.process.Kill()
			before := queryRU(b, byline.root)
			took := map[*cpuSide]time.Duration{}
			for _, side := range []*cpuSide{byline, ready} {
				side.getAll(b, browser, cpuConnections, slices.Repeat([]string{path}, min(b.N, warmUp)))
			}
			for left := b.N; left > 0; left -= alternateAfter {
				for _, side := range []*cpuSide{byline, ready} {
					began := side.cpu(b)
					side.getAll(b, browser, cpuConnections, slices.Repeat([]string{path}, min(alternateAfter, left)))
					took[side] += side.cpu(b) - began
				}
			}
			b.ReportMetric(0, "ns/op") // meaningless: the time of both sides together
			b.ReportMetric(float64(took[byline].Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(took[byline])/float64(took[ready]), "times-ready-made")
			b.ReportMetric(queryRU(b, byline.root)-before, "RU")
		})
	}
}

// measureCrawl measures what a crawl of the posts costs that nobody has read, and the waiting times of readers of the
// others, alone and during the crawl.
func measureCrawl(b *testing.B, byline *cpuSide, posts []string) (report func(*testing.B)) {
	hot, cold := posts[:len(posts)/10], posts[len(posts)/10:]
	read := func(n int) []time.Duration {
		paths := make([]string, n)
		for i := range paths {
			paths[i] = hot[i%len(hot)]
		}
		return byline.getAll(b, browser, 2, paths)
	}
	read(1000) // warm up
	alone := read(5000)
	ru, requests := queryRU(b, byline.root), readRequests(b, byline.root)
	crawler := browser.Clone()
	crawler.Set("User-Agent", crawlerAgent)
	crawled := make(chan time.Duration)
	go func() {
		began := time.Now()
		byline.getAll(b, crawler, 4, cold)
		crawled <- time.Since(began)
	}()
	var during []time.Duration
	var took time.Duration
	for took == 0 {
		during = append(during, read(100)...)
		select {
		case took = <-crawled:
		default:
		}
	}
	slices.Sort(alone)
	slices.Sort(during)
	n := float64(len(cold))
	ru, requests = queryRU(b, byline.root)-ru, readRequests(b, byline.root)-requests
	return func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(n, "pages")
		b.ReportMetric(took.Seconds(), "s-crawl")
		b.ReportMetric(ru, "RU-crawl")
		b.ReportMetric(ru/n, "RU/page")
		b.ReportMetric(requests/n, "requests/page")
		b.ReportMetric(float64(percentile(alone, 99).Microseconds())/1000, "alone-p99-ms")
		b.ReportMetric(float64(percentile(during, 99).Microseconds())/1000, "during-p99-ms")
	}
}

// postPaths returns the paths of the pages of all posts, newest first.
func postPaths(b *testing.B, of *cpuSide) (paths []string) {
	s := &servertest.Instance{T: b, Root: of.root}
	for after, more := any(nil), true; more; {
		var page struct {
			Feed struct {
				Edges    []struct{ Node struct{ Slug string } }
				PageInfo struct {
					HasNextPage bool
					EndCursor   string
				}
			}
		}
		ask(s, "", `query($after: String) { feed(first: 100, after: $after) { edges { node { slug } }
			pageInfo { hasNextPage endCursor } } }`, map[string]any{"after": after}, &page)
		for _, e := range page.Feed.Edges {
			paths = append(paths, "/posts/"+url.PathEscape(e.Node.Slug))
		}
		after, more = page.Feed.PageInfo.EndCursor, page.Feed.PageInfo.HasNextPage
	}
	return paths
}

// queryRU returns the RU that queries have cost so far.
func queryRU(b testing.TB, root string) float64 {
	return metric(b, root, "byline_graphql_request_units_total", "type", "query")
}

// readRequests returns the requests to Cosmos DB for queries so far.
func readRequests(b testing.TB, root string) float64 {
	return metric(b, root, "byline_cosmos_requests_total", "pattern", "onePost", "manyPosts", "comments", "oneUser", "manyUsers",
		"byUsername", "userPosts", "likes", "feed", "topTags", "tagPosts")
}

// metric returns the sum of a metric over some values of a label.
func metric(b testing.TB, root, name, label string, values ...string) float64 {
	all, err := scrape(root)
	if err != nil {
		b.Fatal(err)
	}
	sum, _ := total(all, name, func(labels map[string]string) bool { return slices.Contains(values, labels[label]) })
	return sum
}

// get requests a page, and returns its body on the wire and its coding.
func (s *cpuSide) get(b *testing.B, path string, header http.Header) (body []byte, coding string) {
	r, err := http.NewRequest(http.MethodGet, s.root+path, nil)
	if err != nil {
		b.Error(err)
		return nil, ""
	}
	r.Header = header
	res, err := s.client.Do(r)
	if err != nil {
		b.Error(err)
		return nil, ""
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Error(cmp.Or(err, fmt.Errorf("%s: %s: %.500s", path, res.Status, body)))
	}
	return body, res.Header.Get("Content-Encoding")
}

// getAll requests pages concurrently, and returns how long each took.
func (s *cpuSide) getAll(b *testing.B, header http.Header, connections int, paths []string) []time.Duration {
	took, next := make([]time.Duration, len(paths)), atomic.Int64{}
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(paths)) && !b.Failed(); i = next.Add(1) - 1 {
				began := time.Now()
				s.get(b, paths[i], header)
				took[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	return took
}
