package graph

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"byline/store"
	"byline/store/cosmos"
)

const requestIDHeader = "X-Request-Id"

// request is what is known about one HTTP request beside its operation.
type request struct {
	id      string
	viewer  string // the user id of whoever is signed in; "" for nobody
	address string // what limits count its address as; "" if they do not

	session   *cosmos.Session // nil before it is opened
	readSet   *cosmos.ReadSet // what the answer to a query over HTTP rests on; nil for all others
	operation string          // the name of such a query
	given     func()          // takes note of the answer that was made, once there is room for it; nil if that is done
	registers bool            // it brings a document to be known by its hash
	size      int             // bytes that the operation came in
	moderator bool            // whether the viewer moderates
	expires   time.Time       // when the viewer is no longer signed in; zero: never

	personal atomic.Bool  // somebody asked who the viewer is
	errors   atomic.Int32 // of the answer that is being made
	tally    tally

	mu     sync.Mutex
	logged map[failureKey]bool // guarded by mu; what the operator has been told already
}

// failureKey tells failures apart in the log.
type failureKey struct {
	op   string
	code errorCode
}

type requestKey struct{}

// withRequest makes ctx belong to r, which takes note of what is charged in it.
func withRequest(ctx context.Context, r *request) context.Context {
	r.tally.began = time.Now()
	return cosmos.WithRecorder(context.WithValue(ctx, requestKey{}, r), r.tally.record)
}

// requestFrom returns the request that ctx belongs to, an anonymous one if it
// belongs to none.
func requestFrom(ctx context.Context) *request {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r
	}
	return &request{}
}

// viewerID returns the user id of whoever is signed in, "" if nobody is. The user
// itself may not exist yet. From then on the answer is the viewer's alone, even if
// there is none.
func viewerID(ctx context.Context) string {
	r := requestFrom(ctx)
	r.personal.Store(true)
	return r.viewer
}

// signIn records who is behind the request. It is called before execution begins.
func (r *request) signIn(v Viewer) {
	r.viewer, r.moderator, r.expires = store.UserID(v.Issuer, v.Subject), v.Moderator, v.Expires
}

// payer is whose budget the request is charged to: the viewer's or, if nobody is signed
// in, the address's; "" if it is nobody's.
func (r *request) payer() string { return cmp.Or(r.viewer, r.address) }

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

// identify gives every request its id and returns it in a header. An id that the
// client or a proxy sent is kept if it is a short plain token. It also finds out where
// the request comes from.
func identify(next http.Handler, proxies []netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !isRequestID(id) {
			id = newRequestID()
		}
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(withRequest(r.Context(), &request{id: id, address: clientKey(r, proxies)})))
	})
}

func newRequestID() string { return rand.Text() }

func isRequestID(s string) bool { return len(s) <= 64 && isToken(s, "-_.") }

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// isToken reports whether s is not empty and made of ASCII letters, digits and
// the characters of others alone.
func isToken(s, others string) bool {
	return s != "" && strings.Trim(s, alphanumeric+others) == ""
}
