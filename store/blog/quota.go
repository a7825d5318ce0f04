package blog

import "time"

// Quota is how many changes of a kind may be made in a period.
type Quota struct {
	Most   int
	Period time.Duration
}

// Until returns when the next change is possible after those at the given dates, oldest first; "" if it is now.
func (q Quota) Until(made []Date, now time.Time) Date {
	if len(made) < q.Most {
		return ""
	}
	if next := made[len(made)-q.Most].Time().Add(q.Period); next.After(now) {
		return NewDate(next)
	}
	return ""
}

// With returns the dates to remember after another change.
func (q Quota) With(made []Date, now Date) []Date {
	return append(made[max(0, len(made)-q.Most+1):len(made):len(made)], now)
}
