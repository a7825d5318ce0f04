package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store"
	"byline/store/blog"
	"byline/store/search"
)

// bm25 returns the scores of documents for terms, words and phrases as they are, by the formula of Robertson with the
// parameters 1.2 and 0.75.
func bm25(documents [][]string, terms []string) []float64 {
	length := 0
	for _, d := range documents {
		length += len(d)
	}
	mean, scores := float64(length)/float64(len(documents)), make([]float64, len(documents))
	for _, term := range terms {
		having, counts := 0.0, make([]float64, len(documents))
		for i, d := range documents {
			counts[i] = float64(occurrences(d, strings.Fields(term)))
			having += min(1, counts[i])
		}
		rarity := math.Log(1 + (float64(len(documents))-having+0.5)/(having+0.5))
		for i, f := range counts {
			scores[i] += rarity * f * 2.2 / (f + 1.2*(0.25+0.75*float64(len(documents[i]))/mean))
		}
	}
	return scores
}

// occurrences returns how often words have a phrase: "a a" is twice in "a a a".
func occurrences(words, phrase []string) (n int) {
	for at := range words {
		if rest := words[at:]; len(rest) >= len(phrase) && slices.Equal(rest[:len(phrase)], phrase) {
			n++
		}
	}
	return n
}

// TestSearch_Ranking: 80 posts of two decades, by two authors, are in the order of their scores among all of them.
func TestSearch_Ranking(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	writers := []*writer{newWriter(w, "ada"), newWriter(w, "bob")}
	vocabulary := strings.Fields("red wine cat dog sun moon tree") // that neither stems nor stops
	var documents [][]string
	index, posts := map[string]int{}, []*blog.Post(nil)
	for i := range 80 {
		var words []string
		for range 1 + r.IntN(40) {
			words = append(words, vocabulary[min(r.IntN(7), r.IntN(7))])
		}
		title, tag := fmt.Sprintf("p%d", i), []string{"even", "odd"}[i%2]
		p := writers[i%3%2].write(fmt.Sprintf("20%d-01-02", 15+i%10), title, strings.Join(words, " "), tag)
		documents, posts = append(documents, append(words, title, tag)), append(posts, p)
		index[p.Title] = i
	}
	for _, a := range writers {
		a.publish()
	}
	for _, one := range []struct {
		query      string
		terms, not []string
		tag        string
		author     bool
	}{
		{query: "red", terms: []string{"red"}},
		{query: "tree", terms: []string{"tree"}},
		{query: "Moon TREES", terms: []string{"moon", "tree"}},
		{query: "cat dog sun", terms: []string{"cat", "dog", "sun"}},
		{query: `"red wine"`, terms: []string{"red wine"}},
		{query: `"red wine" tree`, terms: []string{"red wine", "tree"}},
		{query: `"moon moon"`, terms: []string{"moon moon"}},
		{query: `"cat dog" "dog cat"`, terms: []string{"cat dog", "dog cat"}},
		{query: "red -tree", terms: []string{"red"}, not: []string{"tree"}},
		{query: `wine -moon -"cat red"`, terms: []string{"wine"}, not: []string{"moon", "cat red"}},
		{query: "sun", terms: []string{"sun"}, tag: "even"},
		{query: "sun cat", terms: []string{"sun", "cat"}, tag: "Odd"},
		{query: "moon", terms: []string{"moon"}, author: true},
		{query: "moon red", terms: []string{"moon", "red"}, author: true, tag: "even"},
		{query: "even wine", terms: []string{"even", "wine"}},
		{query: "p7 odd", terms: []string{"p7", "odd"}},
		{query: "submarine", terms: []string{"submarine"}},
		{query: "wine wines WINE", terms: []string{"wine"}},
	} {
		scores, list := bm25(documents, one.terms), []int(nil)
		for i := range documents {
			fits := (one.tag == "" || posts[i].HasTag(strings.ToLower(one.tag))) &&
				(!one.author || posts[i].UserID == writers[1].user.UserID)
			for _, term := range one.terms {
				fits = fits && bm25(documents, []string{term})[i] > 0
			}
			for _, term := range one.not {
				fits = fits && bm25(documents, []string{term})[i] == 0
			}
			if fits {
				list = append(list, i)
			}
		}
		slices.SortStableFunc(list, func(a, b int) int {
			if scores[a] > scores[b] {
				return -1
			}
			return 1
		})
		q := store.Search{Query: one.query, Tag: one.tag}
		if one.author {
			q.AuthorID = writers[1].user.UserID
		}
		var got []*store.Found
		for p := (store.Paging{First: 1 + r.IntN(30)}); ; {
			page, err := w.Search(t.Context(), q, p)
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, page.Items...); !page.More {
				break
			}
			p.After = page.Cursor(len(page.Items) - 1)
		}
		if len(got) != len(list) {
			t.Errorf("%s: found %d posts, want %d", one.query, len(got), len(list))
			continue
		}
		for i, f := range got { // posts with the same score are in any order
			if n := index[f.Post.Title]; math.Abs(scores[n]-scores[list[i]]) > 1e-9 {
				t.Errorf("%s: place %d has %s with the score %v, want %v", one.query, i, f.Post.Title, scores[n],
					scores[list[i]])
				break
			}
		}
	}
}

