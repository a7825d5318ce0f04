package cosmos

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"byline/store/internal/sleep"
)

const (
	instanceRanges = 256 // largest number of ranges of a container in an instance
	sessionRanges  = 16  // largest number of ranges of a container in a session

	// A read that no replica can serve yet is repeated, after a pause that doubles.
	firstReplicaPause = 5 * time.Millisecond
	maxReplicaWait    = time.Second // sum of the pauses of an operation
)

const (
	sessionHeader     = "X-Ms-Session-Token"
	contentPathHeader = "X-Ms-Content-Path" // the container's resource id
	substatusHeader   = "X-Ms-Substatus"
	retryAfterHeader  = "X-Ms-Retry-After-Ms"
	activityHeader    = "X-Ms-Activity-Id"
	partitionHeader   = "X-Ms-Documentdb-Partitionkey"
	rangeHeader       = "X-Ms-Documentdb-Partitionkeyrangeid"
)

// sessions is a policy, per try, that keeps what azcosmos does not: the newest session token of each
// container and partition key range. It sends the token of the range of a read, so that callers read
// their own writes through the account, and reads are monotonic. It also applies the Session of a
// request's context.
//
// It learns the range of a partition key from the responses that azcosmos gets for change feeds and
// ReadMany. Before that it sends the tokens of all ranges, as many as maxTokens allows.
type sessions struct {
	known       sessionState
	meter       *meter
	retryBudget time.Duration
}

// sessionState holds the tokens of containers.
type sessionState struct {
	mu         sync.Mutex
	containers map[string]*tokens // guarded by mu; by path
}

// update calls f with the tokens of a container.
func (s *sessionState) update(container string, f func(*tokens)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.containers[container]
	if t == nil {
		if s.containers == nil {
			s.containers = map[string]*tokens{}
		}
		t = &tokens{}
		s.containers[strings.Clone(container)] = t
	}
	f(t)
}

func (s *sessionState) learn(container string, rid uint32, header string, most int) {
	s.update(container, func(t *tokens) { t.learn(rid, header, most) })
}

// forRange returns the tokens of a container's range. See tokens.forRange.
func (s *sessionState) forRange(container string, r *keyRange, keys keyRanges) *tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.containers[container]; t != nil {
		return t.forRange(r, keys)
	}
	return &tokens{}
}

// has reports whether the container has tokens.
func (s *sessionState) has(container string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers[container] != nil
}

// keys returns the known ranges of a container.
func (s *sessionState) keys(container string) keyRanges {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.containers[container]; t != nil {
		return t.keys
	}
	return keyRanges{}
}

// target is the part of a container that a request is for.
type target struct {
	container string // path
	key       string // effective partition key; "" for none
	id        string // of the partition key range; "" for none
}

func targetOf(container string, h http.Header) target {
	at := target{container: container, id: h.Get(rangeHeader)}
	if partition, ok := onlyString(h.Get(partitionHeader)); ok {
		at.key = effectiveKey(partition)
	}
	return at
}

