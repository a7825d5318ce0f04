package changefeed

import (
	"testing"
	"time"
)

func TestPages(t *testing.T) {
	at := func(size int32, repeats int) pages { return pages{size, 1000, repeats} }
	failed := func(p *pages) { p.shrink() }
	full := func(items int, took time.Duration) func(*pages) {
		return func(p *pages) { p.adapt(pageResult{Progress: Progress{Items: items, Lag: 5, Took: took}, full: true}) }
	}
	last := func(items int, full bool, lag int64) func(*pages) {
		return func(p *pages) { p.adapt(pageResult{Progress: Progress{Items: items, Lag: lag}, full: full}) }
	}
	for name, c := range map[string]struct {
		before pages
		change func(*pages)
		want   pages
	}{
		"failed page -> a tenth, its changes may repeat":  {at(200, 0), failed, at(20, 200)},
		"failed page of few changes -> one":               {at(9, 0), failed, at(1, 9)},
		"second failure -> the changes of the first":      {at(20, 200), failed, at(2, 200)},
		"short page -> twice as many":                     {at(100, 0), full(100, shortPage), at(200, 0)},
		"short page -> at most the limit":                 {at(600, 0), full(600, 0), at(1000, 0)},
		"page of medium length -> the same":               {at(100, 0), full(100, longPage), at(100, 0)},
		"long page -> half":                               {at(100, 0), full(100, longPage+1), at(50, 0)},
		"long page of one change -> one":                  {at(1, 0), full(1, longPage+1), at(1, 0)},
		"changes that may repeat -> as many fewer":        {at(100, 150), full(100, longPage), at(100, 50)},
		"more changes than may repeat -> none":            {at(100, 50), full(100, longPage), at(100, 0)},
		"end of the feed -> none may repeat":              {at(100, 150), last(10, false, 0), at(100, 0)},
		"page that ends early -> not the end of the feed": {at(100, 150), last(10, false, 5), at(200, 140)},
		"full page at the end of the feed -> may repeat":  {at(100, 150), last(100, true, 0), at(200, 50)},
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
