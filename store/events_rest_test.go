package store

import (
	"testing"
	"time"
)

// The reader of the change feed rests when nobody listens, and not while a stream is
// being opened: that would wait for a place that nobody looks for.
func TestRest(t *testing.T) {
	e, err := newEvents(time.Time{})
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
