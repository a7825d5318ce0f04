// Package sleep waits as time.Sleep does, but no longer than a context.
package sleep

import (
	"context"
	"time"
)

// For waits for d. It reports false if ctx ends first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
