package query

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
)

// continuation is the position at which the next page of a query begins. Clients hold it as an
// opaque token. It survives restarts.
//
// A token belongs to the order of the query's rows, not to its text: SDKs that merge the pages of
// physical partitions resume an ORDER BY with a filter on the values of the last row and an older
// token. See Query.fingerprint.
type continuation struct {
	fingerprint [8]byte
	plan        planKind // how the query finds its rows; see plan.order
	span        uint32   // number of the span
	emitted     uint64   // rows that were returned or skipped, for TOP and OFFSET
	started     bool     // after is set
	after       []byte   // position of the last row in the span
}

const (
	continuationVersion = 5
	continuationHeader  = 1 + 8 + 1 + 1 + 4 + 8
)

// maxPosition bounds the position in a continuation, because HTTP clients bound headers. It is larger
// than the longest item address: only values of ORDER BY can exceed it.
const maxPosition = 16 << 10

// positionLimit returns the length of the longest position whose token a client accepts.
func positionLimit(h http.Header) (int, error) {
	const header = "X-Ms-Documentdb-Responsecontinuationtokenlimitinkb"
	text := h.Get(header)
	if text == "" {
		return maxPosition, nil
	}
	kilobytes, err := strconv.Atoi(text)
	if err != nil || kilobytes < 1 {
		return 0, apierror.InvalidHeader(header, text)
	}
	const plenty = 1 << 10 // prevents overflow
	return min(base64.URLEncoding.DecodedLen(min(kilobytes, plenty)<<10)-continuationHeader, maxPosition), nil
}

// separator returns a position between two rows to continue from: last itself, or, if that is
// longer than limit, a shorter one that still comes before next.
func (p *plan) separator(last, next []byte, limit int) []byte {
	switch {
	case len(last) <= limit:
		return last
	case !p.reverse:
		return pebble.DefaultComparer.Separator(nil, last, next)
	}
	if s := pebble.DefaultComparer.Separator(nil, next, last); !bytes.Equal(s, next) {
		return s
	}
	return last
}

// fingerprint identifies what positions of the query mean: the container, the logical partition and
// the order of the rows. Only positions in a list of the query's own are bound to its text: groups,
// distinct rows, and items that it names.
func (r *Query) fingerprint() [8]byte {
	h := sha256.New()
	write := func(part []byte) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write(part)
	}
	column := func(path sql.Path, desc bool) { write(fmt.Appendf(nil, "%q %v", []string(path), desc)) }
	write(r.c.RID)
	if r.scope.key != nil {
		write(r.scope.prefix)
	}
	order := r.plan.order()
	write([]byte{byte(order)})
	switch order {
	case planAggregated, planPoints:
		write(r.body)
	case planSorted:
		for _, o := range r.bound.OrderBy() {
			column(o.Path, o.Desc)
			if o.Score != "" {
				write([]byte(o.Score))
			}
		}
	case planComposite:
		for _, c := range r.plan.composite.Columns {
			column(c.Path, c.Desc != r.plan.reverse)
		}
		write(r.plan.prefix)
	default:
		column(r.plan.path, false)
	}
	return [8]byte(h.Sum(nil))
}

func (t continuation) encode() string {
	b := append(make([]byte, 0, continuationHeader+len(t.after)), continuationVersion)
	b = append(b, t.fingerprint[:]...)
	started := byte(0)
	if t.started {
		started = 1
	}
	b = append(b, byte(t.plan), started)
	b = binary.BigEndian.AppendUint32(b, t.span)
	b = binary.BigEndian.AppendUint64(b, t.emitted)
	return base64.URLEncoding.EncodeToString(append(b, t.after...))
}

// decodeContinuation decodes a token. The caller compares its fingerprint.
func decodeContinuation(text string) (continuation, error) {
	b, err := base64.URLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < continuationHeader || b[0] != continuationVersion || b[9] == 0 || b[10] > 1 {
		return continuation{}, invalidContinuation()
	}
	return continuation{fingerprint: [8]byte(b[1:9]), plan: planKind(b[9]), started: b[10] == 1,
		span:    binary.BigEndian.Uint32(b[11:]),
		emitted: binary.BigEndian.Uint64(b[15:]), after: b[continuationHeader:]}, nil
}

func invalidContinuation() *apierror.Error { return apierror.BadRequest("Invalid Continuation Token") }
