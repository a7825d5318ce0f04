package cosmos

import (
	"context"
	"net/http"
	"time"

	"byline/store/cosmos/session"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

type sessionKey struct{}

type sessionScope struct {
	session *session.Session
	wait    *replicaWait
}

// WithSession returns a context for one operation of a session, which may be nil. Its requests read the
// writes of the session. They wait for replicas to reach them, together for at most a second, and then
// read what the replicas have. The operation has its own retry window, unless that of ctx is unlimited.
func WithSession(ctx context.Context, s *session.Session) context.Context {
	if scopeOf(ctx).retryWindow != unlimitedWindow {
		ctx = withRetryWindow(ctx, &retryWindow{})
	}
	return context.WithValue(ctx, sessionKey{}, &sessionScope{s, newReplicaWait()})
}

// withoutSession returns a context of the same operation without a session.
func withoutSession(ctx context.Context) context.Context {
	in, ok := ctx.Value(sessionKey{}).(*sessionScope)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, sessionKey{}, &sessionScope{nil, in.wait})
}

// SessionFrom returns the session of a context, nil if it has none.
func SessionFrom(ctx context.Context) *session.Session {
	if in, ok := ctx.Value(sessionKey{}).(*sessionScope); ok {
		return in.session
	}
	return nil
}

// NewSession resumes the session with a token of session.Session, or returns a new one if token is "". Its tokens cover
// the containers, which belong to one database; their order is part of the tokens. A token that was not made with the
// SessionKey of the account, for this database, is ignored and counted. A session without containers covers nothing.
func (a *Account) NewSession(token string, containers ...*Container) *session.Session {
	if len(containers) == 0 {
		s, _ := session.New("", session.Key{})
		return s
	}
	paths := make([]string, len(containers))
	for i, c := range containers {
		paths[i] = c.path
	}
	key := session.Key{Secret: a.sessionKey, Endpoint: a.requests.Endpoint(), Database: containers[0].database}
	s, ok := session.New(token, key, paths...)
	if !ok {
		a.meter.invalid.Inc()
	}
	return s
}

// sessions is a policy, per try, that keeps what azcosmos does not: the newest session token of each
// container and partition key range. It sends the token of the range of a read, so that callers read
// their own writes through the account, and reads are monotonic. It also applies the Session of a
// request's context.
//
// It learns the range of a partition key from the responses that azcosmos gets for change feeds and
// ReadMany. Before that it sends the tokens of all ranges, as many as a header may have.
type sessions struct {
	known       session.State
	meter       *meter
	retryBudget time.Duration
}

// Do implements policy.Policy.
func (s *sessions) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	container, what := splitPath(r.URL.EscapedPath())
	switch what {
	case "docs":
	case "pkranges":
		resp, err := req.Next()
		if err == nil && resp.StatusCode == http.StatusOK {
			s.learnRanges(container, resp)
		}
		return resp, err
	default:
		return req.Next()
	}
	a := &sessionRequest{sessions: s, req: req, session: SessionFrom(r.Context()),
		at: session.TargetOf(container, r.Header.Get(partitionHeader), r.Header.Get(rangeHeader))}
	write := isWrite(r)
	if write {
		a.session.MarkWritten()
	}
	if write && r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") == "" { // a batch may read
		return a.send("")
	}
	return a.read()
}

// sessionRequest is a request with session tokens.
type sessionRequest struct {
	*sessions
	req     *policy.Request
	session *session.Session
	at      session.Target
	sent    bool
}

// send sends the request with a session token, unless that is "".
func (a *sessionRequest) send(token string) (*http.Response, error) {
	if a.sent {
		if err := a.req.RewindBody(); err != nil {
			return nil, err
		}
	}
	a.sent = true
	h := a.req.Raw().Header
	h.Del(session.Header)
	if token != "" {
		h.Set(session.Header, token)
	}
	resp, err := a.req.Next()
	if err != nil {
		return nil, err
	}
	if session.IsBehind(resp) {
		a.known.LearnContainer(a.at.Container, resp.Header.Get(contentPathHeader)) // maybe a new one
	} else {
		a.learn(resp, a.at, a.session)
	}
	return resp, nil
}

// sessionTried marks a request that no replica of a region could serve. azcosmos repeats it in the write
// region.
type sessionTried struct{}

// read sends the request with its tokens, and waits for replicas to reach them. If none does, not even in
// the write region, it reads without a token.
func (a *sessionRequest) read() (*http.Response, error) {
	wait := replicaWaitOf(a.req.Raw().Context())
	token, more := a.known.Header(a.at, a.session)
	if wait.unreached(a.at, token) {
		return a.send("")
	}
	resp, err := a.send(token)
	if err != nil || token == "" || !session.IsBehind(resp) {
		return resp, err
	}
	var tried sessionTried
	if !a.req.OperationValue(&tried) {
		resp, err = wait.retry(a.req.Raw().Context(), a.retryBudget, resp, func() (*http.Response, error) {
			token, _ := a.known.Header(a.at, a.session)
			return a.send(token)
		})
		a.req.SetOperationValue(sessionTried{})
		return resp, err
	}
	wait.giveUp(a.at, token)
	if !more { // the account has lost writes, and every read would wait for them
		a.known.Forget(a.at.Container)
	}
	a.meter.unreached.Inc()
	return a.send("")
}

// learn records the progress in a response.
func (s *sessions) learn(resp *http.Response, at session.Target, of *session.Session) {
	switch status := resp.StatusCode; {
	case status < http.StatusBadRequest:
	case status == http.StatusNotFound, status == http.StatusConflict, status == http.StatusPreconditionFailed:
		// These errors depend on the items.
	default:
		return
	}
	s.known.Learn(at, of, resp.Header.Get(session.Header), resp.Header.Get(contentPathHeader))
}

// learnRanges records the ranges of a container: a response has all of them, or those that have changed.
func (s *sessions) learnRanges(container string, resp *http.Response) {
	if body, err := runtime.Payload(resp); err == nil { // the caller gets the error, too
		s.known.LearnRanges(container, body)
	}
}
