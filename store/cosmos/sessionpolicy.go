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
)

const (
	instanceRanges = 256 // of a container, whose tokens an instance keeps
	sessionRanges  = 16  // of a container, that a session's token has room for

	// A read that no replica can serve yet is repeated, after a pause that doubles.
	sessionPause    = 5 * time.Millisecond
	sessionPatience = time.Second // for all the pauses of an operation
)

const (
	sessionHeader     = "X-Ms-Session-Token"
	contentPathHeader = "X-Ms-Content-Path" // the container's resource id
	substatusHeader   = "X-Ms-Substatus"
	partitionHeader   = "X-Ms-Documentdb-Partitionkey"
	rangeHeader       = "X-Ms-Documentdb-Partitionkeyrangeid"
)

// sessions is a policy, per try, that keeps what azcosmos does not: the newest session token
// of each container and partition key range that it has seen. It sends that of the range that a
// read is about, so that callers who wrote through the account read what they wrote, and none
// sees time go backwards. It also serves the Session of a request's context.
//
// Which range a partition key is in it learns from the answers that azcosmos gets for change
// feeds and ReadMany. Before that it sends the tokens of all ranges, as many as maxTokens allows.
type sessions struct {
	known       sessionState
	meter       *meter
	retryBudget time.Duration
}

// sessionState is how far containers have come.
type sessionState struct {
	mu         sync.Mutex
	containers map[string]*tokens // guarded by mu; by path
}

// change calls f with what is known of a container.
func (s *sessionState) change(container string, f func(*tokens)) {
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
	s.change(container, func(t *tokens) { t.learn(rid, header, most) })
}

// about returns what is known of a container's range. See tokens.about.
func (s *sessionState) about(container string, r *keyRange, keys keyRanges) *tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.containers[container]; t != nil {
		return t.about(r, keys)
	}
	return &tokens{}
}

// has reports whether anything is known of a container.
func (s *sessionState) has(container string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers[container] != nil
}

// keys returns what is known of a container's ranges.
func (s *sessionState) keys(container string) keyRanges {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.containers[container]; t != nil {
		return t.keys
	}
	return keyRanges{}
}

// reach is the part of a container that a request is about.
type reach struct {
	container string // path
	key       string // effective partition key; "" for none
	id        string // of the partition key range; "" for none
}

func reachOf(container string, h http.Header) reach {
	at := reach{container: container, id: h.Get(rangeHeader)}
	if partition, ok := soleText(h.Get(partitionHeader)); ok {
		at.key = effectiveKey(partition)
	}
	return at
}

// soleText returns the text that is the only element of a JSON array; ok reports whether it is one.
func soleText(array string) (text string, ok bool) {
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

// rangeOf returns the range of a reach, nil if it is not known or there are several.
func (at reach) rangeOf(keys keyRanges) *keyRange {
	if id, err := strconv.ParseUint(at.id, 10, 64); err == nil {
		return keys.find(id)
	}
	if at.key == "" {
		return nil
	}
	return keys.holding(at.key)
}

// header returns what a request asks for, which may be nothing, and whether that is more than it
// would ask for without a session.
func (s *sessions) header(at reach, session *Session) (header string, more bool) {
	keys := s.known.keys(at.container)
	r := at.rangeOf(keys)
	asked := s.known.about(at.container, r, keys)
	header = asked.header()
	if session == nil {
		return header, false
	}
	asked.add(session.known.about(at.container, r, keys))
	all := asked.header()
	return all, all != header
}

// Do implements policy.Policy.
func (s *sessions) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	container, what := partOf(r.URL.EscapedPath())
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
	a := &asking{sessions: s, req: req, session: SessionFrom(r.Context()), at: reachOf(container, r.Header)}
	write := isWrite(r)
	if write {
		a.session.NoteWrite()
	}
	if write && r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") == "" { // a batch may be one of reads
		return a.send("")
	}
	return a.read()
}

// asking is a request that asks for what was seen.
type asking struct {
	*sessions
	req     *policy.Request
	session *Session
	at      reach
	sent    bool
}

// send sends the request with a session token, unless that is "".
func (a *asking) send(token string) (*http.Response, error) {
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
		a.known.learn(a.at.container, hashRID(resp.Header.Get(contentPathHeader)), "", instanceRanges) // it may be a new container
	} else {
		a.learn(resp, a.at, a.session)
	}
	return resp, nil
}

// isBehind reports whether no replica has come as far as a request asks.
func isBehind(resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound && resp.Header.Get(substatusHeader) == substatusReadSession
}

// sessionTried marks a request that no replica of a region could serve, which azcosmos repeats at
// the region that writes.
type sessionTried struct{}

