package limit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"byline/graph/refusal"
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
		t.Errorf("%d subscriptions are admitted, want %d", admitted, want)
	}
	for _, other := range []string{"2001:db8:2::", "192.0.2.1", "viewer ada", ""} {
		if _, err := l.Admit(t.Context(), other, 0); err != nil {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// Subscriptions are admitted one after another: the last one of each case alone may be refused.
func TestSubscriptions_Limits(t *testing.T) {
	type subscription struct {
		key   string
		bytes int
	}
	ada, grace, nobody := subscription{"viewer ada", 0}, subscription{"viewer grace", 0}, subscription{}
	large := func(bytes int) subscription { return subscription{"viewer ada", bytes} }
	for name, tt := range map[string]struct {
		open []subscription
		last subscription
		code refusal.Code // of the last one
	}{
		"within the viewer's limit": {[]subscription{ada, ada}, ada, ""},
		"over the viewer's limit":   {[]subscription{ada, ada, ada}, ada, refusal.Throttled},
		"another viewer":            {[]subscription{ada, ada, ada}, grace, ""},
		"a large one counts as two": {[]subscription{ada, ada}, large(SubscriptionBytes), refusal.Throttled},
		"nearly large":              {[]subscription{ada, ada}, large(SubscriptionBytes - 1), ""},
		"after a large one":         {[]subscription{large(2 * SubscriptionBytes)}, ada, refusal.Throttled},
		"within the server's limit": {[]subscription{ada, ada, grace, nobody}, nobody, ""},
		"over the server's limit":   {[]subscription{ada, ada, grace, nobody, nobody}, grace, refusal.Unavailable},
		"over it by a large one": {
			[]subscription{grace, nobody, nobody, nobody}, large(SubscriptionBytes), refusal.Unavailable},
		"without a key, more than each": {[]subscription{nobody, nobody, nobody, nobody}, nobody, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewSubscriptions(Capacity{Subscriptions: 5, SubscriptionsEach: 3})
				ctx, end := context.WithCancel(t.Context())
				for _, s := range tt.open {
					if _, err := l.Admit(ctx, s.key, s.bytes); err != nil {
						t.Fatal(err)
					}
				}
				var code refusal.Code
				_, err := l.Admit(ctx, tt.last.key, tt.last.bytes)
				if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
					code = refused.Code
				}
				if code != tt.code {
					t.Errorf("got %v, want %q", err, tt.code)
				}
				end()
				synctest.Wait()
				if l.total != 0 || len(l.byKey) != 0 {
					t.Errorf("after the end %d are open, of %d keys", l.total, len(l.byKey))
				}
			})
		})
	}
}

// After an event, the viewer's slot stays occupied for three times as long as the event took, and at most
// 100 ms. It does not delay other viewers.
func TestEventSlot_PauseAfterEvent(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0:                      0, // not executed
		10 * time.Millisecond:  370 * time.Millisecond,
		500 * time.Millisecond: 5900 * time.Millisecond,
	} {
		t.Run(took.String(), func(t *testing.T) { tenEvents(t, took, want) })
	}
}

// tenEvents starts ten events of each of three keys at once, and checks that the viewers' events end after
// want.
func tenEvents(t *testing.T, took, want time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		l := NewSubscriptions(Capacity{})
		began, last := time.Now(), map[string]time.Duration{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for n := range 30 {
			key := []string{"viewer ada", "viewer grace", ""}[n%3]
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			slot, err := l.Admit(ctx, key, 0)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				release := slot.Acquire(ctx)
				<-time.After(took)
				release(took)
				mu.Lock()
				defer mu.Unlock()
				last[key] = time.Since(began)
			})
		}
		all.Wait()
		if want := map[string]time.Duration{"viewer ada": want, "viewer grace": want, "": took}; !maps.Equal(last,
			want) {
			t.Errorf("last events ended after %v, want %v", last, want)
		}
	})
}
