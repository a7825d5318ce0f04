package server

import (
	"math"
	"testing"
)

// The caches and the index may take half of the memory of the process.
func TestConfig_Memory(t *testing.T) {
	const container = 440 << 20 // of deploy/kubernetes
	for name, tt := range map[string]struct {
		config Config
		limit  int64
		want   string
	}{
		"the defaults":      {Config{Cache: 64, Recency: 100_000}, container, ""},
		"the largest index": {Config{Cache: 64, Recency: maxRecency}, container, ""},
		"a large cache":     {Config{Cache: 215, Recency: 100_000}, container, ""},
		"a larger cache": {Config{Cache: 216, Recency: 100_000}, container,
			"--cache 216 and --recency 100000 take 220 MB, more than half of the memory of the process, 440 MB"},
		"a larger index": {Config{Cache: 200, Recency: maxRecency}, container,
			"--cache 200 and --recency 1000000 take 242 MB, more than half of the memory of the process, 440 MB"},
		"memory without limits": {Config{Cache: maxCache, Recency: maxRecency}, math.MaxInt64, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tt.config.checkMemory(tt.limit); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
