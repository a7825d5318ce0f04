package cosmos

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const (
	instanceRanges = 256 // of a container, whose tokens an instance keeps
	sessionRanges  = 64  // of a container, that a session's token has room for

	// A read that no replica can serve yet is repeated, after a pause that doubles.
	sessionPause    = 5 * time.Millisecond
	sessionPatience = time.Second // for all the pauses of an attempt
)

const (
	sessionHeader     = "X-Ms-Session-Token"
	contentPathHeader = "X-Ms-Content-Path" // the container's resource id
	substatusHeader   = "X-Ms-Substatus"
	partitionHeader   = "X-Ms-Documentdb-Partitionkey"
)

// sessions is a policy, per try, that keeps what azcosmos does not: the newest session token
// of each container and partition key range that it has seen. It sends them with every read,
// so that callers who wrote through the account read what they wrote, and none sees time go
// backwards. It also serves the Session of a request's context.
type sessions struct{ known sessionState }

// sessionState is how far containers have come.
type sessionState struct {
	mu         sync.Mutex
	containers map[string]*tokens // guarded by mu; by path
}

func (s *sessionState) learn(container string, rid uint32, header string, most int) {
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
	t.learn(rid, header, most)
}

// of returns a copy of what is known of a container, nil if that is nothing.
func (s *sessionState) of(container string) *tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.containers[container]
	if t == nil {
		return nil
	}
	return &tokens{rid: t.rid, ranges: slices.Clone(t.ranges), clock: t.clock}
}

// header is what a request to a container sends, which may be nothing.
func (s *sessionState) header(container string, session *Session) string {
	var asked *tokens
	if session != nil {
		asked = session.known.of(container)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.containers[container]
	switch {
	case t == nil && asked == nil:
		return ""
	case t == nil:
		return asked.header()
	case asked == nil:
		return t.header()
	}
	return t.with(asked).header()
}

// Do implements policy.Policy.
func (s *sessions) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	container := containerPath(r.URL.EscapedPath())
	if container == "" {
		return req.Next()
	}
	session := SessionFrom(r.Context())
	write := isWrite(r)
	if write {
		session.NoteWrite()
	}
	asks := !write || r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" // which may be a batch of reads
	pause, waited := sessionPause, time.Duration(0)
	for {
		r.Header.Del(sessionHeader)
		if asks {
			if token := s.known.header(container, session); token != "" {
				r.Header.Set(sessionHeader, token)
			}
		}
		resp, err := req.Next()
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusNotFound || resp.Header.Get(substatusHeader) != substatusReadSession {
			s.learn(resp, container, session)
			return resp, nil
		}
		s.known.learn(container, hashRID(resp.Header.Get(contentPathHeader)), "", instanceRanges) // it may be a new container
		if waited+pause > sessionPatience {
			s.giveUp(req, container, session)
			return resp, nil
		}
		if !sleep(r.Context(), pause) {
			return resp, nil
		}
		waited, pause = waited+pause, 2*pause
		if err := req.RewindBody(); err != nil {
			return nil, err
		}
	}
}

// sessionTried marks a request that no replica of a region could serve.
type sessionTried struct{}

// giveUp forgets how far a container had come if nobody knows of it, the region that
// writes included, which azcosmos asks last: then it has lost writes, and would never
// be asked for anything it has. What a client asks for makes nobody forget.
func (s *sessions) giveUp(req *policy.Request, container string, session *Session) {
	if session != nil && session.known.of(container) != nil {
		return
	}
	var tried sessionTried
	if !req.OperationValue(&tried) {
		req.SetOperationValue(sessionTried{})
		return
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	delete(s.known.containers, container)
}

// learn keeps how far the range of an answer had come.
func (s *sessions) learn(resp *http.Response, container string, session *Session) {
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
	s.known.learn(container, rid, header, instanceRanges)
	if session != nil && session.wrote.Load() {
		session.known.learn(container, rid, header, sessionRanges)
	}
}

// containerPath returns the path of the container whose items a request is about, ""
// if it is about something else.
func containerPath(path string) string {
	start := strings.Index(path, "/dbs/") // an account may have a path of its own
	if start < 0 {
		return ""
	}
	end := start
	for range 4 { // /dbs/<name>/colls/<name>
		next := strings.IndexByte(path[end+1:], '/')
		if next < 0 {
			return ""
		}
		end += 1 + next
	}
	if name, _, _ := strings.Cut(path[end+1:], "/"); name != "docs" {
		return ""
	}
	return path[start:end]
}
