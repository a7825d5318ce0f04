package server

import (
	"testing"
	"time"
)

func TestDrain_Default(t *testing.T) {
	none := time.Duration(0)
	for name, tt := range map[string]struct {
		flags listenFlags
		want  time.Duration
	}{
		"on loopback":     {listenFlags{Listen: "localhost:8080"}, 0},
		"beyond loopback": {listenFlags{Listen: "0.0.0.0:8080"}, 5 * time.Second},
		"set to 0s":       {listenFlags{Listen: ":8080", Drain: &none}, 0},
		"set on loopback": {listenFlags{Listen: "127.0.0.1:0", Drain: new(drain)}, drain},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.flags.drainTime(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
