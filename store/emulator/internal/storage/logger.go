package storage

import (
	"context"
	"fmt"
	"log/slog"
)

// logger forwards Pebble's log to slog.
type logger struct {
	log    *slog.Logger
	failed func(error) // see Open
}

// Infof implements pebble.Logger.
func (l logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("pebble", "detail", fmt.Sprintf(format, args...))
	}
}

// Errorf implements pebble.Logger.
func (l logger) Errorf(format string, args ...any) {
	l.log.Error("pebble", "detail", fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. It is called when Pebble cannot continue. The process must not continue either:
// later writes might be acknowledged and lost.
func (l logger) Fatalf(format string, args ...any) {
	l.failed(fmt.Errorf(format, args...))
	panic(fmt.Sprintf("pebble: "+format, args...))
}
