package console

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// buffer is safe for concurrent use: bars are drawn by a goroutine of their own.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestProgress(t *testing.T) {
	var err buffer
	log := slog.New(slog.NewTextHandler(&err, nil))
	t.Run("lines", func(t *testing.T) {
		m := NewProgress(Streams{Stderr: &err, Log: log})
		for i := range int64(1_000) {
			m.Show("reading", i, 0, 0)
			m.Show("rebuilding", i+1, 1_000, 7)
		}
		m.Show("rebuilding", 1_000, 1_000, 0)
		m.Stop()
		lines := strings.Split(strings.TrimSpace(err.String()), "\n")
		// The first at once, perhaps one for each second, and the last.
		if len(lines) < 3 || len(lines) > 20 || !strings.Contains(err.String(), "done=1000 total=1000") ||
			!strings.Contains(err.String(), "behind=7") {
			t.Errorf("%d lines: %s", len(lines), err.String())
		}
	})
	t.Run("bars", func(t *testing.T) {
		var screen buffer
		m := NewProgress(Streams{Stderr: &err, Log: log})
		m.draw(Streams{Stderr: &screen, logFlags: LogFlags{LogFormat: jsonFormat}}, 80)
		m.Show("rebuilding posts", 30, 120, 7)
		m.Show("reading", 17, 0, 0)
		m.Log.Warn("a warning", "what", "100%d")
		m.Show("rebuilding posts", 60, 120, 0)
		m.Stop()
		for _, want := range []string{"rebuilding posts", "50.00%", "reading", "17",
			`"msg":"a warning","what":"100%d"`} {
			if !strings.Contains(screen.String(), want) {
				t.Errorf("the screen does not show %q: %q", want, screen.String())
			}
		}
	})
}
