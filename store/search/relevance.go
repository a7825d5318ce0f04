package search

import (
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

// Cosmos DB leaves ORDER BY RANK to its clients. As its SDKs do, a search asks for statistics: how many texts there
// are, how many words they have, and in how many each term occurs. It then asks for the texts with the best scores by
// these numbers (BM25). The texts of the requests are those of the SDKs, of which Go's knows nothing of this.

const (
	statisticsAge = 5 * time.Minute // for which statistics are used
	refusalAge    = 5 * time.Minute // for which Cosmos DB is not asked to rank after it has refused
	maxDecades    = 100
	maxKnownTerms = 10_000
)

// size is how many texts a decade has, and how many words they have.
type size struct{ texts, words int64 }

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
// more if its statistics are unknown. If Cosmos DB refuses to rank, but not to find, it returns the newest, for
// refusalAge. Invalid if the container does not exist.
func (s *Searcher) Relevant(ctx context.Context, q Query, f Filter, decades []string, n int) ([]Hit, error) {
	if now := s.clock(); now.UnixNano() < s.refused.Load() {
		return s.newest(ctx, q, f, decades, n)
	}
	hits, err := s.ranked(ctx, q, f, decades, n)
	if !cosmos.HasStatus(err, http.StatusBadRequest) {
		return hits, err
	}
	hits, other := s.newest(ctx, q, f, decades, n)
	if other != nil {
		return nil, other
	}
	s.refused.Store(s.clock().Add(refusalAge).UnixNano())
	s.logger.Warn("Cosmos DB does not rank: searches return the newest posts instead of the most relevant",
		"err", err, "for", refusalAge)
	return hits, nil
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
		`{"payload": %[3]s, "componentScores": [(%[2]s ?? -1)]} AS payload `+
		`FROM c WHERE (%[4]s) AND (true) ORDER BY %[2]s DESC`,
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

// known returns the statistics of a decade as far as they are known, and the terms that are not. Those of a decade that
// had no texts are not, as all scores would be 0 once it has some.
func (s *Searcher) known(q Query, decade string) (stats statistics, unknown []term) {
	recent := s.clock().Add(-statisticsAge)
	stats.hits = make([]int64, len(q.must))
	stats.size, _ = s.sizes.Get(decade)
	for i, t := range q.must {
		k, ok := s.hits.Get(hitsOf{decade, t.key})
		if stats.hits[i] = min(k.texts, stats.texts); !ok || k.read.Before(recent) || stats.texts == 0 {
			unknown = append(unknown, t)
		}
	}
	return stats, unknown
}

// statisticsRow is a row of a statistics query. A large partition may return several, to be added up.
type statisticsRow struct {
	Texts int64 `json:"documentCount"`
	Each  []struct {
		Words int64   `json:"totalWordCount"`
		Hits  []int64 `json:"hitCounts"`
	} `json:"fullTextStatistics"`
}

// readStatistics reads the statistics of a decade for terms.
func (s *Searcher) readStatistics(ctx context.Context, terms []term, decade string) error {
	var sum size
	hits := make([]int64, len(terms))
	rows, valid := 0, true
	request := cosmos.Query{Partition: decade, Text: statisticsQuery(terms)}
	err := eachRow(ctx, s.container, request, func(r statisticsRow) {
		rows++
		if len(r.Each) != 1 || len(r.Each[0].Hits) != len(terms) {
			valid = false
			return
		}
		sum.texts, sum.words = sum.texts+r.Texts, sum.words+r.Each[0].Words
		for i, n := range r.Each[0].Hits {
			hits[i] += n
		}
	})
	if err != nil {
		return err
	}
	if rows == 0 || !valid {
		return blog.Malformed(op, "statistics", fmt.Errorf("unexpected row among %d", rows))
	}
	s.sizes.Add(decade, sum)
	now := s.clock()
	for i, t := range terms {
		s.hits.Add(hitsOf{decade, t.key}, known{hits[i], now})
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

// RU returns what the requests for n hits cost in the embedded engine: of decades, newest first, of which a search by
// date reads as many as have n hits. It returns false if the statistics of one of them are not known.
func (s *Searcher) RU(q Query, decades []string, byDate bool, n int) (ru float64, ok bool) {
	for _, decade := range decades {
		stats, unknown := s.known(q, decade)
		switch _, read := s.sizes.Peek(decade); {
		case read && stats.texts == 0 && byDate:
			ru += queryRU
			continue
		case read && stats.texts == 0:
			ru += 2 * queryRU // with its statistics, again
			continue
		case len(unknown) > 0:
			return 0, false
		}
		matching := stats.matching()
		ru += stats.ru(byDate, n, matching, s.meanText.Load())
		if byDate {
			if n -= int(matching); n <= 0 {
				break
			}
		}
	}
	return ru, len(decades) > 0
}

// matching returns how many texts have all terms, about.
func (s *statistics) matching() float64 {
	texts := float64(s.texts)
	rare, matching := texts, texts
	for _, h := range s.hits {
		rare, matching = min(rare, float64(h)), matching*float64(h)/texts
	}
	return min(matching, rare)
}

func (s *statistics) ru(byDate bool, n int, matching float64, meanText int64) float64 {
	texts := float64(s.texts)
	rare, postings := float64(slices.Min(s.hits)), 0.0
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
