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
	full      bool               // the response was refused before it was executed, or shared: see noMemory
	registers bool               // registers its document by hash
	size      int                // bytes of the body or message
	moderator bool               // the viewer is a moderator
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

// withRequest returns a context that belongs to r.
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
		return nil, refusal.Input(sessionHeader, "there must be at most one %s header", sessionHeader)
	}
	return s.NewSession(token), nil
}

// executing returns the context of an operation, whose reads and writes are in the session of the request. Their cost
// and the read set are recorded.
func (r *request) executing(ctx context.Context) context.Context {
	ctx = cosmos.WithRequestID(cosmos.WithRecorder(ctx, r.meter.Record), r.id)
	if r.readSet != nil {
		ctx = itemcache.WithReadSet(ctx, r.readSet)
	}
	return cosmos.WithSession(ctx, r.session)
}

// addSession adds the session token to the response of a mutation.
func addSession(ctx context.Context, kind ast.Operation, response *graphql.Response) {
	if kind != ast.Mutation {
		return
	}
	if token := requestFrom(ctx).session.Token(); token != "" {
		if response.Extensions == nil {
			response.Extensions = map[string]any{}
		}
		response.Extensions[sessionExtension] = token
	}
}