// read sends the request with its tokens, and waits for replicas to come as far. If they do not, in
// the region that writes either, it reads what there is.
func (a *asking) read() (*http.Response, error) {
	wait := patienceOf(a.req.Raw().Context())
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
		resp, err = wait.until(a.req.Raw().Context(), a.retryBudget, resp, func() (*http.Response, error) {
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

// forget forgets how far a container had come when nobody knows of it any more: it has lost
// writes, and would never be asked for anything it has.
func (s *sessions) forget(container string) {
	s.known.change(container, func(t *tokens) { t.ranges = nil })
}

// learn keeps how far the range of an answer had come.
func (s *sessions) learn(resp *http.Response, at reach, session *Session) {
	switch {
	case resp.StatusCode < http.StatusBadRequest:
	case slices.Contains([]int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed}, resp.StatusCode): // they rest on what is there
	default:
		return
	}
	header := resp.Header.Get(sessionHeader)
	if header == "" {
		return
	}
	rid := hashRID(resp.Header.Get(contentPathHeader))
	s.known.change(at.container, func(t *tokens) {
		t.learn(rid, header, instanceRanges)
		// The ranges that are known are not those of the container if another than that of the
		// key has answered: it was split, or has another version of the hash.
		if r := at.rangeOf(t.keys); r != nil && at.id == "" {
			if answered, ok := parseRange(header); ok && answered.id != r.id {
				t.keys = keyRanges{}
			}
		}
	})
	if session != nil && session.wrote.Load() {
		session.known.learn(at.container, rid, header, sessionRanges)
	}
}

// learnRanges keeps which ranges a container has: an answer says all, or what has changed.
func (s *sessions) learnRanges(container string, resp *http.Response) {
	body, err := runtime.Payload(resp) // who reads it gets the error, too
	if err != nil {
		return
	}
	rid, ranges, err := parseKeyRanges(body)
	if err != nil {
		return
	}
	s.known.change(container, func(t *tokens) {
		t.belong(hashRID(rid))
		t.keys = t.keys.with(ranges...)
	})
}

// patience is how long the reads of an operation wait, all together, for replicas to come as far
// as their session tokens ask, within the operation's time for retries. One of them waits and asks
// again; the others wait for it.
type patience struct {
	turn chan struct{}

	left, pause time.Duration // whose turn it is may use them

	mu   sync.Mutex
	gone map[reachToken]bool // guarded by mu; what nobody has come as far as
}

type reachToken struct{ container, token string }

func newPatience() *patience {
	return &patience{turn: make(chan struct{}, 1), left: sessionPatience, pause: sessionPause}
}

// patienceOf returns the patience of an operation, or that of one request.
func patienceOf(ctx context.Context) *patience {
	if in, ok := ctx.Value(sessionKey{}).(*inSession); ok {
		return in.patience
	}
	return newPatience()
}

// take waits for the turn. It reports false if ctx ends first.
func (p *patience) take(ctx context.Context) bool {
	select {
	case p.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// until sends a request again until a replica has come as far as it asks, or patience ends.
func (p *patience) until(ctx context.Context, budget time.Duration, resp *http.Response, send func() (*http.Response, error)) (*http.Response, error) {
	select {
	case p.turn <- struct{}{}:
	default: // another waits, perhaps for the same
		if !p.take(ctx) {
			return resp, nil
		}
		over := p.left < p.pause
		<-p.turn
		if over {
			return resp, nil
		}
		if again, err := send(); err != nil || !isBehind(again) {
			return again, err
		}
		if !p.take(ctx) {
			return resp, nil
		}
	}
	defer func() { <-p.turn }()
	for p.left >= p.pause {
		if !scopeOf(ctx).retries.allows(p.pause, budget) {
			p.left = 0
			break
		}
		if !sleep(ctx, p.pause) {
			break
		}
		p.left, p.pause = p.left-p.pause, 2*p.pause
		if again, err := send(); err != nil || !isBehind(again) {
			return again, err
		}
	}
	return resp, nil
}

// giveUp has unreached tell of what nobody has come as far as.
func (p *patience) giveUp(at reach, token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone == nil {
		p.gone = map[reachToken]bool{}
	}
	p.gone[reachToken{at.container, token}] = true
}

func (p *patience) unreached(at reach, token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone[reachToken{at.container, token}]
}

// containerPath returns the path of the container whose items a request is about, ""
// if it is about something else.
func containerPath(path string) string {
	if container, what := partOf(path); what == "docs" {
		return container
	}
	return ""
}

// partOf returns the path of the container that a request is about, and what of it, such as "docs"
// for its items; "" if it is about something else.
func partOf(path string) (container, what string) {
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
