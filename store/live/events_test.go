package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/blog"
)

// The tail of the change feed stops when there are no listeners, but not while a stream is being opened:
// open would then wait for a tail that does not start.
func TestEvents_StopIfIdle(t *testing.T) {
	e, err := New(Options{Clock: time.Now, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	close(e.tailReady())
	release := e.holdTail()
	if e.stopIfIdle() {
		t.Error("stops while a stream is being opened")
	}
	s := e.published.open("")
	release()
	if e.stopIfIdle() {
		t.Error("stops while a stream is open")
	}
	s.Close()
	if !e.stopIfIdle() {
		t.Error("does not stop without streams")
	}
	select {
	case <-e.tailReady():
		t.Error("the tail is still ready")
	default:
	}
}

// A published item is not new when it changes later, however many were published in between.
func TestIsNew_Once(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	e, err := New(Options{Clock: func() time.Time { return start }, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	item := func(n int, revision int64) *blog.Change {
		created := start.Add(time.Duration(n) * time.Millisecond)
		return &blog.Change{Authored: blog.Authored{ID: fmt.Sprint(n), Written: created.Unix()},
			CreatedAt: blog.NewDate(created), Revision: revision}
	}
	for n := range 2 * maxSeen {
		if !e.isNew(item(n, 1)) {
			t.Fatalf("item %d is not new", n)
		}
	}
	if e.isNew(item(0, 2)) {
		t.Error("the first item is new again after a change")
	}
	if !e.isNew(item(2*maxSeen, 2)) {
		t.Error("an item changed right after its creation is not new")
	}
}

// An item is new if it was created after the tail started or shortly before, and was written soon after.
func TestIsNew(t *testing.T) {
	const since = time.Hour // when the tail started
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	e, err := New(Options{Clock: func() time.Time { return start.Add(since) }, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name             string
		created, written time.Duration
		revision         int64
		edited           blog.Date
		isNew            bool
	}{
		{"post created after the start", since, since, 1, "", true},
		{"post created after the start, changed at once", since, since, 2, "", true},
		{"post created 30 s before", since - 30*time.Second, since, 1, "", true},
		{"comment created 30 s before", since - 30*time.Second, since, 0, "", true},
		{"post created 30 s before, changed", since - 30*time.Second, since, 2, "", false},
		{"comment created 30 s before, edited", since - 30*time.Second, since, 0, blog.NewDate(start), false},
		{"post created 2 min before", since - 2*time.Minute, since, 1, "", false},
		{"post created a minute before", since - time.Minute, since, 1, "", true},
		{"post created a minute and more before", since - time.Minute - time.Millisecond, since, 1, "", false},
		{"post created just before, changed", since - time.Millisecond, since, 2, "", false},
		{"post written 10 min after its creation", since, since + 10*time.Minute, 1, "", true},
		{"post written 11 min after its creation", since, since + 11*time.Minute, 1, "", false},
	} {
		item := &blog.Change{Authored: blog.Authored{ID: tt.name, Written: start.Add(tt.written).Unix()},
			CreatedAt: blog.NewDate(start.Add(tt.created)), Revision: tt.revision, UpdatedAt: tt.edited}
		if got := e.isNew(item); got != tt.isNew {
			t.Errorf("%s: got new %t, want %t", tt.name, got, tt.isNew)
		}
	}
}