// onlyString returns the string that is the only element of a JSON array; ok is false for other arrays.
func onlyString(array string) (text string, ok bool) {
	if inner, found := strings.CutPrefix(array, `["`); found {
		if plain, found := strings.CutSuffix(inner, `"]`); found && !strings.ContainsAny(plain, `"\`) {
			return plain, true
		}
	}
	var all []string
	if json.Unmarshal([]byte(array), &all) != nil || len(all) != 1 {
		return "", false
	}
	return all[0], true
}

// rangeOf returns the range of the target, nil if it is not known or there are several.
func (at target) rangeOf(keys keyRanges) *keyRange {
	if id, err := strconv.ParseUint(at.id, 10, 64); err == nil {
		return keys.find(id)
	}
	if at.key == "" {
		return nil
	}
	return keys.forKey(at.key)
}

// header returns the session token of a request, which may be "", and reports whether the session adds
// to it.
func (s *sessions) header(at target, session *Session) (header string, more bool) {
	keys := s.known.keys(at.container)
	r := at.rangeOf(keys)
	required := s.known.forRange(at.container, r, keys)
	header = required.header()
	if session == nil {
		return header, false
	}
	required.add(session.known.forRange(at.container, r, keys))
	all := required.header()
	return all, all != header
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
	a := &sessionRequest{sessions: s, req: req, session: SessionFrom(r.Context()), at: targetOf(container, r.Header)}
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
	session *Session
	at      target
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
	h.Del(sessionHeader)
	if token != "" {
		h.Set(sessionHeader, token)
	}
	resp, err := a.req.Next()
	if err != nil {
		return nil, err
	}
	if isBehind(resp) {
		a.known.learn(a.at.container, hashRID(resp.Header.Get(contentPathHeader)), "", instanceRanges) // maybe of a new container
	} else {
		a.learn(resp, a.at, a.session)
	}
	return resp, nil
}

// isBehind reports whether no replica has reached the session token of the request.
func isBehind(resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound && resp.Header.Get(substatusHeader) == substatusReadSession
}

// sessionTried marks a request that no replica of a region could serve. azcosmos repeats it in the write
// region.
type sessionTried struct{}

// read sends the request with its tokens, and waits for replicas to reach them. If none does, not even in
// the write region, it reads without a token.
func (a *sessionRequest) read() (*http.Response, error) {
	wait := replicaWaitOf(a.req.Raw().Context())
	token, more := a.header(a.at, a.session)
	if wait.unreached(a.at, token) {
		return a.send("")
	}
	resp, err := a.send(token)
	if err != nil || token == "" || !isBehind(resp) {
		return resp, err
	}
	var tried sessionTried
	if !a.req.OperationValue(&tried) {
		resp, err = wait.retry(a.req.Raw().Context(), a.retryBudget, resp, func() (*http.Response, error) {
			token, _ := a.header(a.at, a.session)
			return a.send(token)
		})
		a.req.SetOperationValue(sessionTried{})
		return resp, err
	}
	wait.giveUp(a.at, token)
	if !more {
		a.forget(a.at.container)
	}
	a.meter.unreached.Inc()
	return a.send("")
}

// forget drops the progress of a container that no region has reached: the account has lost writes, and
// every read would wait for them.
func (s *sessions) forget(container string) {
	s.known.update(container, func(t *tokens) { t.ranges = nil })
}

// learn records the progress in a response.
func (s *sessions) learn(resp *http.Response, at target, session *Session) {
	switch {
	case resp.StatusCode < http.StatusBadRequest:
	case slices.Contains([]int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed}, resp.StatusCode): // they depend on the items
	default:
		return
	}
	header := resp.Header.Get(sessionHeader)
	if header == "" {
		return
	}
	rid := hashRID(resp.Header.Get(contentPathHeader))
	s.known.update(at.container, func(t *tokens) {
		t.learn(rid, header, instanceRanges)
		// The known ranges are outdated if another range than the key's served the request: it was
		// split, or the container has another version of the hash.
		if r := at.rangeOf(t.keys); r != nil && at.id == "" {
			if served, ok := parseRange(header); ok && served.id != r.id {
				t.keys = keyRanges{}
			}
		}
	})
	if session != nil && session.wrote.Load() {
		session.known.learn(at.container, rid, header, sessionRanges)
	}
}

// learnRanges records the ranges of a container: a response has all of them, or those that have changed.
func (s *sessions) learnRanges(container string, resp *http.Response) {
	body, err := runtime.Payload(resp) // the caller gets the error, too
	if err != nil {
		return
	}
	rid, ranges, err := parseKeyRanges(body)
	if err != nil {
		return
	}
	s.known.update(container, func(t *tokens) {
		t.setRID(hashRID(rid))
		t.keys = t.keys.with(ranges...)
	})
}

// replicaWait limits the time that the reads of an operation together wait for replicas to reach their
// session tokens, within the retry window of the operation. One read polls; the others wait for it.
type replicaWait struct {
	slot chan struct{}

	left, pause time.Duration // owned by the holder of slot

	mu          sync.Mutex
	unreachable map[targetToken]bool // guarded by mu; tokens that no replica has reached
}

type targetToken struct{ container, token string }

func newReplicaWait() *replicaWait {
	return &replicaWait{slot: make(chan struct{}, 1), left: maxReplicaWait, pause: firstReplicaPause}
}

// replicaWaitOf returns the replicaWait of the operation of ctx, or a new one without an operation.
func replicaWaitOf(ctx context.Context) *replicaWait {
	if in, ok := ctx.Value(sessionKey{}).(*sessionScope); ok {
		return in.wait
	}
	return newReplicaWait()
}

// acquire waits for the slot. It reports false if ctx ends first.
func (w *replicaWait) acquire(ctx context.Context) bool {
	select {
	case w.slot <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// retry repeats a request until a replica has reached its token, or the time is over.
func (w *replicaWait) retry(ctx context.Context, budget time.Duration, resp *http.Response, send func() (*http.Response, error)) (*http.Response, error) {
	select {
	case w.slot <- struct{}{}:
	default: // another read polls, perhaps for the same token
		if !w.acquire(ctx) {
			return resp, nil
		}
		over := w.left < w.pause
		<-w.slot
		if over {
			return resp, nil
		}
		if again, err := send(); err != nil || !isBehind(again) {
			return again, err
		}
		if !w.acquire(ctx) {
			return resp, nil
		}
	}
	defer func() { <-w.slot }()
	for w.left >= w.pause {
		if !scopeOf(ctx).retryWindow.allows(w.pause, budget) {
			w.left = 0
			break
		}
		if !sleep.For(ctx, w.pause) {
			break
		}
		w.left, w.pause = w.left-w.pause, 2*w.pause
		if again, err := send(); err != nil || !isBehind(again) {
			return again, err
		}
	}
	return resp, nil
}

// giveUp records that no replica reaches a token.
func (w *replicaWait) giveUp(at target, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unreachable == nil {
		w.unreachable = map[targetToken]bool{}
	}
	w.unreachable[targetToken{at.container, token}] = true
}

func (w *replicaWait) unreached(at target, token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unreachable[targetToken{at.container, token}]
}

// containerPath returns the path of the container whose items a request is for, "" for other requests.
func containerPath(path string) string {
	if container, what := splitPath(path); what == "docs" {
		return container
	}
	return ""
}

// splitPath returns the path of the container that a request is for, and the next path element, such as
// "docs" for its items; "" for other requests.
func splitPath(path string) (container, what string) {
	start := strings.Index(path, "/dbs/") // an account may have a path of its own
	if start < 0 {
		return "", ""
	}
	end := start
	for range 4 { // /dbs/<name>/colls/<name>
		next := strings.IndexByte(path[end+1:], '/')
		if next < 0 {
			return "", ""
		}
		end += 1 + next
	}
	what, _, _ = strings.Cut(path[end+1:], "/")
	return path[start:end], what
}
