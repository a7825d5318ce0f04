package graph

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"byline/graph/cost"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
)

// predicted to cost 6.74 RU; on smallBlog it costs 2.39
const wholeFeed = `{ feed(first: 100) { edges { node { title } } } }`

func TestBudgetPerRequest(t *testing.T) {
	var log bytes.Buffer
	for name, tt := range map[string]struct {
		budget   cost.Budget
		code     string
		exceeded float64
	}{
		"within":        {cost.Budget{RU: 7}, "", 0},
		"over":          {cost.Budget{RU: 6}, "QUERY_TOO_EXPENSIVE", 1},
		"over, measure": {cost.Budget{RU: 6, Measure: true}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			b := smallBlog(t, Options{RUPerRequest: tt.budget, Logger: textLogger(&log)})
			a := post(t, b, "", wholeFeed, nil)
			if a.code() != tt.code || tt.code != "" && !strings.Contains(a.body, "more than the limit of 6 RU") {
				t.Error(a.body)
			}
			if got := metricOf(t, b.metrics, "byline_budget_exceeded_total"); got != tt.exceeded {
				t.Errorf("over budget %f times, want %f", got, tt.exceeded)
			}
			measured := strings.Contains(log.String(),
				`msg="over budget" budget=request limit=6 predicted=7 path=feed requestId=`)
			if measured != tt.budget.Measure {
				t.Errorf("logged %t, want %t: %s", measured, tt.budget.Measure, &log)
			}
		})
	}
}

// A mutation that exceeds the budget whatever its input is logged at start.
func TestBudgets_MutationsOverBudgetAreLoggedAtStart(t *testing.T) {
	for name, tt := range map[string]struct {
		partitions, limit int
		want              []string
	}{
		"one partition":  {0, 0, nil},
		"32 partitions":  {32, 0, nil},
		"max partitions": {blog.MaxFeedPartitions, 0, []string{"deletePost", "updatePost"}},
		"a low budget":   {0, 34, []string{"deletePost", "publishPost", "updatePost", "updateUser"}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			newBlogOf(t, Options{RUPerRequest: cost.Budget{RU: tt.limit}, Logger: textLogger(&log)},
				store.Options{FeedPartitions: tt.partitions}, 0)
			var got []string
			for _, m := range regexp.MustCompile(`always over budget" mutation=(\w+)`).FindAllStringSubmatch(
				log.String(), -1) {
				got = append(got, m[1])
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v: %s", got, tt.want, &log)
			}
		})
	}
}

// The predicted cost is taken from the viewer's budget before an operation executes, and the unused part is returned.
func TestBudgetPerViewer(t *testing.T) {
	b := smallBlog(t, Options{RUPerViewer: cost.Budget{RU: 7}})
	if a := post(t, b, "demo:ada", wholeFeed, nil); a.code() != "" {
		t.Fatal(a.body)
	}
	a := post(t, b, "demo:ada", wholeFeed, nil)
	var wait float64
	if a.code() == "THROTTLED" {
		wait = a.Errors[0].Extensions["retryAfterMs"].(float64)
	}
	// 7 - 2.39 RU are left, 2.17 too few; 7 RU are added per minute.
	if wait < 1 || wait > 18_700 || a.Data != nil {
		t.Errorf("%.0f ms: %s", wait, a.body)
	}
	if metricOf(t, b.metrics, "byline_budget_exceeded_total") != 1 {
		t.Error("not counted")
	}
	if a := post(t, b, "demo:ada", b.fill(`{ post(id: "<post:moths>") { title } }`), nil); a.code() != "" {
		t.Errorf("the unused part was not returned: %s", a.body)
	}
	for _, other := range []string{"demo:grace", ""} { // anonymous: by address
		if a := post(t, b, other, wholeFeed, nil); a.code() != "" {
			t.Errorf("%q: %s", other, a.body)
		}
		if a := post(t, b, other, wholeFeed, nil); a.code() != "THROTTLED" {
			t.Errorf("%q: %s", other, a.body)
		}
	}
}

