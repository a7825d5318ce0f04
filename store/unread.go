package store

// maxUnread is how many bytes the events of each kind may take that wait for the readers of streams.
// Streams of one subject share their events.
const maxUnread = 32 << 20

// sizes are those of the last events of a stream, in bytes.
type sizes struct {
	last  [streamBuffer]int32
	count int
}

func (s *sizes) add(n int) {
	s.last[s.count%streamBuffer] = int32(n)
	s.count++
}

// waiting returns the bytes of the last n events without the first of them, which any reader may
// leave for a moment.
func (s *sizes) waiting(n int) (bytes int) {
	for i := 1; i < n; i++ {
		bytes += int(s.last[(s.count-i)%streamBuffer])
	}
	return bytes
}

// unreadLocked returns the bytes of the events of a subject that wait.
func (t *topics[T]) unreadLocked(subject string) (most int) {
	for s := range t.streams[subject] {
		most = max(most, s.sizes.waiting(len(s.events)))
	}
	return most
}

// countLocked counts what waits for the readers of a subject, and ends streams if all events together
// take too much: those for which more waits than half of an equal share of each subject. So afterwards
// at most half waits. What was read since its last event is counted only then.
func (t *topics[T]) countLocked(subject string) {
	t.setUnreadLocked(subject)
	if t.unread <= t.most {
		return
	}
	for of := range t.streams {
		t.setUnreadLocked(of)
	}
	if t.unread <= t.most {
		return
	}
	share := t.most / 2 / len(t.streams)
	for of, streams := range t.streams {
		for s := range streams {
			if s.sizes.waiting(len(s.events)) > share {
				s.discard()
				t.endLocked(s, ErrTooSlow)
			}
		}
		t.setUnreadLocked(of)
	}
}

func (t *topics[T]) setUnreadLocked(subject string) {
	n := t.unreadLocked(subject)
	t.unread += n - t.unreadOf[subject]
	if t.unreadOf[subject] = n; n == 0 {
		delete(t.unreadOf, subject)
	}
}

// discard discards the events that wait.
func (s *Stream[T]) discard() {
	for {
		select {
		case <-s.events:
		default:
			return
		}
	}
}
