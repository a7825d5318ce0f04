package search

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
)

// Cosmos DB leaves ORDER BY RANK to its clients. As its SDKs do, a search asks for statistics: how many texts there are,
// how many words they have, and in how many each term occurs. It then asks for the texts with the best scores by these
// numbers (BM25). The texts of the requests are those of the SDKs, of which Go's knows nothing of this.

const (
	statisticsAge = 5 * time.Minute // for which statistics are used
	maxDecades    = 100
	maxKnownTerms = 10_000
)

// size is how many texts a decade has.
type size struct {
	texts, words int64
	read         time.Time
}

// hitsOf is a term in a decade.
type hitsOf struct{ decade, term string }

// known is how many texts have a term.
type known struct {
	texts int64
	read  time.Time
}

// statistics are those of several decades for a query.
type statistics struct {
	size
	hits []int64 // of the terms
}

// Relevant returns the n best posts of decades that match a query, best first: one request for each decade, and one
// more if its statistics are unknown. If Cosmos DB refuses to rank, it returns the newest. Invalid if the container does
// not exist.
func (s *Searcher) Relevant(ctx context.Context, q Query, f Filter, decades []string, n int) ([]Hit, error) {
	if s.refused.Load() {
		return s.newest(ctx, q, f, decades, n)
	}
	hits, err := s.ranked(ctx, q, f, decades, n)
	if cosmos.HasStatus(err, http.StatusBadRequest) {
		if !s.refused.Swap(true) {
			s.logger.Warn("Cosmos DB does not rank: searches return the newest posts instead of the most relevant",
				"err", err)
		}
		return s.newest(ctx, q, f, decades, n)
	}
	return hits, err
}

// newest returns the n newest posts of decades.
func (s *Searcher) newest(ctx context.Context, q Query, f Filter, decades []string, n int) (hits []Hit, err error) {
	for _, decade := range decades {
		some, err := s.Newest(ctx, q, f, decade, blog.Entry{}, n-len(hits))
		if err != nil {
			return nil, err
		}
		if hits = append(hits, some...); len(hits) >= n {
			break
		}
	}
	return hits, nil
}

// scored is a row of a scored query.
type scored struct {
	Payload struct {
		Row    row       `json:"payload"`
		Scores []float64 `json:"componentScores"`
	} `json:"payload"`
}

