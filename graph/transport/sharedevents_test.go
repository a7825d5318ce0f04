package transport

import "testing"

// An event that cannot be shared is not cached, and the cache of others is bounded.
func TestEventCache_IsBounded(t *testing.T) {
	c := newEventCache()
	for n := range 3 * maxEventResponses {
		k := eventKey{event: new(int)}
		e, first := c.get(k)
		if !first {
			t.Fatalf("response %d: already cached", n)
		}
		if n%2 == 0 {
			e.data = make([]byte, maxEventResponseBytes/64)
		}
		c.executed(k, e)
		if _, again := c.get(k); again != (n%2 == 1) {
			t.Errorf("response %d: executed again %t", n, again)
		}
	}
	if c.bytes > maxEventResponseBytes || c.entries.Len() > maxEventResponses {
		t.Errorf("%d bytes, %d responses", c.bytes, c.entries.Len())
	}
}
