package limit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		first, err := turns.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, client := range []string{"b", "", ""} { // not delayed by others; "" not at all
			release, err := turns.Acquire(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
		}
		ended, end := context.WithCancel(t.Context())
		var waited, served error
		go func() { _, waited = turns.Acquire(ended, "a") }()
		synctest.Wait()
		end()
		synctest.Wait()
		if !errors.Is(waited, context.Canceled) {
			t.Errorf("a request that ends while it waits: %v", waited)
		}
		served = errors.New("still waiting")
		go func() {
			var release func()
			if release, served = turns.Acquire(t.Context(), "a"); served == nil {
				release()
			}
		}()
		synctest.Wait()
		if served == nil {
			t.Error("two turns of one client at a time")
		}
		first()
		synctest.Wait()
		if served != nil {
			t.Errorf("after the first turn: %v", served)
		}
		if _, held := turns.clients["a"]; held || len(turns.clients) != 1 {
			t.Errorf("the clients %v are not forgotten", turns.clients)
		}
	})
}
