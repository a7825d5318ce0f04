package session

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	instanceRanges = 256 // largest number of ranges of a container in a State of an account
	sessionRanges  = 16  // largest number of ranges of a container in a Session
)

// State holds the newest session token of each container and partition key range. It learns the range of a partition
// key from LearnRanges. Before that, headers have the tokens of all ranges, as many as maxTokens allows. The zero value
// is empty.
type State struct {
	mu         sync.Mutex
	containers map[string]*tokens // guarded by mu; by path
}

// update calls f with the tokens of a container.
func (s *State) update(container string, f func(*tokens)) {
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

func (s *State) learn(container string, rid uint32, header string, most int) {
	s.update(container, func(t *tokens) { t.learn(rid, header, most) })
}

// forRange returns the tokens of a container's range. See tokens.forRange.
func (s *State) forRange(container string, r *keyRange, keys keyRanges) *tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.containers[container]; t != nil {
		return t.forRange(r, keys)
	}
	return &tokens{}
}

// has reports whether the container has tokens.
func (s *State) has(container string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers[container] != nil
}

// keys returns the known ranges of a container.
func (s *State) keys(container string) keyRanges {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.containers[container]; t != nil {
		return t.keys
	}
	return keyRanges{}
}

// Target is the part of a container that a request is for.
type Target struct {
	Container string // path
	key       string // effective partition key; "" for none
	id        string // of the partition key range; "" for none
}

// TargetOf returns the target of a request with a partition key, as JSON, or the id of a partition key range.
func TargetOf(container, partitionKey, rangeID string) Target {
	t := Target{Container: container, id: rangeID}
	if partition, ok := onlyString(partitionKey); ok {
		t.key = effectiveKey(partition)
	}
	return t
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
func (t Target) rangeOf(keys keyRanges) *keyRange {
	if id, err := strconv.ParseUint(t.id, 10, 64); err == nil {
		return keys.find(id)
	}
	if t.key == "" {
		return nil
	}
	return keys.forKey(t.key)
}

// Header returns the session token of a request, which may be "", and reports whether the session, which may be nil,
// adds to it.
func (s *State) Header(t Target, of *Session) (header string, more bool) {
	keys := s.keys(t.Container)
	r := t.rangeOf(keys)
	required := s.forRange(t.Container, r, keys)
	header = required.header()
	if of == nil {
		return header, false
	}
	required.add(of.known.forRange(t.Container, r, keys))
	all := required.header()
	return all, all != header
}

// Learn records the session token of a response, and the container's resource id if it is not "". A session that has
// written records it, too.
func (s *State) Learn(t Target, of *Session, token, resourceID string) {
	if token == "" {
		return
	}
	rid := hashRID(resourceID)
	s.update(t.Container, func(known *tokens) {
		known.learn(rid, token, instanceRanges)
		// The known ranges are outdated if another range than the key's served the request: it was
		// split, or the container has another version of the hash.
		if r := t.rangeOf(known.keys); r != nil && t.id == "" {
			if served, ok := parseRange(token); ok && served.id != r.id {
				known.keys = keyRanges{}
			}
		}
	})
	if of != nil && of.wrote.Load() {
		of.known.learn(t.Container, rid, token, sessionRanges)
	}
}

// LearnContainer records the resource id of a container. The tokens of another container of that name are dropped.
func (s *State) LearnContainer(container, resourceID string) {
	s.learn(container, hashRID(resourceID), "", instanceRanges)
}

// LearnRanges records partition key ranges of a container, from the body of the service's response, unless it is
// malformed.
func (s *State) LearnRanges(container string, body []byte) {
	rid, ranges, err := parseKeyRanges(body)
	if err != nil {
		return
	}
	s.update(container, func(t *tokens) {
		t.setRID(hashRID(rid))
		t.keys = t.keys.with(ranges...)
	})
}

// Forget drops the progress of a container.
func (s *State) Forget(container string) {
	s.update(container, func(t *tokens) { t.ranges = nil })
}

// Position is the partition key range that served a read, and its progress. The zero value is unknown.
type Position struct {
	rangeProgress
	known bool
}

// PositionOf returns the position in the session token of a response; unknown if it is malformed.
func PositionOf(token string) Position {
	r, ok := parseRange(token)
	return Position{r, ok}
}

// Admits reports whether a read of a partition is as new as a session requires. read is the position at which a replica
// served it. A nil session requires nothing. If the session has a range that this client does not know, the range may
// be a child of the one that was read, split off since the read: then Admits compares only the LSNs.
func (s *State) Admits(of *Session, container, partition string, read Position) bool {
	if of == nil || !of.known.has(container) {
		return true
	}
	keys := s.keys(container)
	r := keys.forKey(effectiveKey(partition))
	for _, required := range of.known.forRange(container, r, keys).ranges {
		switch {
		case !read.known:
			return false
		case required.id == read.id || r != nil && required.id == r.id && r.coversTokensOf(read.id):
			if !read.covers(required.progress) {
				return false
			}
		case required.id > read.id && required.lsn > read.lsn: // children have higher ids than their parents
			return false
		}
	}
	return true
}

// Oldest returns the oldest of the positions of responses that are of a partition's range; of all if the range is not
// known but they are of one. Otherwise, and if one is unknown, it is unknown.
func (s *State) Oldest(container, partition string, all []Position) Position {
	if mine := s.keys(container).forKey(effectiveKey(partition)); mine != nil {
		return oldest(all, mine.coversTokensOf)
	}
	if len(all) > 0 {
		first := all[0].id // if all are from one range, it is the partition's
		if !slices.ContainsFunc(all, func(p Position) bool { return p.id != first }) {
			return oldest(all, func(uint64) bool { return true })
		}
	}
	return Position{}
}

// oldest returns the oldest position of the matching ranges, or the zero value if it is not known.
func oldest(all []Position, matches func(id uint64) bool) (o Position) {
	for _, a := range all {
		switch {
		case !matches(a.id):
		case !a.known:
			return Position{}
		case !o.known || o.covers(a.progress):
			o = a
		case !a.covers(o.progress):
			return Position{}
		}
	}
	return o
}
