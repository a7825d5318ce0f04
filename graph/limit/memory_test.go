package limit

import (
	"errors"
	"sync"
	"testing"
)

// reserve returns a reservation of so many bytes, which must be possible or not.
func reserve(t *testing.T, m *Memory, bytes int, mutation bool, want error) *Reservation {
	t.Helper()
	r, err := m.Reserve(0, mutation)
	if err == nil {
		err = r.Grow(bytes)
	}
	if !errors.Is(err, want) {
		t.Errorf("%d bytes: got %v, want %v", bytes, err, want)
	}
	return r
}

// checkFree fails unless all of the memory is free.
func checkFree(t *testing.T, m *Memory) {
	t.Helper()
	if n := m.Used(); n != 0 {
		t.Errorf("%d bytes are held after all releases", n)
	}
}

func TestMemory_EveryResponseCounts(t *testing.T) {
	m := NewMemory(Capacity{Responses: 16 << 20})
	var all []*Reservation
	for range 15 << 6 {
		all = append(all, reserve(t, m, 16<<10, false, nil))
	}
	reserve(t, m, 16<<10, false, ErrTooManyResponses).Release()
	for range 1 << 6 {
		all = append(all, reserve(t, m, 16<<10, true, nil)) // the last sixteenth is for mutations
	}
	reserve(t, m, 16<<10, true, ErrTooManyResponses).Release()
	for _, r := range all {
		r.Release()
	}
	reserve(t, m, 11<<20, false, ErrTooLarge).Release() // a third is for small ones
	reserve(t, m, 11<<20, true, ErrTooLarge).Release()
	large := reserve(t, m, 9<<20, false, nil)
	reserve(t, m, 1<<20, false, ErrTooManyResponses).Release() // becomes large only while half is free
	if err := large.Grow(1 << 20); err != nil {
		t.Error("a large response, to its end:", err)
	}
	large.Release()
	checkFree(t, m)
}

// A response that takes 128 KB becomes large, which is refused while more than half of the memory is in use.
func TestMemory_LargeFrom(t *testing.T) {
	m := NewMemory(Capacity{Responses: 12 << 20})
	others := reserve(t, m, 0, true, nil)
	others.Add(7 << 20)
	small := reserve(t, m, 124<<10, false, nil)
	if err := small.Grow(4 << 10); !errors.Is(err, ErrTooManyResponses) {
		t.Errorf("128 KB: got %v, want %v", err, ErrTooManyResponses)
	}
	small.Release()
	others.Release()
	checkFree(t, m)
}

// A response has what was reserved before it executed, however much is in use by then.
func TestReservation_GrowsWithinWhatItHas(t *testing.T) {
	m := NewMemory(Capacity{Responses: 1 << 20})
	r, err := m.Reserve(MutationBytes, true)
	if err != nil {
		t.Fatal(err)
	}
	others := reserve(t, m, 0, false, nil)
	others.Add(1 << 20)
	for range MutationBytes {
		if err := r.Grow(1); err != nil {
			t.Fatal("within its reserve:", err)
		}
	}
	if err := r.Grow(1); !errors.Is(err, ErrTooManyResponses) || r.Err() == nil {
		t.Error("beyond:", err, r.Err())
	}
	others.Release()
	if err := r.Grow(1); !errors.Is(err, ErrTooManyResponses) {
		t.Error("once refused:", err)
	}
	r.Release()
	if err := r.Grow(1); !errors.Is(err, ErrTooManyResponses) {
		t.Error("once released:", err)
	}
	r.Add(1)
	r.Resize(1)
	checkFree(t, m)
}

func TestReservation_Concurrent(t *testing.T) {
	m := NewMemory(Capacity{Responses: 1 << 20})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				r, err := m.Reserve(QueryBytes, false)
				if err != nil {
					continue
				}
				var reads sync.WaitGroup
				for range 4 {
					reads.Go(func() {
						for range 10 {
							_ = r.Grow(10_000)
						}
					})
				}
				reads.Wait()
				r.Add(50_000)
				r.Resize(10_000)
				r.Release()
			}
		})
	}
	all.Wait()
	checkFree(t, m)
}

func TestShared_CountsOnce(t *testing.T) {
	m := NewMemory(Capacity{Responses: 160 << 10})
	var s Shared
	join := func(reserved int) func() {
		t.Helper()
		release, err := s.Join(reserve(t, m, reserved, false, nil), 80<<10)
		if err != nil || m.Used() != 80<<10 {
			t.Fatal(err, m.Used())
		}
		return release
	}
	join(100 << 10)() // what was reserved besides the response is released
	checkFree(t, m)
	first, second := join(4<<10), join(4<<10)
	first()
	reserve(t, m, 80<<10, false, ErrTooManyResponses).Release() // while the second holder has the response
	second()
	checkFree(t, m)
	other := reserve(t, m, 80<<10, false, nil)
	own := reserve(t, m, 4<<10, false, nil)
	if _, err := s.Join(own, 80<<10); !errors.Is(err, ErrTooManyResponses) {
		t.Error(err)
	}
	own.Release()
	other.Release()
	checkFree(t, m)
}
