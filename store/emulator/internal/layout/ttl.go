package layout

import (
	"time"
)

// TTL is a container's time to live. The zero value is that of a container whose items do not expire.
type TTL struct {
	Enabled bool
	Seconds int32 // of items without a time to live of their own; -1: they do not expire
}

// Expiry returns the time, in seconds, at which an item expires.
func (t TTL) Expiry(r *Record) (int64, bool) {
	seconds := r.TTL
	if seconds == 0 {
		seconds = t.Seconds
	}
	if !t.Enabled || seconds <= 0 {
		return 0, false
	}
	return r.Timestamp + int64(seconds), true
}

// Expired reports whether an item has expired. It calls clock only if the item can expire.
func (t TTL) Expired(r *Record, clock func() time.Time) bool {
	at, ok := t.Expiry(r)
	return ok && clock().Unix() >= at
}
