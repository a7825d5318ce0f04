package server

import "testing"

// The caches and the index may take half of the memory of the process.
func TestConfig_Memory(t *testing.T) {
	const memory = 440 << 20 // in deploy/kubernetes
	for name, tt := range map[string]struct {
		config Config
		ok     bool
	}{
		"the defaults":      {Config{Cache: 64, Recency: 100_000}, true},
		"the largest index": {Config{Cache: 64, Recency: maxRecency}, true},
		"a large cache":     {Config{Cache: 213, Recency: 100_000}, true},
		"a larger cache":    {Config{Cache: 214, Recency: 100_000}, false},
		"both":              {Config{Cache: 200, Recency: maxRecency}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tt.config.checkMemory(memory); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}
