package server

import (
	"testing"

	"byline/graph"
	"byline/graph/cost"
)

// heavySession has the operations of a continuously active viewer, and their numbers per minute.
var heavySession = []struct {
	what, document string
	perMinute      float64
}{
	{"a page of the feed, every 2 s",
		`{ feed(first: 100) { edges { node { title author { username } commentCount likeCount } } } }`, 30},
	{"a post with 25 comments and 100 likes, every 2 s", `query($id: ID!) { post(id: $id) { title content viewerHasLiked
		comments(first: 25) { edges { node { content author { username } } } } likes(first: 100) { edges { node { user { username } } } } } }`, 30},
	{"a like, every 5 s", `mutation($id: ID!) { likePost(input: {postId: $id}) { post { likeCount } } }`, 12},
	{"a comment, every 5 s",
		`mutation($id: ID!) { createComment(input: {postId: $id, content: "c"}) { comment { id } } }`, 12},
	{"a post, every minute", `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`, 1},
}

// TestRUPerViewer_DefaultIsFiveHeavySessions: the default of --ru-per-viewer is at least five times the predicted
// cost of a heavy session, and a small part of the 14,755 RU a second that one viewer can spend without it.
// docs/cost.md has the figures.
func TestRUPerViewer_DefaultIsFiveHeavySessions(t *testing.T) {
	total := 0.0
	for _, s := range heavySession {
		explained, err := cost.Explain(graph.Schema(false), s.document, nil, 1)
		if err != nil || explained[0].Wrong != "" {
			t.Fatal(s.what, explained, err)
		}
		ru := explained[0].PredictedRU
		t.Logf("%-50s %6.2f RU * %2.0f = %4.0f RU a minute", s.what, ru, s.perMinute, ru*s.perMinute)
		total += ru * s.perMinute
	}
	t.Logf("in all %.0f RU a minute; the default is %d, %.1f times as much, %d RU/s", total, ruPerViewer,
		ruPerViewer/total, ruPerViewer/60)
	if ruPerViewer < 5*total || ruPerViewer > 10*total {
		t.Errorf("the default is %d RU, want 5 to 10 times %.0f", ruPerViewer, total)
	}
}

func TestRUPerViewer_Default(t *testing.T) {
	set := func(n int) *int { return &n }
	for name, tt := range map[string]struct {
		c    Config
		flag *int
		want int
	}{
		"demo tokens":          {Config{}, nil, 0},
		"demo tokens, limited": {Config{}, set(7), 7},
		"an issuer":            {Config{authFlags: authFlags{AuthIssuer: "https://example.com"}}, nil, ruPerViewer},
		"an issuer, limited":   {Config{authFlags: authFlags{AuthIssuer: "https://example.com"}}, set(7), 7},
		"an issuer, unlimited": {Config{authFlags: authFlags{AuthIssuer: "https://example.com"}}, set(0), 0},
	} {
		tt.c.Listen, tt.c.RUPerViewer = "localhost:0", tt.flag
		if got := tt.c.budgetPerViewer(); got != (cost.Budget{RU: tt.want}) {
			t.Errorf("%s: got %+v, want %d", name, got, tt.want)
		}
	}
}
