package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"byline/internal/servertest"
	"byline/internal/testkit"
)

// searchResponse is the response to a search.
type searchResponse struct {
	Data struct {
		Search struct {
			Edges []struct {
				Cursor  string
				Node    struct{ ID, Title string }
				Snippet struct {
					Text    string
					Matches []struct{ Start, End int }
				}
			}
			PageInfo struct {
				HasNextPage bool
				EndCursor   string
			}
		}
	}
	Errors []struct {
		Message    string
		Extensions struct{ Code, Field string }
	}
}

const searchQuery = `query Search($query: String!, $order: SearchOrder, $first: Int, $after: String, $tag: String) {
	search(query: $query, order: $order, first: $first, after: $after, tag: $tag) {
		edges { cursor node { id title } snippet { text matches { start end } } } pageInfo { hasNextPage endCursor }
	}
}`

// searchFor sends a search with variables as JSON, as it is written.
func searchFor(t *testing.T, s *servertest.Instance, variables string) (status int, out searchResponse) {
	t.Helper()
	query, err := json.Marshal(searchQuery)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Root+"/graphql",
		strings.NewReader(fmt.Sprintf(`{"query": %s, "variables": %s}`, query, variables)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(body)).Decode(&out)
	}
	if err != nil {
		t.Fatalf("%d %v: %.500s", resp.StatusCode, err, body)
	}
	return resp.StatusCode, out
}

