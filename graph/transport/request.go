package transport

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

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/cosmos/session"
)

const requestIDHeader = "X-Request-Id"

// Request is what the resolvers and extensions know of one HTTP request, or of one operation over WebSocket. While
// its operation executes, its fields are read only.
type Request struct {
	ID        string
	Moderator bool             // the viewer is a moderator
	Session   *session.Session // nil before it is opened
	Began     time.Time
	Meter     cost.Meter
	Memory    *limit.Reservation // of the response, or of the latest event; nil: not limited
	Errors    atomic.Int32       // presented in the response so far

	viewer   string      // the viewer's user id; "": anonymous
	personal atomic.Bool // the response depends on the viewer
	expires  time.Time   // when the token expires; zero: never
	address  string      // the key of its address in limits: see limit.ClientKey; "": not limited

	size      int                // bytes of the body or message
	registers bool               // registers its document by hash
	operation string             // the name of a query over HTTP
	slot      limit.EventSlot    // for the events of a subscription
	executed  time.Duration      // how long the latest event took to execute; 0: it was shared
	readSet   *itemcache.ReadSet // of the response to such a query; nil for other operations

	release func() // releases Memory; nil: nothing is reserved
	shared  bool   // clients share the memory of the response
	mutates bool   // the operation is a mutation
	full    bool   // the response was refused before it was executed, or shared: see noMemory

	mu   sync.Mutex
	seen map[any]bool // guarded by mu; see FirstTime
}

type requestKey struct{}

// Begin returns a context that belongs to r.
func (r *Request) Begin(ctx context.Context) context.Context {
	r.Began = time.Now()
	r.Meter.RequestID, r.Meter.Payer, r.Meter.SignedIn = r.ID, cmp.Or(r.viewer, r.address), r.viewer != ""
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf returns the request that ctx belongs to, or an anonymous one.
func RequestOf(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}
	return &Request{}
}

// ViewerID returns the viewer's user id, "" for an anonymous request. The user may not exist
// yet. The call marks the response as depending on the viewer, even if anonymous.
func (r *Request) ViewerID() string {
	r.personal.Store(true)
	return r.viewer
}

// Client returns whose requests share limits: the viewer, or the address of an anonymous client; "" is not limited. Unlike
// ViewerID, it does not make the response depend on the viewer.
func (r *Request) Client() string {
	if r.viewer != "" {
		return "viewer " + r.viewer
	}
	return r.address
}

// signIn records the viewer.
func (r *Request) signIn(v auth.Viewer) {
	r.viewer, r.Moderator, r.expires = blog.UserID(v.Issuer, v.Subject), v.Moderator, v.Expires
	r.Meter.Payer, r.Meter.SignedIn = r.viewer, true
}

// FirstTime reports whether it has not been called with the key before.
func (r *Request) FirstTime(key any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[key] {
		return false
	}
	if r.seen == nil {
		r.seen = map[any]bool{}
	}
	r.seen[key] = true
	return true
}

// identify assigns every request its id, which it returns in a header, and finds the client's
// address. It keeps an id that the client or a proxy has sent, if that is valid.
func identify(next http.Handler, proxies []netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := newRequest(w, r, limit.ClientKey(r, proxies))
		next.ServeHTTP(w, r.WithContext(caller.Begin(r.Context())))
	})
}

// newRequest returns the request of a client, and returns its id in a header.
func newRequest(w http.ResponseWriter, r *http.Request, client string) *Request {
	id := r.Header.Get(requestIDHeader)
	if id == "" || !requestID.MatchString(id) {
		id = newRequestID()
	}
	w.Header()[requestIDHeader] = []string{id}
	return &Request{ID: id, address: client}
}

// newRequestID returns 128 random bits. They are an id, not a secret.
func newRequestID() string {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(b[8:], rand.Uint64())
	return hex.EncodeToString(b[:])
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// sessionHeader carries a session token, both ways: the response to a mutation has it, and a
// request that sends it reads its own writes, on any instance. Responses without headers of
// their own, on a WebSocket and in event streams, have it in the extension sessionExtension; a
// WebSocket also takes it from the payload of its first message.
const (
	sessionHeader    = "Byline-Session"
	sessionExtension = "session"
)

// openSession resumes the session of the token in the header, or opens a new one if the token is missing
// or not genuine.
func openSession(h http.Header, s *store.Store) (*session.Session, error) {
	values, token := h[sessionHeader], ""
	switch len(values) {
	case 0:
	case 1:
		token = values[0]
	default:
		return nil, refusal.Input(sessionHeader, blog.ReasonTooMany, "must be at most one header")
	}
	return s.NewSession(token), nil
}

// executing returns the context of an operation, whose reads and writes are in the session of the request. Their cost
// and the read set are recorded.
func (r *Request) executing(ctx context.Context) context.Context {
	ctx = cosmos.WithRequestID(cosmos.WithRecorder(ctx, r.Meter.Record), r.ID)
	if r.readSet != nil {
		ctx = itemcache.WithReadSet(ctx, r.readSet)
	}
	return cosmos.WithSession(ctx, r.Session)
}

// addSession adds the session token to the response of a mutation.
func addSession(ctx context.Context, kind ast.Operation, response *graphql.Response) {
	if kind != ast.Mutation {
		return
	}
	if token := RequestOf(ctx).Session.Token(); token != "" {
		if response.Extensions == nil {
			response.Extensions = map[string]any{}
		}
		response.Extensions[sessionExtension] = token
	}
}
