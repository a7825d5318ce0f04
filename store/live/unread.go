package live

// maxUnread is the limit on unread events of each kind, in bytes. Streams of one subject share their
// events.
const maxUnread = 32 << 20

// sizes are the sizes of the last events of a stream, in bytes.
type sizes struct {
	last  [streamBuffer]int32
	count int
}

func (s *sizes) add(n int) {
	s.last[s.count%streamBuffer] = int32(n)
	s.count++
}

// unread returns the bytes of the last n events except the oldest, which even a fast reader may not
// have read yet.
func (s *sizes) unread(n int) (bytes int) {
	for i := 1; i < n; i++ {
		bytes += int(s.last[(s.count-i)%streamBuffer])
	}
	return bytes
}

// unreadLocked returns the bytes of a subject's unread events.
func (t *topics[T]) unreadLocked(subject string) (most int) {
	for s := range t.streams[subject] {
		most = max(most, s.sizes.unread(len(s.events)))
	}
	return most
}

// countLocked counts the unread events of a subject. If those of all subjects exceed maxUnread, it ends
// the streams with more than half of an equal share per subject, so that at most half of maxUnread
// remains. The count of a subject is updated only here: reads since its last event may still be in it.
func (t *topics[T]) countLocked(subject string) {
	t.setUnreadLocked(subject)
	if t.unread <= t.maxUnread {
		return
	}
	for of := range t.streams {
		t.setUnreadLocked(of)
	}
	if t.unread <= t.maxUnread {
		return
	}
	share := t.maxUnread / 2 / len(t.streams)
	for of, streams := range t.streams {
		for s := range streams {
			if s.sizes.unread(len(s.events)) > share {
				s.discardUnread()
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

// discardUnread discards the unread events.
func (s *Stream[T]) discardUnread() {
	for {
		select {
		case <-s.events:
		default:
			return
		}
	}
}