func (s *Searcher) ranked(ctx context.Context, q Query, f Filter, decades []string, n int) ([]Hit, error) {
	stats, err := s.statistics(ctx, q, decades)
	if err != nil {
		return nil, err
	}
	found := make([][]scored, len(decades))
	g, ctx := errgroup.WithContext(ctx)
	for i, decade := range decades {
		g.Go(func() error {
			request := q.scoredQuery(f, decade, stats, n)
			return eachRow(ctx, s.container, request, func(r scored) { found[i] = append(found[i], r) })
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b scored) int {
		return -slices.Compare(a.Payload.Scores, b.Payload.Scores)
	})
	hits := make([]Hit, 0, min(n, len(all)))
	for _, r := range all[:min(n, len(all))] {
		hits = append(hits, s.hit(q, r.Payload.Row))
	}
	return hits, nil
}

// scoredQuery returns the component query of a decade: the n texts with the best scores.
func (q Query) scoredQuery(f Filter, decade string, stats statistics, n int) cosmos.Query {
	request, where := q.where(f, decade)
	hits, _ := json.Marshal(stats.hits) // cannot fail
	score := fmt.Sprintf("_FullTextScore(c.text, [%s], %d, %d, %s)", literals(q.must), stats.texts, stats.words, hits)
	request.Text = fmt.Sprintf(`SELECT TOP %[1]d c._rid, [{"item": %[2]s}] AS orderByItems, `+
		`{"payload": %[3]s, "componentScores": [(%[2]s ?? -1)]} AS payload FROM c WHERE (%[4]s) AND (true) ORDER BY %[2]s DESC`,
		n, score, q.selected(), where)
	request.PageSize = int32(n)
	return request
}

// statistics returns the statistics of decades, which are read if they are not known.
func (s *Searcher) statistics(ctx context.Context, q Query, decades []string) (sum statistics, err error) {
	each := make([]statistics, len(decades))
	g, ctx := errgroup.WithContext(ctx)
	for i, decade := range decades {
		g.Go(func() (err error) {
			var unknown []term
			if each[i], unknown = s.known(q, decade); len(unknown) == 0 {
				return nil
			}
			if err := s.readStatistics(ctx, unknown, decade); err != nil {
				return err
			}
			each[i], _ = s.known(q, decade)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return sum, err
	}
	sum.hits = make([]int64, len(q.must))
	for _, one := range each {
		sum.texts, sum.words = sum.texts+one.texts, sum.words+one.words
		for i, n := range one.hits {
			sum.hits[i] += n
		}
	}
	return sum, nil
}

// known returns the statistics of a decade as far as they are known, and the terms that are not.
func (s *Searcher) known(q Query, decade string) (stats statistics, unknown []term) {
	recent := s.clock().Add(-statisticsAge)
	stats.hits = make([]int64, len(q.must))
	stats.size, _ = s.sizes.Get(decade)
	for i, t := range q.must {
		k, ok := s.hits.Get(hitsOf{decade, t.key()})
		if stats.hits[i] = min(k.texts, stats.texts); !ok || k.read.Before(recent) {
			unknown = append(unknown, t)
		}
	}
	return stats, unknown
}

// readStatistics reads the statistics of a decade for terms.
func (s *Searcher) readStatistics(ctx context.Context, terms []term, decade string) error {
	var read struct {
		Texts int64 `json:"documentCount"`
		Each  []struct {
			Words int64   `json:"totalWordCount"`
			Hits  []int64 `json:"hitCounts"`
		} `json:"fullTextStatistics"`
	}
	request := cosmos.Query{Partition: decade, Text: statisticsQuery(terms)}
	var last json.RawMessage
	err := eachRow(ctx, s.container, request, func(r json.RawMessage) { last = r })
	if err != nil {
		return err
	}
	if err := json.Unmarshal(last, &read); err != nil || len(read.Each) != 1 || len(read.Each[0].Hits) != len(terms) {
		return blog.Malformed(op, "statistics", cmp.Or(err, fmt.Errorf("unexpected: %s", last)))
	}
	now := s.clock()
	s.sizes.Add(decade, size{read.Texts, read.Each[0].Words, now})
	for i, t := range terms {
		s.hits.Add(hitsOf{decade, t.key()}, known{read.Each[0].Hits[i], now})
	}
	return nil
}

// statisticsQuery returns the SQL of the statistics of terms.
func statisticsQuery(terms []term) string {
	hits := make([]string, len(terms))
	for i := range terms {
		hits[i] = "COUNTIF(FullTextContains(c.text, " + terms[i].sql() + "))"
	}
	return `SELECT COUNT(1) AS documentCount, [{"totalWordCount": SUM(_FullTextWordCount(c.text)), "hitCounts": [` +
		strings.Join(hits, ", ") + "]}] AS fullTextStatistics FROM c"
}

// What a query costs in the embedded engine, in RU. Microsoft publishes no figures for full-text indexes.
const (
	queryRU   = 2.25
	postingRU = 0.001453
	kilobyte  = 0.013457 * 4 // of the items returned
	itemBytes = 450          // besides the text
	charBytes = 7.5          // of a text for each word that is no stop word
)

// RU returns what the first request for n hits costs in the embedded engine, of all decades whose statistics are known;
// false if there are none.
func (s *Searcher) RU(q Query, byDate bool, n int) (ru float64, ok bool) {
	for _, decade := range s.sizes.Keys() {
		stats, unknown := s.known(q, decade)
		if len(unknown) > 0 || stats.texts == 0 {
			continue
		}
		ru, ok = ru+stats.ru(byDate, n, s.meanText.Load()), true
	}
	return ru, ok
}

func (s *statistics) ru(byDate bool, n int, meanText int64) float64 {
	texts := float64(s.texts)
	rare, matching, postings := texts, texts, 0.0
	for _, h := range s.hits {
		rare, matching = min(rare, float64(h)), matching*float64(h)/texts
	}
	matching = min(matching, rare)
	for _, h := range s.hits {
		const reads = 3 // of a frequent term for each text with a rare one
		postings += min(float64(h), reads*rare+1)
	}
	const sorted = 400 // how many texts the engine sorts by date, instead of going through all
	switch {
	case byDate && matching < sorted:
		postings += matching
	case byDate: // an entry of the composite index, and whether the text has the terms
		entries := float64(n) * texts / matching
		postings = entries
		for _, h := range s.hits {
			postings += 1.5 * entries
			entries *= float64(h) / texts
		}
	}
	bytes := float64(meanText)
	if bytes == 0 {
		bytes = charBytes * float64(s.words) / texts
	}
	return queryRU + postingRU*postings + kilobyte*min(float64(n), matching)*(bytes+itemBytes)/1024
}
