package transport

import (
	"net/http"
	"testing"
)

// A request with two sessions is invalid.
func TestSession_TwoHeaders(t *testing.T) {
	h := http.Header{sessionHeader: {"a", "b"}}
	if _, err := openSession(h, nil); err == nil {
		t.Error("two session headers are accepted")
	}
}
