package cosmos

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"
)

// An operation is notable if it took longer or cost more than this, or was repeated. Batches and pages of the change
// feed may cost more: they have many items.
const (
	slowOperation      = time.Second
	expensiveOperation = 100 // RU
)

// operationLogInterval is the shortest interval between log lines with the same message and access pattern: while an
// account throttles, every operation is repeated.
const operationLogInterval = time.Minute

// operationLog logs notable operations, whether they succeed or fail. Metrics say how many there are; a line has what
// is needed to find one in Azure's diagnostic logs, or to ask its support.
type operationLog struct {
	log *slog.Logger

	mu    sync.Mutex
	lines map[operationLine]*lineCount // guarded by mu
}

// operationLine identifies lines that are limited together.
type operationLine struct {
	message string
	pattern Pattern
}

type lineCount struct {
	logged     time.Time // the last line
	suppressed int       // operations since
}

func newOperationLog(log *slog.Logger) *operationLog {
	return &operationLog{log: log, lines: map[operationLine]*lineCount{}}
}

// observe logs an operation if it is notable. regionOf returns the region of a host. err is the operation's error if it
// got no response, or nil.
func (l *operationLog) observe(requestID string, o *Operation, regionOf func(host string) string, err error) {
	if o.Tries == 0 { // not sent
		return
	}
	took := time.Since(o.sent)
	line := operationLine{pattern: o.Pattern}
	switch {
	case took > slowOperation:
		line.message = "slow operation on Cosmos DB"
	case o.RU > expensiveOperation && o.Kind != KindBatch && o.Kind != KindChangeFeed:
		line.message = "expensive operation on Cosmos DB"
	case o.Tries > 1:
		line.message = "repeated operation on Cosmos DB"
	default:
		return
	}
	suppressed, admitted := l.admit(line, time.Now())
	if !admitted {
		return
	}
	attrs := []slog.Attr{slog.String("op", string(o.Kind)), slog.String("pattern", string(o.Pattern)),
		slog.String("container", o.Container),
		slog.Duration("took", took), slog.Float64("ru", math.Round(o.RU*100)/100), slog.Int("tries", o.Tries),
		slog.String("status", status(o.last))}
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	add("repeatedAfter", o.refused)
	add("region", regionOf(o.host))
	if o.last != nil {
		add("activityId", o.last.Header.Get(activityHeader))
	} else if err != nil {
		add(logError, err.Error())
	}
	add("requestId", requestID)
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	l.log.LogAttrs(context.Background(), slog.LevelInfo, line.message, attrs...)
}

// admit reports whether a line may be logged, and how many were not since the last one.
func (l *operationLog) admit(line operationLine, now time.Time) (suppressed int, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.lines[line]
	if c == nil {
		c = &lineCount{}
		l.lines[line] = c
	}
	if !c.logged.IsZero() && now.Sub(c.logged) < operationLogInterval {
		c.suppressed++
		return 0, false
	}
	suppressed, c.suppressed, c.logged = c.suppressed, 0, now
	return suppressed, true
}