// quoted returns a text as JSON.
func quoted(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// searchParts are what random queries are made of, as JSON writes them: terms, operators, scripts of the world, what
// ends a literal of SQL, and unpaired surrogates.
var searchParts = []string{
	"a", "the", "compiler", "letters", "Ärger", "naïve", "it's", "don’t", "C++", "c#", "node.js", "1234", "3.14", "²", "ſ",
	" ", " ", " ", "  ", `\t`, `\n`, `\u00a0`, `\u2028`, `\u3000`, `\u0000`, `\u0007`, `\ufeff`, `\u200b`, `\u200d`,
	"-", "--", "- ", `\"`, `\"`, `\"\"`, `-\"`, `\"the\"`, `\"of the\"`, "“", "”", "„", "'", "''", `\\`, `\\\"`, `\\u0022`, "*", "?", "+",
	"|", "&&", "(", ")", "[", "]", "{", "}", "~", "^", "%", "_", "/", ":", ";", ",", ".", "<", ">", "=", "@p", "@decade", "$1", "`",
	"OR", "AND", "NOT", "NEAR", "title:", "1 OR 1=1", `') OR (1=1`, `\") OR true --`, `\"}; DROP`, "SELECT * FROM c", "c.text",
	"FullTextContains(c.text, 'x')", "ORDER BY RANK", "/* */", "-- ", "undefined", "null",
	"日本語", "漢字かな", "한국어", "ไทย", "العربية", "עברית", "हिन्दी", "தமிழ்", "ქართული", "Ελληνικά", "Русский", "አማርኛ", "ᏣᎳᎩ", "𐍈𐌰", "𝔘𝔫𝔦",
	"👩‍👩‍👧‍👦", "🇩🇪", "é", "e\u0301", "z\u0335\u0321\u031b", "İ", "ß", "ﬁ", "\u202e", "\ufffd", `\ud800`, `\udc00`, `\ud83d`,
}

// TestSearch_RandomQueries: whatever one searches for, the response has posts or an error that says what is wrong with
// the query. Snippets have their matches within the text, in its order.
func TestSearch_RandomQueries(t *testing.T) {
	testkit.Heavy(t)
	s := startSite(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	queries := []string{"", strings.Repeat("x", 10_000), strings.Repeat("x ", 500), strings.Repeat("漢", 1000),
		strings.Repeat(`\"`, 1000), strings.Repeat("-", 1000), strings.Repeat("👩‍👩‍👧‍👦", 140), strings.Repeat(`\u0301`, 1000),
		"a" + strings.Repeat(`\u0301`, 900), strings.Repeat("compiler ", 11), strings.Repeat("z", 1000)}
	raw, err := os.ReadFile("testdata/hostile.json")
	var hostile []string
	if err == nil {
		err = json.Unmarshal(raw, &hostile)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile {
		q := quoted(t, text)
		queries = append(queries, q[1:len(q)-1])
	}
	for range testkit.Pick(500, 20_000) {
		var q strings.Builder
		for range 1 + random.IntN(12) {
			q.WriteString(searchParts[random.IntN(len(searchParts))])
		}
		queries = append(queries, q.String())
	}
	found, refused := 0, 0
	for i, q := range queries {
		order, tag := []string{"RELEVANCE", "NEWEST"}[i%2], "null"
		if i%5 == 0 {
			tag = `"` + q + `"`
		}
		status, out := searchFor(t, s, fmt.Sprintf(`{"query": "%s", "order": %q, "tag": %s}`, q, order, tag))
		for _, e := range out.Errors {
			if refused++; e.Extensions.Code != "BAD_USER_INPUT" || e.Message == "" {
				t.Errorf("query %.300q, %s: %+v", q, order, e)
			}
		}
		if status != http.StatusOK && len(out.Errors) == 0 {
			t.Errorf("query %.300q, %s: status %d", q, order, status)
		}
		for _, e := range out.Data.Search.Edges {
			found++
			length, end := len(utf16.Encode([]rune(e.Snippet.Text))), 0
			for _, m := range e.Snippet.Matches {
				if m.Start < end || m.End <= m.Start || m.End > length {
					t.Errorf("query %.300q: matches %v of %q", q, e.Snippet.Matches, e.Snippet.Text)
				}
				end = m.End
			}
		}
		var text string
		if json.Unmarshal([]byte(`"`+q+`"`), &text) == nil && len(text) < 2000 {
			visitHarmless(t, s, "/search?"+url.Values{"q": {text}}.Encode())
		}
	}
	if log := s.Log.String(); strings.Contains(log, "does not rank") {
		t.Error("Cosmos DB has not understood a query")
	}
	if found == 0 || refused == 0 || refused == len(queries) {
		t.Errorf("%d posts, %d errors", found, refused)
	}
	if resp, _ := visit(t, s, "/search?q=%ff%fe%00compiler"); resp.StatusCode != http.StatusOK {
		t.Errorf("invalid UTF-8: %d", resp.StatusCode)
	}
}

// TestSite_Search reads the page of searches as a browser without JavaScript does.
func TestSite_Search(t *testing.T) {
	s := startSite(t)
	var ignored any
	for i := range 12 {
		ask(s, "ada", `mutation($t: String!) { createPost(input: {title: $t, content: "Some <b>zeppelins</b> & 🎈 zeppelins.", tags: ["air"]}) {
			post { id } } }`, map[string]any{"t": fmt.Sprint("Airship ", i)}, &ignored)
	}
	_, body := visit(t, s, "/")
	front := parsePage(t, body)
	action, _ := front.linked[len(front.linked)-1]["potentialAction"].(map[string]any)
	if target, _ := action["target"].(map[string]any); target["urlTemplate"] != siteURL+"/search?q={search_term_string}" {
		t.Errorf("the front page has %v", front.linked)
	}
	if front.hrefs[1] != "/search" {
		t.Errorf("the header has %v", front.hrefs[:2])
	}

	resp, body := visit(t, s, "/search")
	p := parsePage(t, body)
	if resp.StatusCode != http.StatusOK || p.title != "Search · The blog" || p.meta["robots"] != "noindex" || p.inlined != nil ||
		!strings.Contains(body, `name="q"`) {
		t.Errorf("the form: %d %q %v %v", resp.StatusCode, p.title, p.meta, p.inlined)
	}
	policy := resp.Header.Get("Content-Security-Policy")

	seen := map[string]bool{}
	for path, n := "/search?q=ZEPPELIN", 0; path != ""; n++ {
		resp, body := visit(t, s, path)
		p := parsePage(t, body)
		if resp.StatusCode != http.StatusOK || p.title != "ZEPPELIN · Search · The blog" || p.meta["robots"] != "noindex" ||
			resp.Header.Get("Content-Security-Policy") != policy || resp.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %q %v %v", path, resp.StatusCode, p.title, p.meta, resp.Header)
		}
		if !strings.Contains(body,
			"<mark>zeppelins</mark>&lt;/b&gt; &amp; 🎈 <mark>zeppelins</mark>.</p>") {
			t.Errorf("%s: no marked snippet: %s", path, body)
		}
		if (p.inlined != nil) != (n == 0) {
			t.Errorf("page %d brings along %v", n, p.inlined)
		}
		for _, href := range p.hrefs {
			if strings.HasPrefix(href, "/posts/") {
				seen[href] = true
			}
		}
		path = strings.TrimPrefix(p.links["next"], siteURL)
	}
	if len(seen) != 12 {
		t.Errorf("the pages have %d posts: %v", len(seen), seen)
	}

	for query, want := range map[string]string{
		"q=zeppelin&order=newest":          `{"order":"NEWEST","query":"zeppelin","signedIn":false}`,
		"q=+zeppelin+&tag=air&x=1":         `{"query":"zeppelin","signedIn":false,"tag":"air"}`,
		"q=zeppelin&tag=other":             `{"query":"zeppelin","signedIn":false,"tag":"other"}`,
		"q=%22some+zeppelins%22&order=any": `{"query":"\"some zeppelins\"","signedIn":false}`,
	} {
		_, body := visit(t, s, "/search?"+query)
		if p := parsePage(t, body); p.inlined["data-variables"] != want || p.inlined["data-document"] != "search" {
			t.Errorf("%s: brings along the response for %s", query, p.inlined["data-variables"])
		}
	}
	for query, want := range map[string]string{
		"q=nothinglikethis":              "No posts match all of this.",
		"q=the":                          "The search must have a word",
		"q=-zeppelin":                    "The search must have a word",
		"q=zeppelin&author=ada":          "The author is not a valid global id.",
		"q=zeppelin&tag=%23%23":          "The tag is not a tag.",
		"q=" + strings.Repeat("x", 1001): "The search must have at most 1000 characters.",
	} {
		resp, body := visit(t, s, "/search?"+query)
		if p := parsePage(t, body); resp.StatusCode != http.StatusOK || !strings.Contains(p.text, want) ||
			(p.inlined == nil) != strings.HasPrefix(want, "The ") {
			t.Errorf("%s: %d %s", query, resp.StatusCode, p.text)
		}
	}
	if resp, _ := visit(t, s, "/search?q=zeppelin&after=nonsense"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a cursor of nothing: %d", resp.StatusCode)
	}
	if resp, body := visit(t, s, "/llms.txt"); !strings.Contains(body, siteURL+"/search?q=") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
