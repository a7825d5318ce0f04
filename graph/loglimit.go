package graph

import (
	"sync"
	"time"
)

// logLimit limits the log lines of each kind to one in an interval. There must be few kinds. It is safe for
// concurrent use.
type logLimit[K comparable] struct {
	interval time.Duration

	mu     sync.Mutex
	byKind map[K]lastLine // guarded by mu
}

// lastLine records the last log line of a kind.
type lastLine struct {
	logged     time.Time
	suppressed int // lines since then
}

func newLogLimit[K comparable](interval time.Duration) *logLimit[K] {
	return &logLimit[K]{interval: interval, byKind: map[K]lastLine{}}
}

// admit reports whether to log a line, and how many of its kind were not logged before it.
func (l *logLimit[K]) admit(kind K) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, now := l.byKind[kind], time.Now()
	if now.Sub(last.logged) < l.interval {
		last.suppressed++
		l.byKind[kind] = last
		return 0, false
	}
	l.byKind[kind] = lastLine{logged: now}
	return last.suppressed, true
}
