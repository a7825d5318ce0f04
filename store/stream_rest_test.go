package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/blog"
)

// The reader of the change feed rests when nobody listens, and not while a stream is
// being opened: that would wait for a place that nobody looks for.
func TestEvents_Rest(t *testing.T) {
	e, err := newEvents(time.Time{}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	close(e.placeKnown())
	opened := e.open()
	if e.rest() {
		t.Error("rests while a stream is being opened")
	}
	s := e.published.open("")
	opened()
	if e.rest() {
		t.Error("rests while a stream is open")
	}
	s.Close()
	if !e.rest() {
		t.Error("does not rest")
	}
	select {
	case <-e.placeKnown():
		t.Error("the place is still known")
	default:
	}
}

// What was published once is not published again when it changes, however much was published
// in between.
func TestIsNew_Once(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	e, err := newEvents(start, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	item := func(n int, revision int64) *blog.Change {
		created := start.Add(time.Duration(n) * time.Millisecond)
		return &blog.Change{Authored: blog.Authored{ID: fmt.Sprint(n), Written: created.Unix()}, CreatedAt: blog.NewDate(created), Revision: revision}
	}
	for n := range 2 * rememberedNew {
		if !e.isNew(item(n, 1)) {
			t.Fatalf("item %d is not new", n)
		}
	}
	if e.isNew(item(0, 2)) {
		t.Error("the first is new again when it has changed")
	}
	if !e.isNew(item(2*rememberedNew, 2)) {
		t.Error("an item that was changed right after its creation is not new")
	}
}

// An item is news soon after it was created, to those who listened by then, or nearly.
func TestIsNew(t *testing.T) {
	const listened = time.Hour
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	e, err := newEvents(start.Add(listened), prometheus.NewRegistry())
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
		{"created since", listened, listened, 1, "", true},
		{"created since and changed at once", listened, listened, 2, "", true},
		{"created just before", listened - 30*time.Second, listened, 1, "", true},
		{"a comment of just before", listened - 30*time.Second, listened, 0, "", true},
		{"created just before and changed", listened - 30*time.Second, listened, 2, "", false},
		{"a comment of just before, edited", listened - 30*time.Second, listened, 0, blog.NewDate(start), false},
		{"created before", listened - 2*time.Minute, listened, 1, "", false},
		{"written again much later", listened, listened + 11*time.Minute, 1, "", false},
	} {
		item := &blog.Change{Authored: blog.Authored{ID: tt.name, Written: start.Add(tt.written).Unix()}, CreatedAt: blog.NewDate(start.Add(tt.created)), Revision: tt.revision, EditedAt: tt.edited}
		if got := e.isNew(item); got != tt.isNew {
			t.Errorf("%s: new %t", tt.name, got)
		}
	}
}
