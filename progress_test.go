package main

import (
	"log/slog"
	"strings"
	"testing"
)

func TestMeter(t *testing.T) {
	var err output
	log := slog.New(slog.NewTextHandler(&err, nil))
	t.Run("lines", func(t *testing.T) {
		m := newMeter(log, &err)
		for i := range int64(1_000) {
			m.show("reading", i, 0, 0)
			m.show("rebuilding", i+1, 1_000, 7)
		}
		m.show("rebuilding", 1_000, 1_000, 0)
		m.stop()
		lines := strings.Split(strings.TrimSpace(err.String()), "\n")
		// One at once, perhaps some that came a second later, and the last.
		if len(lines) < 3 || len(lines) > 20 || !strings.Contains(err.String(), "done=1000 total=1000") || !strings.Contains(err.String(), "behind=7") {
			t.Errorf("%d lines: %s", len(lines), err.String())
		}
	})
	t.Run("bars", func(t *testing.T) {
		var screen output
		m := newMeter(log, &err)
		m.draw(&screen, 80)
		m.show("rebuilding posts", 30, 120, 7)
		m.show("reading", 17, 0, 0)
		m.log.Warn("something odd", "what", "100%d")
		m.show("rebuilding posts", 60, 120, 0)
		m.stop()
		for _, want := range []string{"rebuilding posts", "50.00%", "reading", "17", "something odd", "100%d"} {
			if !strings.Contains(screen.String(), want) {
				t.Errorf("the screen does not show %q: %q", want, screen.String())
			}
		}
	})
}
