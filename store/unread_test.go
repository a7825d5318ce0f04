package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Events that wait for slow readers of many subjects are bounded in bytes, too. Who reads misses
// nothing, and readers of one subject share its events.
func TestTopics_UnreadBytes(t *testing.T) {
	const most, size, subjects = 1000, 10, 10
	topics := newTopics[int](prometheus.NewGauge(prometheus.GaugeOpts{}), most)
	var slow, fast []*Stream[int]
	for i := range subjects {
		subject := fmt.Sprint(i)
		for range 20 {
			slow = append(slow, topics.open(subject))
		}
		fast = append(fast, topics.open(subject))
	}
	ended := func(of []*Stream[int]) (n int) {
		for _, s := range of {
			if s.over {
				n++
			}
		}
		return n
	}
	waiting := func() (bytes int) { // without the first of each subject
		for i := range subjects {
			most := 0
			for s := range topics.streams[fmt.Sprint(i)] {
				most = max(most, len(s.events)-1)
			}
			bytes += most * size
		}
		return bytes
	}
	publish := func(from, to int) {
		for n := from; n < to; n++ {
			for i, s := range fast {
				topics.publish(fmt.Sprint(i), n, size)
				if got := <-s.Events(); got != n {
					t.Fatalf("a reader got event %d, not %d", got, n)
				}
				if got := waiting(); got > most {
					t.Fatalf("%d bytes wait", got)
				}
			}
		}
	}
	publish(0, 10)
	if n := ended(slow); n > 0 {
		t.Errorf("%d streams have ended within the bound", n)
	}
	for _, s := range slow[:20] { // the first subject's
		for range 9 {
			<-s.events
		}
	}
	publish(10, 11)
	if n := ended(slow); n > 0 {
		t.Errorf("%d streams have ended although events were read", n)
	}
	publish(11, 40)
	if n := ended(slow[:20]) + ended(fast); n > 0 || ended(slow[20:]) != len(slow[20:]) {
		t.Errorf("%d streams have ended, and %d whose readers have read", ended(slow), n)
	}
	for _, s := range slow[20:] {
		if n := len(s.events); n > 0 || !errors.Is(s.Err(), ErrTooSlow) {
			t.Fatalf("%d events still wait, %v", n, s.Err())
		}
	}
	for _, s := range append(fast, slow[:20]...) {
		s.Close()
	}
	if topics.unread != 0 || len(topics.unreadOf) > 0 {
		t.Errorf("%d bytes are counted for nobody: %v", topics.unread, topics.unreadOf)
	}
}
