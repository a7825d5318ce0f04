package live

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Unread events of many subjects are limited in bytes. A reader that keeps up misses none, and readers of
// one subject share its events.
func TestTopics_UnreadBytes(t *testing.T) {
	const limit, size, subjects = 1000, 10, 10
	topics := newTopics[int](prometheus.NewGauge(prometheus.GaugeOpts{}), limit)
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
	unread := func() (bytes int) { // without the oldest event of each subject
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
					t.Fatalf("got event %d, want %d", got, n)
				}
				if got := unread(); got > limit {
					t.Fatalf("%d bytes are unread, want at most %d", got, limit)
				}
			}
		}
	}
	publish(0, 10)
	if n := ended(slow); n > 0 {
		t.Errorf("%d streams have ended within the limit", n)
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
		t.Errorf("%d slow streams have ended, want %d; %d others have ended, want none", ended(slow[20:]), len(slow[20:]), n)
	}
	for _, s := range slow[20:] {
		if n := len(s.events); n > 0 || !errors.Is(s.Err(), ErrTooSlow) {
			t.Fatalf("%d unread events, want none; error %v, want ErrTooSlow", n, s.Err())
		}
	}
	for _, s := range append(fast, slow[:20]...) {
		s.Close()
	}
	if topics.unread != 0 || len(topics.unreadOf) > 0 {
		t.Errorf("%d bytes are counted without streams: %v", topics.unread, topics.unreadOf)
	}
}
