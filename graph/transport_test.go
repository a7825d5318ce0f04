package graph

import (
	"encoding/json"
	"time"

	"github.com/coder/websocket"
)

// What clients of package transport rely on.
const (
	mediaJSON     = "application/json"
	mediaResponse = "application/graphql-response+json"
	mediaEvents   = "text/event-stream"

	requestIDHeader = "X-Request-Id"
	sessionHeader   = "Byline-Session"
	vary            = "Accept, Accept-Encoding, Authorization, Byline-Session, Byline-Cost"

	executionTimeout = 30 * time.Second
	messageTimeout   = 30 * time.Second
	writeTimeout     = 10 * time.Second
	refusedPause     = 100 * time.Millisecond

	maxOperations = 100      // of a WebSocket at a time
	maxCacheKey   = 16 << 10 // bytes of a request whose response is cached
	maxRefused    = 100      // refused origins that are logged
	maxOrigin     = 300      // bytes of one

	closeTooSlow    = websocket.StatusTryAgainLater
	closeInternal   = websocket.StatusInternalError
	closeBadMessage = websocket.StatusCode(4400)
	closeForbidden  = websocket.StatusCode(4403)

	messageTooSlow = "the client is too slow and has missed events: subscribe again, then query the current state"
	messageExpired = "the bearer token has expired"
)

func appendJSON(b []byte, v any) []byte {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(b, encoded...)
}
