package emulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
)

// continuation is the position at which the next page of a query begins. Clients hold it as an
// opaque token, bound to the query, its parameters and the container. It survives restarts.
type continuation struct {
	plan    planKind // the kind of plan that the position belongs to
	index   uint32   // identifies the index of the plan
	span    uint32   // number of the span
	emitted uint64   // rows that were returned or skipped, for TOP and OFFSET
	started bool     // after is set
	after   []byte   // position of the last row in the span
}

const (
	continuationVersion = 4
	continuationHeader  = 1 + 8 + 1 + 1 + 4 + 4 + 8
)

// maxPosition bounds the position in a continuation, because HTTP clients bound headers. It is larger
// than the longest item address: only values of ORDER BY can exceed it.
const maxPosition = 16 << 10

// separator returns a position between two rows to continue from: last itself, or, if that is
// longer than maxPosition, a shorter one that still comes before next.
func (p *plan) separator(last, next []byte) []byte {
	switch {
	case len(last) <= maxPosition:
		return last
	case !p.reverse:
		return pebble.DefaultComparer.Separator(nil, last, next)
	}
	if s := pebble.DefaultComparer.Separator(nil, next, last); !bytes.Equal(s, next) {
		return s
	}
	return last
}

// queryFingerprint identifies the query that a continuation belongs to.
func queryFingerprint(c *container, partitionKey string, body []byte) [8]byte {
	h := sha256.New()
	var n [4]byte
	for _, part := range [][]byte{c.ridBytes, []byte(partitionKey), body} {
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return [8]byte(h.Sum(nil))
}

func (t continuation) encode(fingerprint [8]byte) string {
	b := append(make([]byte, 0, continuationHeader+len(t.after)), continuationVersion)
	b = append(b, fingerprint[:]...)
	started := byte(0)
	if t.started {
		started = 1
	}
	b = append(b, byte(t.plan), started)
	b = binary.BigEndian.AppendUint32(b, t.index)
	b = binary.BigEndian.AppendUint32(b, t.span)
	b = binary.BigEndian.AppendUint64(b, t.emitted)
	return base64.URLEncoding.EncodeToString(append(b, t.after...))
}

func decodeContinuation(text string, fingerprint [8]byte) (continuation, error) {
	b, err := base64.URLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < continuationHeader || b[0] != continuationVersion || [8]byte(b[1:9]) != fingerprint || b[10] > 1 {
		return continuation{}, invalidContinuation()
	}
	return continuation{plan: planKind(b[9]), started: b[10] == 1, index: binary.BigEndian.Uint32(b[11:]), span: binary.BigEndian.Uint32(b[15:]),
		emitted: binary.BigEndian.Uint64(b[19:]), after: b[continuationHeader:]}, nil
}

func invalidContinuation() *apiError { return badRequest("Invalid Continuation Token") }
