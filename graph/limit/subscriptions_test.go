package limit

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSubscriptions_NetworkIsLimited(t *testing.T) {
	l := NewSubscriptions(Capacity{SubscriptionsEach: 2})
	admitted := 0
	for n := range 10 * PerNetwork {
		if _, err := l.Admit(t.Context(), fmt.Sprintf("2001:db8:1:%x::", n), 0); err == nil {
			admitted++
		}
	}
	if want := 2 * PerNetwork; admitted != want {
		t.Errorf("%d are admitted, want %d", admitted, want)
	}
	for _, other := range []string{"2001:db8:2::", "192.0.2.1", "viewer ada", ""} {
		if _, err := l.Admit(t.Context(), other, 0); err != nil {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// Ten events of a viewer that take 10 ms each take 370 ms together, and delay nobody else's.
func TestTurns_QuarterOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewSubscriptions(Capacity{})
		began, last := time.Now(), map[string]time.Duration{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for n := range 30 {
			key := []string{"viewer ada", "viewer grace", ""}[n%3]
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			turns, err := l.Admit(ctx, key, 0)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				defer turns.Take(ctx)()
				<-time.After(10 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				last[key] = time.Since(began)
			})
		}
		all.Wait()
		want := map[string]time.Duration{"viewer ada": 370 * time.Millisecond, "viewer grace": 370 * time.Millisecond, "": 10 * time.Millisecond}
		if !maps.Equal(last, want) {
			t.Errorf("the last events of the viewers ended after %v, want %v", last, want)
		}
		synctest.Wait()
	})
}
