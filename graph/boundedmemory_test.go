package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"byline/graph/limit"
	"byline/graph/plan"
	"byline/internal/testkit"
	"byline/store/blog/markdown"
)

const reservedMetric = "byline_response_memory_bytes"

// checkingWriter checks that memory is reserved for what is written.
type checkingWriter struct {
	*httptest.ResponseRecorder
	t    *testing.T
	blog *testBlog
	less float64       // by how much less than what is written was reserved
	most float64       // that was reserved
	next chan struct{} // closed once the end of an event has been written; nil: not needed
}

// framing is what an event stream writes besides the response: the names of events.
const framing = 64

func (w *checkingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(p)
	if strings.HasPrefix(string(p), "event: complete") {
		return n, err // the response has been sent
	}
	reserved := metricOf(w.t, w.blog.metrics, reservedMetric)
	w.less, w.most = max(w.less, float64(w.Body.Len()-framing)-reserved), max(w.most, reserved)
	if w.next != nil && strings.HasSuffix(string(p), "\n\n") && w.Body.Len() > framing {
		close(w.next)
		w.next = nil
	}
	return n, err
}

// randomText returns a text of up to 100,000 characters, of which many are long or escaped, within the limits of
// Markdown.
func randomText(r *rand.Rand) string {
	for {
		if text := anyText(r); markdown.Check(text) == nil {
			return text
		}
	}
}

func anyText(r *rand.Rand) string {
	alphabets := []string{"a", "ab\n", "\\\"\n\t", "\U0001F600", "ä€\U0001F600<>&\u2028"}
	alphabet := []rune(alphabets[r.IntN(len(alphabets))])
	text := make([]rune, 1+r.IntN([]int{10, 1000, 100_000}[r.IntN(3)]))
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return "x" + string(text[1:])
}

// At least as many bytes are reserved as are encoded, for random operations on random data, with plans and without, and
// however they are sent. While they are sent, no more are reserved; once they are sent, none.
func TestMemory_CoversWhatIsEncoded(t *testing.T) {
	testkit.Heavy(t)
	b, schema := smallBlog(t, Options{}), readSchema(t)
	random := rand.New(rand.NewPCG(1, 0))
	var long []string // ids of posts whose text, twice, makes a long response of a feed
	for n := range 20 {
		text := randomText(random)
		id := b.post(t, "ada", fmt.Sprint("random ", n), text)
		if len(text) > plan.ScratchBytes/4 {
			long = append(long, postGlobalID(id))
		}
		b.comment(t, "grace", id, string([]rune(randomText(random) + strings.Repeat("x", 1000))[:1000]))
	}
	handlers := map[string]http.Handler{"with plans": b, "without plans": unplannedHandler{b}}
	sizes := map[bool]int{}
	check := func(rt *rapid.T, ofLong bool) {
		query := randomQuery(b, schema, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)))
		if ofLong {
			query = fmt.Sprintf(
				`{ a: node(id: %q) { id ... on Post { content html: contentHtml } } feed(first: 9) { edges { node { title contentHtml } } } }`,
				rapid.SampledFrom(long).Draw(rt, "post"))
		}
		if rapid.IntRange(0, 5).Draw(rt, "mutation") == 0 {
			query = b.fill(
				`mutation { likePost(input: {postId: "<post:notes>"}) { like { id } post { content comments { edges { node { content } } } } } }`)
		}
		accept := rapid.SampledFrom([]string{mediaJSON, mediaResponse, mediaEvents}).Draw(rt, "accept")
		for edge, h := range handlers {
			r := httptest.NewRequest(http.MethodPost, "/graphql",
				strings.NewReader(string(appendJSON(nil, map[string]any{"query": query}))))
			r.Header.Set("Content-Type", mediaJSON)
			r.Header.Set("Accept", accept)
			r.Header.Set("Authorization", "Bearer demo:ada")
			w := &checkingWriter{ResponseRecorder: httptest.NewRecorder(), t: t, blog: b}
			h.ServeHTTP(w, r)
			if w.less > 0 && strings.Contains(w.Body.String(), `"data":`) { // not refused before it executed
				rt.Errorf("%s, %s: %.0f bytes of %d are not reserved: %s", edge, accept, w.less, w.Body.Len(), query)
			}
			if w.most > float64(w.Body.Len()+framing) {
				rt.Errorf("%s, %s: %.0f bytes are reserved while %d are sent: %s", edge, accept, w.most, w.Body.Len(),
					query)
			}
			if left := metricOf(t, b.metrics, reservedMetric); left != 0 {
				rt.Errorf("%s, %s: %.0f bytes are left: %s", edge, accept, left, query)
			}
			sizes[w.Body.Len() > plan.ScratchBytes]++
		}
	}
	for _, ofLong := range []bool{false, true} {
		rapid.Check(t, func(rt *rapid.T) { check(rt, ofLong) })
	}
	if sizes[true] < 10 || sizes[false] < 10 {
		t.Errorf("%d long and %d short responses", sizes[true], sizes[false])
	}
}

// The events of subscriptions, too.
func TestMemory_CoversEvents(t *testing.T) {
	b, _ := liveBlog(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	w := &checkingWriter{ResponseRecorder: httptest.NewRecorder(), t: t, blog: b, next: make(chan struct{})}
	written := w.next
	r := httptest.NewRequest(http.MethodPost, "/graphql",
		strings.NewReader(
			`{"query":"subscription { postPublished { title a: content b: contentHtml author { username } } }"}`))
	r.Header.Set("Content-Type", mediaJSON)
	r.Header.Set("Accept", mediaEvents)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.ServeHTTP(w, r.WithContext(ctx))
	}()
	opened(t, b, 1)
	b.post(t, "ada", "long", strings.Repeat("\U0001F600", 100_000))
	<-written
	cancel()
	<-ended
	if w.less > 0 || w.Body.Len() < 800_000 {
		t.Errorf("%.0f bytes of %d are not reserved", w.less, w.Body.Len())
	}
	if left := metricOf(t, b.metrics, reservedMetric); left != 0 {
		t.Errorf("%.0f bytes are left", left)
	}
}

