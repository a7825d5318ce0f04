package limit

import (
	"errors"
	"testing"
)

func TestMemory_EveryResponseCounts(t *testing.T) {
	m := NewMemory(Capacity{Responses: 1 << 20})
	hold := func(size int, mutation bool, want error) (release func()) {
		t.Helper()
		release, err := m.HoldResponse(size, mutation)
		if !errors.Is(err, want) {
			t.Errorf("%d bytes: got %v, want %v", size, err, want)
		}
		return release
	}
	var releases []func()
	for range 1 << 10 {
		releases = append(releases, hold(1<<10, false, nil))
	}
	hold(1<<10, false, ErrTooManyResponses)()
	releases = append(releases, hold(1<<10, true, nil)) // has been executed
	for _, release := range releases {
		release()
	}
	hold(900<<10, false, ErrTooManyResponses)() // a quarter is reserved for small ones
	hold(700<<10, false, nil)()
	if n := m.responses.Load(); n != 0 {
		t.Errorf("%d bytes are held after all releases", n)
	}
}

func TestMemory_SharedResponseCountsOnce(t *testing.T) {
	m := NewMemory(Capacity{Responses: 1000})
	var s Shared
	first, err := m.HoldShared(&s, 900)
	second, err2 := m.HoldShared(&s, 900)
	if err != nil || err2 != nil || m.responses.Load() != 900 {
		t.Fatal(err, err2, m.responses.Load())
	}
	first()
	if _, err := m.HoldResponse(900, false); !errors.Is(err, ErrTooManyResponses) {
		t.Errorf("while the second holder has the response: got %v, want %v", err, ErrTooManyResponses)
	}
	second()
	if n := m.responses.Load(); n != 0 {
		t.Errorf("%d bytes are held after all releases", n)
	}
}
