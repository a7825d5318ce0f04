package enginetest

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// HeldViews throttles the writes of projections to the views until Released, so that tests see what readers get
// while views lag. It is safe for concurrent use.
type HeldViews struct{ Released atomic.Bool }

// Holds reports whether the views are held and the request is a projection's write.
func (h *HeldViews) Holds(r *http.Request) bool {
	if h.Released.Load() || r.Header.Get("X-Ms-Cosmos-Priority-Level") != "Low" || r.Method == http.MethodGet ||
		strings.HasPrefix(r.Header.Get("Content-Type"), "application/query+json") {
		return false
	}
	return strings.Contains(r.URL.Path, "/colls/feed/docs") || strings.Contains(r.URL.Path, "/colls/users/docs")
}

// Transport returns a transport that throttles what is held.
func (h *HeldViews) Transport(to policy.Transporter) policy.Transporter { return heldViews{h, to} }

type heldViews struct {
	*HeldViews
	to policy.Transporter
}

func (h heldViews) Do(r *http.Request) (*http.Response, error) {
	if h.Holds(r) {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Status: "429 Too Many Requests",
			Body:   http.NoBody,
			Header: http.Header{"X-Ms-Retry-After-Ms": {"20"}}, Request: r}, nil
	}
	return h.to.Do(r)
}
