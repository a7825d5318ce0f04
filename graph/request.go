package graph

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"byline/store/cosmos/itemcache"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store/blog"
	"byline/store/cosmos/session"
)

const requestIDHeader = "X-Request-Id"

// request is the state of one HTTP request, or of one operation over WebSocket.
type request struct {
	id      string
	viewer  string // the viewer's user id; "": anonymous
	address string // the key of its address in limits: see limit.ClientKey; "": not limited

	session   *session.Session   // nil before it is opened
	readSet   *itemcache.ReadSet // of the response to a query over HTTP; nil for other operations
	operation string             // the name of such a query
	memory    *limit.Reservation // of the response, or of the latest event; nil: not limited
	release   func()             // releases memory; nil: nothing is reserved
	shared    bool               // clients share the memory of the response
	mutates   bool               // the operation is a mutation
	full      bool               // there was no memory for the response
	writes    []rootWrite        // of a mutation, by root field
	registers bool               // registers its document by hash
	size      int                // bytes of the body or message
	moderator bool               // the viewer is a moderator
	slot      limit.EventSlot    // for the events of a subscription
	executed  time.Duration      // how long the latest event of a subscription took to execute; 0: it was shared
	expires   time.Time          // when the token expires; zero: never

	personal atomic.Bool  // the response depends on the viewer
	errors   atomic.Int32 // of the response
	began    time.Time
	meter    cost.Meter

	mu     sync.Mutex
	logged map[failureKey]bool // guarded by mu
}

// failureKey identifies failures that are logged once per request.
type failureKey struct {
	op   string
	code refusal.Code
}

type requestKey struct{}

// withRequest returns a context that belongs to r. The extension inSession makes the meter of r record its
// reads and writes.
func withRequest(ctx context.Context, r *request) context.Context {
	r.began = time.Now()
	r.meter.RequestID, r.meter.Payer, r.meter.SignedIn = r.id, cmp.Or(r.viewer, r.address), r.viewer != ""
	return context.WithValue(ctx, requestKey{}, r)
}

// requestFrom returns the request that ctx belongs to, or an anonymous one.
func requestFrom(ctx context.Context) *request {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r
	}
	return &request{}
}

// viewerID returns the viewer's user id, "" for an anonymous request. The user may not exist
// yet. The call marks the response as depending on the viewer, even if anonymous.
func viewerID(ctx context.Context) string {
	r := requestFrom(ctx)
	r.personal.Store(true)
	return r.viewer
}

// signIn records the viewer.
func (r *request) signIn(v auth.Viewer) {
	r.viewer, r.moderator, r.expires = blog.UserID(v.Issuer, v.Subject), v.Moderator, v.Expires
	r.meter.Payer, r.meter.SignedIn = r.viewer, true
}

// firstTime reports whether this kind of failure is new to the request.
func (r *request) firstTime(k failureKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logged[k] {
		return false
	}
	if r.logged == nil {
		r.logged = map[failureKey]bool{}
	}
	r.logged[k] = true
	return true
}

// identify assigns every request its id, which it returns in a header, and finds the client's
// address. It keeps an id that the client or a proxy has sent, if that is valid.
func identify(next http.Handler, proxies []netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if id == "" || !requestID.MatchString(id) {
			id = newRequestID()
		}
		w.Header()[requestIDHeader] = []string{id}
		next.ServeHTTP(w, r.WithContext(withRequest(r.Context(), &request{id: id, address: limit.ClientKey(r, proxies)})))
	})
}

// newRequestID returns 128 random bits. They are an id, not a secret.
func newRequestID() string {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(b[8:], rand.Uint64())
	return hex.EncodeToString(b[:])
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
