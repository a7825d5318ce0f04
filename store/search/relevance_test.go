package search

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/enginetest"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// openSearcher returns a Searcher of texts in the partition 2020s, whose ids are their indexes. A transport that is not
// nil is put before the engine.
func openSearcher(t *testing.T, texts []string, before *twoPages) *Searcher {
	t.Helper()
	engine, err := emulator.Open("", emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	o := cosmos.Options{Transport: engine}
	if before != nil {
		before.Transporter, o.Transport = engine, before
	}
	account := enginetest.Account(t, engine, o)
	if _, err := account.Client().CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "blog"}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := account.Client().NewDatabase("blog")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: blog.SearchContainer,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/decade"}},
		IndexingPolicy: &azcosmos.IndexingPolicy{Automatic: true, IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
			ExcludedPaths:   []azcosmos.ExcludedPath{{Path: "/text/?"}},
			FullTextIndexes: []azcosmos.FullTextIndex{{Path: "/text"}}},
		FullTextPolicy: &azcosmos.FullTextPolicy{DefaultLanguage: "en-US",
			FullTextPaths: []azcosmos.FullTextPath{{Path: "/text", Language: "en-US"}}}}, nil); err != nil {
		t.Fatal(err)
	}
	c, err := db.NewContainer(blog.SearchContainer)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		item := Item{Envelope: blog.Envelope{Type: blog.TypePost}, ID: fmt.Sprint(i), Decade: "2020s", Text: text}
		if _, err := c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("2020s"), blog.Encode(item), nil); err != nil {
			t.Fatal(err)
		}
	}
	container, err := account.Container("blog", blog.SearchContainer)
	if err != nil {
		t.Fatal(err)
	}
	return New(container, time.Now, slog.New(slog.DiscardHandler))
}

// twoPages splits the response to a statistics query of two terms into two pages: one of a text with two words and the
// first term, and one of the rest.
type twoPages struct {
	policy.Transporter
	rest []byte // nil: not yet sent
}

func (p *twoPages) Do(r *http.Request) (*http.Response, error) {
	resp, err := p.Transporter.Do(r)
	if err != nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	const continuation = "X-Ms-Continuation"
	if r.Header.Get(continuation) == "rest" {
		resp.StatusCode, resp.Header, body = http.StatusOK, http.Header{}, p.rest
	} else if bytes.Contains(body, []byte(`"fullTextStatistics"`)) {
		var all struct{ Documents []statisticsRow }
		if err := json.Unmarshal(body, &all); err != nil {
			return nil, err
		}
		page := func(texts, words, first, second int64) []byte {
			return fmt.Appendf(nil, `{"_rid": "x", "Documents": [{"documentCount": %d, "fullTextStatistics": [`+
				`{"totalWordCount": %d, "hitCounts": [%d, %d]}]}], "_count": 1}`, texts, words, first, second)
		}
		each := all.Documents[0].Each[0]
		p.rest = page(all.Documents[0].Texts-1, each.Words-2, each.Hits[0]-1, each.Hits[1])
		body = page(1, 2, 1, 0)
		resp.Header.Set(continuation, "rest")
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// TestStatistics_Pages: the rows of several pages are added up.
func TestStatistics_Pages(t *testing.T) {
	pages := &twoPages{}
	s := openSearcher(t, []string{"red wine", "red red", "a blue sea", "red sea"}, pages)
	q, err := Parse("test", "red sea")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.statistics(t.Context(), q, []string{"2020s"})
	if err != nil || pages.rest == nil {
		t.Fatal(err, pages.rest)
	}
	if got.size != (size{texts: 4, words: 8}) || !cmp.Equal(got.hits, []int64{3, 2}) {
		t.Errorf("got %+v", got)
	}
}
