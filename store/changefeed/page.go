package changefeed

import "time"

// pages are the sizes of a worker's pages. The changes of a page are handled together or, after a
// crash, again. So pages are small until it is known how long they take, and again after a failure.
type pages struct {
	size    int32 // of the next page
	most    int32
	repeats int // changes that may have been handled before
}

const (
	firstPage = 100                    // changes
	shortPage = 250 * time.Millisecond // pages that take no longer grow
	longPage  = time.Second            // pages that take longer shrink
)

func newPages(most int32) pages {
	return pages{size: min(most, firstPage), most: most, repeats: int(most)}
}

// handled adapts the size to how long a page took.
func (p *pages) handled(done handled) {
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

// failed makes the next pages a tenth of the failed one, whose changes they repeat.
func (p *pages) failed() {
	p.repeats = max(p.repeats, int(p.size))
	p.size = max(1, p.size/10)
}
