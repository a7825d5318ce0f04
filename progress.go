package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"
)

// meter shows on stderr how far a command has come: by bars on a terminal,
// otherwise by lines of the log, at most one a second for each thing. It is for
// one goroutine; only its log may be used by several.
type meter struct {
	log   *slog.Logger
	lines map[string]line // the last of each thing

	// On a terminal:
	bars     progress.Writer // nil elsewhere
	trackers map[string]*progress.Tracker
	rendered chan struct{} // closed when the bars are drawn for the last time
	stopped  bool
}

type line struct {
	at   time.Time
	over bool // it said that all is done
}

// newMeter returns a meter, which must be stopped, and logs in a way that does not
// disturb it.
func newMeter(log *slog.Logger, stderr io.Writer) *meter {
	m := &meter{log: log, lines: map[string]line{}}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		width, _, _ := term.GetSize(int(f.Fd())) // 0, which is no bound, if it has none
		m.draw(stderr, width)
	}
	return m
}

// draw begins to draw bars.
func (m *meter) draw(stderr io.Writer, width int) {
	m.bars, m.trackers, m.rendered = progress.NewWriter(), map[string]*progress.Tracker{}, make(chan struct{})
	m.bars.SetOutputWriter(stderr)
	m.bars.SetTerminalWidth(width)
	m.bars.Style().Visibility.ETA = true
	m.bars.Style().Visibility.Speed = true
	m.log = newLog(aboveBars{m.bars})
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

// show tells how much of something is done; a total of 0 is not known. behind is
// how many changes have not arrived, if that matters to what is done.
func (m *meter) show(what string, done, total, behind int64) {
	if m.bars == nil {
		last, over := m.lines[what], total > 0 && done >= total
		if over && last.over || !over && time.Since(last.at) < time.Second {
			return
		}
		m.lines[what] = line{time.Now(), over}
		attributes := []any{logDone, done}
		if total > 0 {
			attributes = append(attributes, logTotal, total)
		}
		if behind > 0 {
			attributes = append(attributes, logBehind, behind)
		}
		m.log.Info(what, attributes...)
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

// follow shows how far something comes, of a total, and returns its error. do tells it by
// a function that any goroutine may call.
func (m *meter) follow(what string, total int, do func(progress func(done int)) error) error {
	progress, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		ended <- do(func(done int) {
			select {
			case progress <- done:
			default: // it is being shown; others will come
			}
		})
	}()
	for {
		select {
		case done := <-progress:
			m.show(what, int64(done), int64(total), 0)
		case err := <-ended:
			if err == nil && total > 0 {
				m.show(what, int64(total), int64(total), 0)
			}
			return err
		}
	}
}

// stop draws the bars for the last time. It may be called again.
func (m *meter) stop() {
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
		m.bars.Stop() // is lost on bars that have not begun
		select {
		case <-m.rendered:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
