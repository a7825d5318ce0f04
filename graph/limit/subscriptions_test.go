package limit

import (
	"fmt"
	"testing"
)

func TestSubscriptions_NetworkIsLimited(t *testing.T) {
	l := NewSubscriptions(Capacity{SubscriptionsEach: 2})
	admitted := 0
	for n := range 10 * PerNetwork {
		if l.Admit(t.Context(), fmt.Sprintf("2001:db8:1:%x::", n), 0) == nil {
			admitted++
		}
	}
	if want := 2 * PerNetwork; admitted != want {
		t.Errorf("%d are admitted, want %d", admitted, want)
	}
	for _, other := range []string{"2001:db8:2::", "192.0.2.1", "viewer ada", ""} {
		if err := l.Admit(t.Context(), other, 0); err != nil {
			t.Errorf("%q: %v", other, err)
		}
	}
}
