package live

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A stream ends when more bytes have been published, of all subjects, since an event that it has not read. Its
// unread events are discarded. Readers that keep up miss none.
func TestTopics_BytesBehind(t *testing.T) {
	const limit, size, subjects = 10_000, 100, 10
	topics := newTopics[int](prometheus.NewGauge(prometheus.GaugeOpts{}), limit)
	var slow, late, fast []*Stream[int]
	for i := range subjects {
		subject := fmt.Sprint(i)
		for range 20 {
			slow = append(slow, topics.open(subject))
		}
		late, fast = append(late, topics.open(subject)), append(fast, topics.open(subject))
	}
	ended := func(of []*Stream[int]) (n int) {
		for _, s := range of {
			if s.over {
				n++
			}
		}
		return n
	}
	round := func(n int) { // an event of each subject
		for i, s := range fast {
			topics.publish(fmt.Sprint(i), n, size-recordBytes)
			if got := <-s.Events(); got != n {
				t.Fatalf("got event %d, want %d", got, n)
			}
		}
	}
	const within = limit / size / subjects // rounds
	for n := range within {
		round(n)
	}
	if n := ended(slow) + ended(late) + ended(fast); n > 0 {
		t.Errorf("%d streams have ended within the limit", n)
	}
	for _, s := range late {
		<-s.Events()
	}
	round(within)
	if n := ended(slow); n != len(slow) {
		t.Errorf("%d slow streams have ended, want %d", n, len(slow))
	}
	if n := ended(late) + ended(fast); n > 0 {
		t.Errorf("%d streams within the limit have ended", n)
	}
	for _, s := range slow {
		if n := len(s.events); n > 0 || !errors.Is(s.Err(), ErrTooSlow) {
			t.Fatalf("%d unread events, want none; error %v, want ErrTooSlow", n, s.Err())
		}
	}

	// A subject that is followed again has nothing to do with earlier events.
	late[0].Close()
	fast[0].Close()
	again := topics.open("0")
	topics.publish("0", 0, size-recordBytes)
	for n := range 2 * within {
		for i, s := range fast[1:] {
			topics.publish(fmt.Sprint(i+1), n, size-recordBytes)
			<-s.Events()
		}
		if first := <-again.Events(); first != n {
			t.Fatalf("got event %d, want %d", first, n)
		}
		topics.publish("0", n+1, size-recordBytes)
	}
	if topics.bytes > limit || len(topics.latest) > limit/size {
		t.Errorf("%d bytes in %d events are recorded, want at most %d", topics.bytes, len(topics.latest), limit)
	}
}

// A stream ends with its 65th unread event; the events before it can still be read.
func TestTopics_EventsBehind(t *testing.T) {
	topics := newTopics[int](prometheus.NewGauge(prometheus.GaugeOpts{}), maxBehind)
	slow, other := topics.open("a"), topics.open("b")
	for n := range streamBuffer {
		topics.publish("a", n, 1)
	}
	if slow.over {
		t.Fatal("ended within the limit")
	}
	topics.publish("a", streamBuffer, 1)
	n := 0
	for got := range slow.Events() {
		if got != n {
			t.Errorf("got event %d, want %d", got, n)
		}
		n++
	}
	if n != streamBuffer || !errors.Is(slow.Err(), ErrTooSlow) || other.over {
		t.Errorf("%d events, then %v; the stream of another subject has ended: %t", n, slow.Err(), other.over)
	}
}
