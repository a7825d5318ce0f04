package emulator

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// continuation is where a query goes on. Clients hold it as an opaque text; it
// is bound to the query, its parameters and the container, and means the same
// after a restart.
type continuation struct {
	plan    byte   // the kind of plan that the position belongs to
	index   uint32 // identifies the index of the plan
	span    uint32 // number of the span
	emitted uint64 // rows that were returned or skipped, for TOP and OFFSET
	started bool   // after is a position within the span
	after   []byte // the position of the last row
}

const (
	continuationVersion = 4
	continuationHeader  = 1 + 8 + 1 + 1 + 4 + 4 + 8
)

// queryFingerprint identifies what a continuation token belongs to.
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
	b = append(b, t.plan, started)
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
	return continuation{plan: b[9], started: b[10] == 1, index: binary.BigEndian.Uint32(b[11:]), span: binary.BigEndian.Uint32(b[15:]),
		emitted: binary.BigEndian.Uint64(b[19:]), after: b[continuationHeader:]}, nil
}

func invalidContinuation() *apiError { return badRequest("Invalid Continuation Token") }
