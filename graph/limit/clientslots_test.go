package limit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestClientSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slots ClientSlots
		first, err := slots.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, client := range []string{"b", "", ""} { // not delayed by others; "" not at all
			release, err := slots.Acquire(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
		}
		ended, end := context.WithCancel(t.Context())
		var waited, served error
		go func() { _, waited = slots.Acquire(ended, "a") }()
		synctest.Wait()
		end()
		synctest.Wait()
		if !errors.Is(waited, context.Canceled) {
			t.Errorf("a request that ends while it waits: %v", waited)
		}
		served = errors.New("still waiting")
		go func() {
			var release func()
			if release, served = slots.Acquire(t.Context(), "a"); served == nil {
				release()
			}
		}()
		synctest.Wait()
		if served == nil {
			t.Error("two slots of one client at a time")
		}
		first()
		synctest.Wait()
		if served != nil {
			t.Errorf("after the first request: %v", served)
		}
		if _, held := slots.clients["a"]; held || len(slots.clients) != 1 {
			t.Errorf("the clients %v are not forgotten", slots.clients)
		}
	})
}
