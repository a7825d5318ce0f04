package limit

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// reserve returns a reservation of so many bytes, which must be possible or not.
func reserve(t *testing.T, m *Memory, bytes int, mutation bool, want error) *Reservation {
	t.Helper()
	r, err := m.Reserve("", 0, mutation)
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
	reserve(t, m, 11<<20, false, ErrTooLarge).Release() // a third is for smaller ones
	reserve(t, m, 11<<20, true, ErrTooLarge).Release()
	large := reserve(t, m, 9<<20, false, nil)
	reserve(t, m, 2<<20, false, ErrTooManyResponses).Release() // becomes large only while half is free
	reserve(t, m, 1<<20, false, nil).Release()
	if err := large.Grow(1 << 20); err != nil {
		t.Error("a large response, to its end:", err)
	}
	large.Release()
	checkFree(t, m)
}

// Ten clients take as much as they can, each in a few large responses or in many small ones. Others still have room for
// responses of 200 KB.
func TestMemory_Clients(t *testing.T) {
	const all, usual = 150 << 20, 200 << 10 // those of an instance of 512 MiB
	m := NewMemory(Capacity{Responses: all})
	var held []*Reservation
	take := func(client string, bytes int) error {
		r, err := m.Reserve(client, bytes, false)
		if err == nil {
			held = append(held, r)
		}
		return err
	}
	for n := range 10 {
		client := fmt.Sprint("client ", n)
		for _, bytes := range []int{16 << 20, 1 << 20, 100 << 10} {
			for take(client, bytes) == nil {
			}
		}
		before := len(held)
		for range 3 {
			if err := take("another", usual); err != nil {
				t.Errorf("beside %d clients: %v", n+1, err)
			}
		}
		for _, r := range held[before:] {
			r.Release()
		}
		held = held[:before]
	}
	if used := m.Used(); used < all/2 {
		t.Errorf("%d bytes are used: the clients could have taken more", used)
	}
	if r, err := m.Reserve("client 0", MutationBytes, true); err != nil {
		t.Errorf("a mutation of a client that has much: %v", err)
	} else {
		r.Release()
	}
	for _, r := range held {
		r.Release()
	}
	if len(m.clients) > 0 {
		t.Errorf("%d clients without responses are counted", len(m.clients))
	}
	checkFree(t, m)
}

// Of a client that has 128 KB, responses are refused while more than five sixths of the memory are in use.
func TestMemory_LargeFrom(t *testing.T) {
	m := NewMemory(Capacity{Responses: 12 << 20})
	others := reserve(t, m, 0, true, nil)
	others.Add(10<<20 - 125<<10)
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
	r, err := m.Reserve("", MutationBytes, true)
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
				r, err := m.Reserve("", QueryBytes, false)
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
