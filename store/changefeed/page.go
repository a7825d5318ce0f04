package changefeed

import "time"

// pages chooses the sizes of a worker's pages. A crash repeats a whole page, so pages are small until
// it is known how long they take, and again after a failure.
type pages struct {
	size    int32 // of the next page
	most    int32 // largest size
	repeats int   // next changes that may have been handled before
}

const (
	firstPage = 100                    // changes
	shortPage = 250 * time.Millisecond // after pages of at most this, pages grow
	longPage  = time.Second            // after pages of more than this, pages shrink
)

func newPages(most int32) pages {
	return pages{size: min(most, firstPage), most: most, repeats: int(most)}
}

// adapt adjusts the size to the duration of a page.
func (p *pages) adapt(done pageResult) {
	p.repeats = max(0, p.repeats-done.Items)
	switch {
	case !done.full && done.Lag == 0:
		p.repeats = 0
	case done.Took <= shortPage:
		p.size = min(2*p.size, p.most)
	case done.Took > longPage:
		p.size = max(1, p.size/2)
	}
}

// shrink makes the next pages a tenth of a failed one, whose changes they repeat.
func (p *pages) shrink() {
	p.repeats = max(p.repeats, int(p.size))
	p.size = max(1, p.size/10)
}