// TestSearch_Churn: a walk by date while posts are written and deleted returns each post that is there all the time
// once, in order, and nothing twice.
func TestSearch_Churn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	ada := newWriter(w, "ada")
	model := map[string]*blog.Post{}
	for i := range 120 {
		p := ada.write(fmt.Sprintf("20%02d-0%d-01", 17+r.IntN(6), 1+r.IntN(3)), fmt.Sprint("post ", i), "a word")
		model[p.ID] = p
	}
	ada.publish()
	c, err := w.Client.NewContainer(w.Database, blog.SearchContainer)
	if err != nil {
		t.Fatal(err)
	}
	key := func(p *blog.Post) azcosmos.PartitionKey {
		return azcosmos.NewPartitionKeyString(search.Decade(p.CreatedAt))
	}
	for range 3 {
		stable, seen := maps.Clone(model), map[string]bool{}
		var last *blog.Post
		for p := (store.Paging{First: 1 + r.IntN(9)}); ; {
			page, err := w.Search(t.Context(), store.Search{Query: "word", Order: store.ByDate}, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range page.Items {
				if seen[f.Post.ID] {
					t.Fatalf("%s twice", f.Post.ID)
				}
				if last != nil && (f.Post.CreatedAt > last.CreatedAt ||
					f.Post.CreatedAt == last.CreatedAt && f.Post.ID >= last.ID) {
					t.Fatalf("%s of %s after %s of %s", f.Post.ID, f.Post.CreatedAt, last.ID, last.CreatedAt)
				}
				seen[f.Post.ID], last = true, f.Post
			}
			if !page.More {
				break
			}
			p.After = page.Cursor(len(page.Items) - 1)
			for id, post := range model { // in random order
				if delete(model, id); r.IntN(2) == 0 { // the item alone, before the post, as a projection may lag
					if _, err := c.DeleteItem(t.Context(), key(post), id, nil); err != nil {
						t.Fatal(err)
					}
				} else if err := w.DeletePost(t.Context(), post.UserID, id); err != nil {
					t.Fatal(err)
				}
				delete(stable, id)
				break
			}
			if post, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: ada.user.UserID, Title: "later", Content: "word"}); err == nil {
				model[post.ID] = post
			} else {
				t.Fatal(err)
			}
		}
		for id := range stable {
			if !seen[id] {
				t.Errorf("%s is missing", id)
			}
		}
	}
}

// FuzzSearch: a query returns a result, or an error about itself, and Cosmos DB understands what it is sent.
func FuzzSearch(f *testing.F) {
	for _, text := range []string{"red", `"red wine" -cat`, `" OR 1=1 --`, `\" ) OR (true`, "東京 カフェ", "мир", "مرحبا", "🚲🚲",
		"a\u0301\u0301 ‘’ “x", "' UNION SELECT * FROM c", `\u0000\`, "\x00\xff", "@decade @tag", strings.Repeat("x ", 5000),
		strings.Repeat("長", 10_000), `-"a" "`, "{documentdb-formattablehybridsearchquery-totaldocumentcount}", "%s %d %[1]v",
		"İstanbul ß ﬁ", "\u202e\u200b\ufeff", "don't isn’t"} {
		f.Add(text, "go")
	}
	f.Add("x", `"]) OR true`)
	w := newWorld(f)
	ada := newWriter(w, "ada")
	ada.write("2026-01-01", "Red wine in İstanbul", "東京 カフェ 🚲🚲 мир مرحبا don’t x red "+strings.Repeat("é ", 300), "go")
	ada.publish()
	var refusals atomic.Int64
	w.Wire.After(func(r *http.Response) {
		if r.StatusCode == http.StatusBadRequest {
			refusals.Add(1)
		}
	})
	f.Fuzz(func(t *testing.T, text, tag string) {
		defer func() {
			if n := refusals.Swap(0); n > 0 {
				t.Errorf("%q with the tag %q: status 400 of %d requests", text, tag, n)
			}
		}()
		for _, q := range []store.Search{{Query: text}, {Query: text, Order: store.ByDate, Tag: tag, AuthorID: tag}} {
			page, err := w.Search(t.Context(), q, store.Paging{First: 5})
			var refused *blog.Error
			switch {
			case err == nil:
				for _, f := range page.Items {
					for _, m := range f.Snippet.Matches {
						if m.Start < 0 || m.Start >= m.End {
							t.Errorf("%q: match %+v", text, m)
						}
					}
				}
			case !errors.As(err, &refused) || refused.Code != blog.Invalid || refused.Field == "":
				t.Errorf("%q with the tag %q: %v", text, tag, err)
			}
		}
	})
}
