package server

import (
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestConnections_YieldAfterResponse: other goroutines run before a connection reads its next request.
func TestConnections_YieldAfterResponse(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	server := (&gateway{log: slog.New(slog.DiscardHandler)}).newServer(nil)
	var ran atomic.Bool
	go func() { ran.Store(true) }()
	server.ConnState(nil, http.StateIdle)
	if !ran.Load() {
		t.Error("a connection kept its processor after a response")
	}
}
