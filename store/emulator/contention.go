package emulator

import (
	"maps"
	"slices"
	"time"

	"byline/store/emulator/internal/apierror"
)

const (
	// contentionWindow is how long a write counts against Options.ItemWriters, by the engine's clock: about
	// the time that the service takes to replicate it.
	contentionWindow = 5 * time.Millisecond
	// maxContended is the number of tracked items beyond which those without recent writes are dropped.
	maxContended = 1000
)

// contend returns 449 if an item has had Options.ItemWriters writes within contentionWindow. Creates are
// exempt: only one of them succeeds. A transaction does not contend with itself.
func (t *transaction) contend(id string) error {
	if t.e.o.ItemWriters == 0 {
		return nil
	}
	if _, ok := t.written[id]; ok {
		return nil
	}
	if t.p.writes == nil {
		t.p.writes = map[string][]time.Time{}
	}
	key, now := string(t.itemKey(id)), t.e.o.Clock()
	over := func(at time.Time) bool { return now.Sub(at) >= contentionWindow }
	recent := slices.DeleteFunc(t.p.writes[key], over)
	if len(recent) >= t.e.o.ItemWriters {
		t.p.writes[key] = recent
		return apierror.RetryWith()
	}
	t.p.writes[key] = append(recent, now)
	if len(t.p.writes) > maxContended {
		maps.DeleteFunc(t.p.writes, func(_ string, all []time.Time) bool { return over(all[len(all)-1]) })
	}
	return nil
}