// An event is refused if there is no memory for what the executor builds for it, although the response alone would fit.
func TestMemory_TooLargeEvent(t *testing.T) {
	b, server := liveBlog(t, Options{Capacity: limit.Capacity{Responses: 2 << 20}})
	events := openEvents(t, server, http.MethodPost, mediaEvents, "",
		`subscription { postPublished { a: content b: content } }`)
	opened(t, b, 1)
	b.post(t, "ada", "long", strings.Repeat("\U0001F600", 100_000))
	if got := events.next(); !strings.HasPrefix(got, `next {"errors":[`) ||
		!strings.Contains(got, "QUERY_TOO_EXPENSIVE") {
		t.Errorf("got %.300s", got)
	}
}

// A mutation is not executed unless there is memory for a small payload.
func TestMemory_ReserveOfMutations(t *testing.T) {
	for responses, executed := range map[int64]bool{limit.MutationBytes - 1: false, limit.MutationBytes: true} {
		b := smallBlog(t, Options{Capacity: limit.Capacity{Responses: responses}})
		a := post(t, b, "demo:grace", b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { like { id } } }`),
			nil)
		if failed := a.code() != ""; failed == executed {
			t.Errorf("memory of %d bytes: %s", responses, a.body)
		}
		p, err := b.store.Post(t.Context(), b.postID(t, "notes"))
		if err != nil || (p.LikeCount == 1) != executed {
			t.Errorf("memory of %d bytes: %+v %v", responses, p, err)
		}
	}
}

// A mutation says what each of its root fields has written if there is no memory for its payload.
func TestMemory_OfMutations(t *testing.T) {
	b := smallBlog(t, Options{Capacity: limit.Capacity{Responses: 2 << 20}})
	b.post(t, "ada", "long", strings.Repeat("ä", 100_000))
	selection := "{ like { id } post { content a: content b: content c: content d: content e: content f: content } }"
	query := b.fill(
		`mutation { a: likePost(input: {postId: "<post:notes>"}) { like { id } } b: likePost(input: {postId: "<post:long>"}) ` + selection + ` }`)
	for edge, h := range map[string]http.Handler{"with plans": b, "without plans": unplannedHandler{b}} {
		a := post(t, h, "demo:grace", query, nil)
		if len(a.Errors) != 2 || string(a.Data) != `{"a":null,"b":null}` || a.code() != "QUERY_TOO_EXPENSIVE" {
			t.Fatalf("%s: %.500s", edge, a.body)
		}
		for i, title := range []string{"notes", "long"} {
			e := a.Errors[i]
			id, _ := e.Extensions["id"].(string)
			if e.Message != messageWritten || len(e.Path) != 1 || e.Path[0] != []string{"a", "b"}[i] ||
				e.Extensions["retryAfterMs"] != nil {
				t.Errorf("%s: %v", edge, e)
			}
			var out struct {
				Node struct{ Post struct{ Title string } }
			}
			found := post(t, b, "", fmt.Sprintf(`{ node(id: %q) { ... on Like { post { title } } } }`, id), nil)
			if err := json.Unmarshal(found.Data, &out); err != nil || out.Node.Post.Title != title {
				t.Errorf("%s: %s %v", edge, found.body, err)
			}
		}
	}
}

// A response that takes more memory than there is for one is refused like one that is too large: to repeat the
// operation would not help.
func TestMemory_TooLarge(t *testing.T) {
	b := smallBlog(t, Options{Capacity: limit.Capacity{Responses: 2 << 20}})
	b.post(t, "ada", "long", strings.Repeat("\U0001F600", 100_000))
	for edge, h := range map[string]http.Handler{"with plans": b, "without plans": unplannedHandler{b}} {
		a := post(t, h, "", b.fill(`{ post(id: "<post:long>") { title a: content b: content c: content } }`), nil)
		if a.code() != "QUERY_TOO_EXPENSIVE" || a.field() != "post.a" || len(a.Errors) != 1 || a.Data != nil {
			t.Errorf("%s: %.500s", edge, a.body)
		}
		if a := post(t, h, "", b.fill(`{ post(id: "<post:long>") { title } }`), nil); a.code() != "" {
			t.Errorf("%s: %.500s", edge, a.body)
		}
	}
}

// The HTML of a text is counted besides the response.
func TestMemory_OfHTML(t *testing.T) {
	for responses, code := range map[int64]string{1500 << 10: "QUERY_TOO_EXPENSIVE", 3 << 20: ""} {
		b := smallBlog(t, Options{Capacity: limit.Capacity{Responses: responses}})
		b.post(t, "ada", "quotes", strings.Repeat(`"`, 100_000)) // each is &#34;
		for edge, h := range map[string]http.Handler{"with plans": b, "without plans": unplannedHandler{b}} {
			if a := post(t, h, "", b.fill(`{ post(id: "<post:quotes>") { contentHtml } }`), nil); a.code() != code {
				t.Errorf("%s, memory of %d bytes: %d bytes, %.300s", edge, responses, len(a.body), a.body)
			}
			if left := metricOf(t, b.metrics, reservedMetric); left != 0 {
				t.Errorf("%s: %.0f bytes are left", edge, left)
			}
		}
	}
}
