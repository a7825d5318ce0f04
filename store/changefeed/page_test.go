package changefeed

import (
	"testing"
	"time"
)

func TestPages(t *testing.T) {
	page := func(items int, full bool, lag int64, took time.Duration) pageResult {
		return pageResult{Progress: Progress{Items: items, Lag: lag, Took: took}, full: full}
	}
	shrink := func(p *pages) { p.shrink() }
	adapt := func(done pageResult) func(*pages) { return func(p *pages) { p.adapt(done) } }
	for name, c := range map[string]struct {
		before pages
		change func(*pages)
		want   pages
	}{
		"failed page -> a tenth, its changes may repeat":  {pages{200, 1000, 0}, shrink, pages{20, 1000, 200}},
		"failed page of few changes -> one":               {pages{9, 1000, 0}, shrink, pages{1, 1000, 9}},
		"second failure -> the changes of the first":      {pages{20, 1000, 200}, shrink, pages{2, 1000, 200}},
		"short page -> twice as many":                     {pages{100, 1000, 0}, adapt(page(100, true, 5, shortPage)), pages{200, 1000, 0}},
		"short page -> at most the limit":                 {pages{600, 1000, 0}, adapt(page(600, true, 5, 0)), pages{1000, 1000, 0}},
		"page of medium length -> the same":               {pages{100, 1000, 0}, adapt(page(100, true, 5, longPage)), pages{100, 1000, 0}},
		"long page -> half":                               {pages{100, 1000, 0}, adapt(page(100, true, 5, longPage+1)), pages{50, 1000, 0}},
		"long page of one change -> one":                  {pages{1, 1000, 0}, adapt(page(1, true, 5, longPage+1)), pages{1, 1000, 0}},
		"changes that may repeat -> as many fewer":        {pages{100, 1000, 150}, adapt(page(100, true, 5, longPage)), pages{100, 1000, 50}},
		"more changes than may repeat -> none":            {pages{100, 1000, 50}, adapt(page(100, true, 5, longPage)), pages{100, 1000, 0}},
		"end of the feed -> none may repeat":              {pages{100, 1000, 150}, adapt(page(10, false, 0, 0)), pages{100, 1000, 0}},
		"page that ends early -> not the end of the feed": {pages{100, 1000, 150}, adapt(page(10, false, 5, 0)), pages{200, 1000, 140}},
		"full page at the end of the feed -> may repeat":  {pages{100, 1000, 150}, adapt(page(100, true, 0, 0)), pages{200, 1000, 50}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.before
			if c.change(&got); got != c.want {
				t.Errorf("%+v became %+v, want %+v", c.before, got, c.want)
			}
		})
	}
}

func TestNewPages(t *testing.T) {
	for most, want := range map[int32]pages{10: {10, 10, 10}, 1000: {firstPage, 1000, 1000}} {
		if got := newPages(most); got != want {
			t.Errorf("pages of at most %d changes begin as %+v, want %+v", most, got, want)
		}
	}
}
