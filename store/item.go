package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// The values of an item's type property.
const (
	typeUser     = "user"
	typeUsername = "username"
	typePost     = "post"
	typeComment  = "comment"
	typeLike     = "like"
)

// Date is a moment as items hold it: RFC 3339, UTC, with exactly three digits of
// milliseconds, so that dates sort as text.
type Date string

const dateLayout = "2006-01-02T15:04:05.000Z"

// NewDate returns t as a Date, cut to milliseconds.
func NewDate(t time.Time) Date { return Date(t.UTC().Format(dateLayout)) }

// UnmarshalJSON refuses whatever is not in the one form, since it would sort wrongly.
func (d *Date) UnmarshalJSON(b []byte) error {
	if len(b) != len(dateLayout)+2 || !validDate(string(b[1:len(b)-1])) {
		return fmt.Errorf("%.40s is not a date in the form %s", b, dateLayout)
	}
	*d = Date(b[1 : len(b)-1])
	return nil
}

func validDate(s string) bool {
	const form = "0000-00-00T00:00:00.000Z"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		if d := s[i] - '0'; d != form[i]-'0' && (form[i] != '0' || d > 9) {
			return false
		}
	}
	if s[5:7] >= "01" && s[5:7] <= "12" && s[8:10] >= "01" && s[8:10] <= "28" && s[11:13] <= "23" && s[14:16] <= "59" && s[17:19] <= "59" {
		return true
	}
	_, err := time.Parse(dateLayout, s) // knows how long months are
	return err == nil
}

// envelope is what every item of the blog has beside its own properties.
type envelope struct {
	Type    string `json:"type"`
	Deleted bool   `json:"deleted,omitempty"` // a tombstone: absent to every reader
	TTL     int    `json:"ttl,omitempty"`     // of a tombstone or a released username: seconds until it goes
}

// tombstoneLife is how long a tombstone stays, in seconds: longer than anything
// that follows the change feed may stand still.
const tombstoneLife = 30 * 24 * 60 * 60

func (e envelope) envelopeOf() envelope { return e }

func (e *envelope) plainEnvelope(p *plain, name string) bool {
	switch name {
	case "type":
		e.Type = p.quoted()
	case "deleted":
		e.Deleted = p.truth()
	case "ttl":
		e.TTL = int(p.integer(strconv.IntSize))
	default:
		return false
	}
	return true
}

// errMalformed says that an item is not what its type has to be: somebody else has
// written it.
var errMalformed = errors.New("malformed")

// decode reads an item of the given type. It reports false for an item of another
// type and for a tombstone, and an Error if the item is malformed.
func decode[T interface{ envelopeOf() envelope }](op, wantType string, raw []byte) (item T, ok bool, err error) {
	if err := unmarshal(raw, &item); err != nil {
		return item, false, malformed(op, wantType, err)
	}
	e := item.envelopeOf()
	return item, e.Type == wantType && !e.Deleted, nil
}

// unmarshal reads an item.
func unmarshal[T any](raw []byte, item *T, o ...jsonv2.Options) error {
	if whole, ok := any(item).(wholeItem); ok {
		if plainWhole(raw, whole) {
			return nil
		}
		*item = *new(T)
	}
	return jsonv2.Unmarshal(raw, item, o...)
}

func malformed(op, kind string, err error) error {
	return &Error{Code: Internal, Op: op, Err: fmt.Errorf("%w %s item: %w", errMalformed, kind, err)}
}

// encode writes an item. Items are made of texts, numbers and flags: it cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// newID returns an id that nobody has yet.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// createID returns the id of an item to create. With an idempotency key it is
// derived from the key and from what the key is scoped to (what is created, by
// whom, where), so that a repetition meets the item of the first attempt.
func createID(key string, scope ...string) string {
	if key == "" {
		return newID()
	}
	sum := digest(append(scope, key)...)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: derived by the application, RFC 9562 section 5.8
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// inputDigest identifies the input of a create that has an idempotency key; ""
// without one.
func inputDigest(key string, input ...string) string {
	if key == "" {
		return ""
	}
	sum := digest(input...)
	return hex.EncodeToString(sum[:8])
}

// UserID returns the id of the user that a subject of an identity provider acts
// as. It is a digest, so that no look-up is needed and the subject stays private.
func UserID(issuer, subject string) string {
	sum := digest(issuer, subject)
	return hex.EncodeToString(sum[:16])
}

// digest hashes the parts so that no two lists of parts collide.
func digest(parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 256)
	for _, p := range parts {
		b = append(strconv.AppendInt(b, int64(len(p)), 10), ':')
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

// validID reports whether id could be one of ours. Anything else, and so
// anything that means something in a URL, in SQL or to Cosmos DB, is absent.
func validID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if !ofID(id[i]) {
			return false
		}
	}
	return true
}

func ofID(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// addressable reports whether an item can be asked for that others may have written: by id or
// partition key, which may be one of ours, or as "post.2" or "username:ada". Many others Cosmos
// DB, or azcosmos, does not take in a request for one item; an empty one, or one of dots, is
// none in its path.
func addressable(name string) bool {
	for i := range len(name) {
		if c := name[i]; !ofID(c) && c != '.' && c != ':' {
			return false
		}
	}
	return strings.Trim(name, ".") != "" && len(name) <= 255
}
