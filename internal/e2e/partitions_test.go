package e2e

import (
	"strings"
	"testing"

	"byline/internal/testkit"
)

// TestFeedPartitions changes the number of feed partitions between starts: readers see the whole feed
// from the first request on, and the commands report the pending work.
func TestFeedPartitions(t *testing.T) {
	testkit.Heavy(t)
	t.Parallel()
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	s.Do("ada", createPost, map[string]any{"title": "Before", "content": "x"})
	s.Stop()

	s = start(t, "--data", data, "--no-demo", "--feed-partitions", "4")
	shows := func(n int, title string) {
		t.Helper()
		for range 30 {
			feed := s.Do("", `{ feed(first: 10) { edges { node { title } } } }`, nil)
			if edges := at(t, feed, "feed.edges").([]any); len(edges) != n ||
				at(t, feed, "feed.edges.0.node.title") != title {
				t.Fatalf("the feed is %v", feed)
			}
		}
	}
	shows(1, "Before")
	s.Do("ada", createPost, map[string]any{"title": "After", "content": "x"})
	shows(2, "After")
	s.Stop()

	byline := func(status int, want string, args ...string) string {
		t.Helper()
		var log output
		got := run(t.Context(), append(args, "--data", data), &log, &log, nil)
		if got != status || !strings.Contains(log.String(), want) {
			t.Fatalf("%v: status %d, want %d and %q: %s", args, got, status, want, log.String())
		}
		return log.String()
	}
	byline(1, "--feed-partitions 4", "serve", "--listen", "localhost:0")
	byline(1, "--feed-partitions 4", "views", "verify")
	byline(1, "--feed-partitions 4", "seed", "--users", "1")
	// The first post is where a feed of one partition has it. The entries of the second in other views may be missing
	// still.
	out := byline(1, "absent", "views", "verify", "--settle", "0s", "--feed-partitions", "4")
	if n := strings.Count(out, "| feed entry "); n != 1 {
		t.Errorf("%d differences of feed entries, want 1: %s", n, out)
	}
	byline(0, "", "views", "repair", "--feed-partitions", "4")
	byline(0, "", "views", "verify", "--settle", "0s", "--feed-partitions", "4")
}
