package collector

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	of := func(limit uint64, err error) func() (uint64, error) {
		return func() (uint64, error) { return limit, err }
	}
	for _, tt := range []struct {
		name, env string
		set       int64
		container func() (uint64, error)
		want      int64
	}{
		{"container", "", math.MaxInt64, of(512<<20, nil), 512 << 20 / 100 * 90},
		{"GOMEMLIMIT", "450MiB", 450 << 20, of(512<<20, nil), 450 << 20},
		{"GOMEMLIMIT=off", "off", math.MaxInt64, of(512<<20, nil), math.MaxInt64},
		{"no container", "", math.MaxInt64, of(0, errors.New("no cgroup")), math.MaxInt64},
		{"container without a limit", "", math.MaxInt64, of(math.MaxUint64, nil), math.MaxInt64},
	} {
		t.Setenv("GOMEMLIMIT", tt.env)
		debug.SetMemoryLimit(tt.set)
		limitMemory(tt.container)
		if got := debug.SetMemoryLimit(-1); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}