// A cost above the prediction or above the whole budget becomes debt.
func TestBudgetPerViewer_OverspendingIsDebt(t *testing.T) {
	b := smallBlog(t, Options{RUPerViewer: cost.Budget{RU: 15}})
	// predicted to cost 18.6
	like := b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`)
	if a := post(t, b, "demo:ada", like, nil); a.code() != "" {
		t.Fatal(a.body)
	}
	if a := post(t, b, "demo:ada", b.fill(`{ post(id: "<post:moths>") { title } }`), nil); a.code() != "THROTTLED" {
		t.Error(a.body)
	}
}

// A canceled operation is charged its predicted cost.
func TestBudgetPerViewer_CanceledOperationIsCharged(t *testing.T) {
	b := smallBlog(t, Options{RUPerViewer: cost.Budget{RU: 7}})
	ctx := &expiring{Context: t.Context(), done: make(chan struct{})}
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		ctx.expire()
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	postUntil(ctx, t, b, "demo:ada", wholeFeed)
	b.wire.setFail(nil)
	if a := post(t, b, "demo:ada", wholeFeed, nil); a.code() != "THROTTLED" {
		t.Error(a.body)
	}
}

func TestBudgetPerViewer_MeasureOnlyCounts(t *testing.T) {
	var log bytes.Buffer
	b := smallBlog(t, Options{RUPerViewer: cost.Budget{RU: 7, Measure: true}, Logger: textLogger(&log)})
	for range 3 {
		if a := post(t, b, "demo:ada", wholeFeed, nil); a.code() != "" {
			t.Fatal(a.body)
		}
	}
	if n := metricOf(t, b.metrics, "byline_budget_exceeded_total"); n != 2 ||
		strings.Count(log.String(), "budget=viewer limit=7 predicted=7 path=feed ") != 2 {
		t.Errorf("%.0f times over budget: %s", n, &log)
	}
}

// Each event is charged. An event over the budget waits for it, and a client that leaves meanwhile is forgotten.
func TestBudgetPerViewer_EventsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := smallBlogInBubble(t, Options{RUPerViewer: cost.Budget{RU: 4}})
		project(t, b)
		server := testkit.PipeServer(t, b, nil)
		e := openEvents(t, server, "POST", "text/event-stream", "demo:grace",
			b.fill(`subscription { commentAdded(postId: "<post:notes>") { content author { createdAt } } }`))
		opened(t, b, 1)
		began := time.Now()
		for i := range 5 {
			b.comment(t, "ada", b.postID(t, "notes"), strings.Repeat("x", i+1))
		}
		for i := range 5 {
			if got := e.next(); !strings.Contains(got, `"`+strings.Repeat("x", i+1)+`"`) {
				t.Fatalf("event %d: %s", i, got)
			}
			waited := time.Since(began)
			t.Logf("event %d after %s", i, waited)
			if late := i >= 3; late != (waited > 10*time.Second) || waited > time.Minute {
				t.Errorf("event %d after %s", i, waited)
			}
		}
		if a := post(t, b, "demo:grace", `{ viewer { username } }`, nil); a.code() != "THROTTLED" {
			t.Errorf("after the budget is spent: %s", a.body)
		}
		b.comment(t, "ada", b.postID(t, "notes"), "unread")
		testkit.Advance(time.Second)
		e.Body.Close()
		opened(t, b, 0)
	})
}

// When more events wait for the budget than a stream buffers, the subscription ends with THROTTLED.
// Its WebSocket stays.
func TestBudgetPerViewer_TooManyEventsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, server := liveInBubble(t, Options{RUPerViewer: cost.Budget{RU: 4}})
		p := dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:grace"}}).init()
		p.subscribe("subscribe", "1",
			b.fill(`subscription { commentAdded(postId: "<post:notes>") { content author { createdAt } } }`))
		opened(t, b, 1)
		const comments = 80
		for i := range comments {
			b.comment(t, "ada", b.postID(t, "notes"), fmt.Sprint("comment ", i))
		}
		events := 0
		for message := p.receive(); ; message = p.receive() {
			if strings.HasPrefix(message, `{"type":"error","id":"1",`) {
				if !strings.Contains(message, `"THROTTLED"`) || !strings.Contains(message, `"retryAfterMs"`) {
					t.Error(message)
				}
				break
			}
			if !strings.HasPrefix(message, `{"type":"next","id":"1","payload":{"data":`) {
				t.Fatal(message)
			}
			events++
		}
		if events == 0 || events == comments {
			t.Errorf("%d of %d events", events, comments)
		}
		opened(t, b, 0)
		p.subscribe("subscribe", "2", `{ __typename }`)
		if got := p.receive(); !strings.HasPrefix(got, `{"type":"next","id":"2",`) {
			t.Error(got)
		}
	})
}

// A response with many fields takes the budget, even if all it needs is cached.
func TestBudgetPerViewer_ManyFields(t *testing.T) {
	b := newBlogOf(t, Options{RUPerViewer: cost.Budget{RU: 60}, RUPerRequest: cost.Budget{RU: 200}},
		store.Options{}, 1<<20)
	var many strings.Builder
	for i := range 90 {
		fmt.Fprintf(&many, "a%d: title ", i)
	}
	for _, code := range []string{"", "THROTTLED"} {
		if a := post(t, b, "demo:ada", `{ feed(first: 100) { edges { node { `+many.String()+` } } } }`, nil); a.code() != code {
			t.Errorf("have %.300s, want %q", a.body, code)
		}
	}
	const page = `feed(first: 100) { edges { node { id title slug excerpt createdAt updatedAt version likeCount commentCount isDraft } } }`
	var pages strings.Builder
	for i := range 20 {
		fmt.Fprintf(&pages, "p%d: %s ", i, page)
	}
	if a := post(t, b, "demo:grace", `{ `+pages.String()+` }`, nil); a.code() != "QUERY_TOO_EXPENSIVE" ||
		!strings.Contains(a.body, "p0.edges") {
		t.Errorf("24,000 fields: %.300s", a.body)
	}
}
