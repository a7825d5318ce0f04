package console

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"
)

// Progress shows the progress of a command on stderr: as bars on a terminal, otherwise as lines of
// the log, at most one a second for each task. Only Log is safe for concurrent use.
type Progress struct {
	Log   *slog.Logger    // writes above the bars
	lines map[string]line // the last of each task

	// On a terminal:
	bars     progress.Writer // nil elsewhere
	trackers map[string]*progress.Tracker
	rendered chan struct{} // closed when the bars are drawn for the last time
	stopped  bool
}

type line struct {
	at   time.Time
	done bool // the task was complete
}

// NewProgress returns a Progress; the caller must call Stop. Without a terminal it writes to the log.
func NewProgress(s Streams) *Progress {
	m := &Progress{Log: s.Log, lines: map[string]line{}}
	if f, ok := s.Stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		width, _, _ := term.GetSize(int(f.Fd())) // 0, which is unbounded, if unknown
		m.draw(s, width)
	}
	return m
}

// draw starts drawing bars.
func (m *Progress) draw(s Streams, width int) {
	m.bars, m.trackers, m.rendered = progress.NewWriter(), map[string]*progress.Tracker{}, make(chan struct{})
	m.bars.SetOutputWriter(s.Stderr)
	m.bars.SetTerminalWidth(width)
	m.bars.Style().Visibility.ETA = true
	m.bars.Style().Visibility.Speed = true
	m.Log = newLog(aboveBars{m.bars}, s.logFlags)
	go func() {
		defer close(m.rendered)
		m.bars.Render()
	}()
}

// aboveBars writes the log's lines above the bars.
type aboveBars struct{ bars progress.Writer }

func (a aboveBars) Write(line []byte) (int, error) {
	a.bars.Log(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// Show shows how much of a task is done; a total of 0 is unknown. behind is the number of
// changes that a projection has yet to apply, 0 for other tasks.
func (m *Progress) Show(what string, done, total, behind int64) {
	if m.bars == nil {
		last, complete := m.lines[what], total > 0 && done >= total
		if complete && last.done || !complete && time.Since(last.at) < time.Second {
			return
		}
		m.lines[what] = line{time.Now(), complete}
		attributes := []any{"done", done}
		if total > 0 {
			attributes = append(attributes, "total", total)
		}
		if behind > 0 {
			attributes = append(attributes, "behind", behind)
		}
		m.Log.Info(what, attributes...)
		return
	}
	t := m.trackers[what]
	if t == nil {
		t = &progress.Tracker{Message: what, Total: total, Units: progress.UnitsDefault}
		m.trackers[what] = t
		m.bars.AppendTracker(t)
	}
	if behind > 0 {
		t.UpdateMessage(fmt.Sprintf("%s, %d changes behind", what, behind))
	} else {
		t.UpdateMessage(what)
	}
	t.UpdateTotal(total)
	t.SetValue(done)
}

// Follow runs a task, shows how much of a total is done, and returns the task's error. The
// argument of do is safe for concurrent use.
func (m *Progress) Follow(what string, total int, do func(progress func(done int)) error) error {
	progress, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		ended <- do(func(done int) {
			select {
			case progress <- done:
			default: // a value is pending; a later one follows
			}
		})
	}()
	for {
		select {
		case done := <-progress:
			m.Show(what, int64(done), int64(total), 0)
		case err := <-ended:
			if err == nil && total > 0 {
				m.Show(what, int64(total), int64(total), 0)
			}
			return err
		}
	}
}

// Stop draws the bars for the last time. It is idempotent.
func (m *Progress) Stop() {
	if m.bars == nil || m.stopped {
		return
	}
	m.stopped = true
	for _, t := range m.trackers {
		if t.Total == 0 {
			t.MarkAsDone()
		}
	}
	for {
		m.bars.Stop() // has no effect before the first rendering
		select {
		case <-m.rendered:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
