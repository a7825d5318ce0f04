package query

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/sql"
	"byline/store/emulator/jsonpart"
)

// Limits of a page.
const (
	defaultPageSize = 1000
	// MaxPageBytes is the size of a page, in bytes, at which it ends.
	MaxPageBytes = 4 << 20
	// MaxPageScan is the number of index entries and items that are read for a page.
	MaxPageScan = 10_000
)

// Engine has what the queries of an account share. It is safe for concurrent use.
type Engine struct {
	parsed    sql.Cache
	longPages chan struct{} // semaphore of queries whose page has longPage bytes or more
	clock     func() time.Time
}

// New returns an Engine. Items expire by the clock.
func New(clock func() time.Time) *Engine {
	return &Engine{parsed: sql.NewCache(sql.Parse), longPages: make(chan struct{}, runtime.GOMAXPROCS(0)), clock: clock}
}

// Request is a request for a page of a query, or for its plan.
type Request struct {
	engine *Engine
	header http.Header
	body   []byte
	text   string
	bound  *sql.Bound
}

// is reports whether a header is "true".
func (r *Request) is(canonical string) bool { return isTrue(r.header, canonical) }

func isTrue(h http.Header, canonical string) bool { return strings.EqualFold(h.Get(canonical), "true") }

// Parse parses a query request: its text with its parameters.
func (e *Engine) Parse(h http.Header, body []byte) (*Request, error) {
	if !sql.ValidJSON(body) || sql.TooDeep(body) {
		return nil, apierror.BadRequest("The query request is invalid: it is not well-formed JSON.")
	}
	var text string
	var parameters []sql.Param
	for c := range jsonpart.Children(bytes.TrimSpace(body)) {
		switch string(sql.MemberName(c)) {
		case "query":
			sql.ReadText(c.Value, &text)
		case "parameters":
			var err error
			if parameters, err = queryParameters(c.Value); err != nil {
				return nil, err
			}
		}
	}
	query, err := e.parsed.Parse(text)
	if err != nil {
		return nil, apierror.Query(err)
	}
	b, err := query.Bind(parameters)
	if err != nil {
		return nil, apierror.Query(err)
	}
	return &Request{engine: e, header: h, body: body, text: text, bound: b}, nil
}

// queryParameters parses the parameters of a query: null, or an array of objects with a name and a
// value. A missing value is undefined: JavaScript omits undefined values.
func queryParameters(list []byte) (parameters []sql.Param, err error) {
	switch list[0] {
	case 'n':
		return nil, nil
	case '[':
	default:
		return nil, apierror.BadRequest("The query request is invalid: 'parameters' is not an array.")
	}
	for p := range jsonpart.Children(list) {
		var one sql.Param
		for c := range jsonpart.Children(p.Value) {
			switch string(sql.MemberName(c)) {
			case "name":
				sql.ReadText(c.Value, &one.Name)
			case "value":
				one.Value = c.Value
			}
		}
		if one.Name == "" {
			return nil, apierror.BadRequest(
				"The query request is invalid: parameter %d of 'parameters' has no name.", len(parameters)+1)
		}
		parameters = append(parameters, one)
	}
	if name := duplicateName(parameters); name != "" {
		return nil, apierror.BadRequest("The query request is invalid: the parameter '%s' is given more than once.",
			name)
	}
	return parameters, nil
}

// duplicateName returns a name that two parameters share, or "".
func duplicateName(parameters []sql.Param) string {
	if len(parameters) <= 8 { // avoids a map for most queries
		for i, p := range parameters {
			if slices.ContainsFunc(parameters[:i], func(o sql.Param) bool { return o.Name == p.Name }) {
				return p.Name
			}
		}
		return ""
	}
	seen := make(map[string]bool, len(parameters))
	for _, p := range parameters {
		if seen[p.Name] {
			return p.Name
		}
		seen[p.Name] = true
	}
	return ""
}

// crossPartitionError reports that the client has to merge the results of partitions, with the plan for
// that. If the engine has none, the client's request for it is refused by name.
func crossPartitionError(b *sql.Bound, text string) error {
	return planError(b, text, "The provided cross partition query can not be directly served by the gateway. "+
		"This is a first chance (internal) exception that all newer clients will know how to handle gracefully.")
}

// rankError reports that the client has to execute ORDER BY RANK itself, by a plan. The service returns rows in no
// order instead.
func rankError(b *sql.Bound, text string) error {
	return planError(b, text, "ORDER BY RANK is executed by clients, which request a query plan for it. Without one, "+
		"the service returns the rows in no order, and this engine refuses the query.")
}

func planError(b *sql.Bound, text, message string) error {
	plan, err := planQuery(b, text)
	if err != nil {
		plan = []byte("{}")
	}
	return &apierror.Error{Status: http.StatusBadRequest, Substatus: apierror.SubCrossPartition, Code: "BadRequest",
		Charge: charge.BadRequest, Extra: string(plan), Message: message}
}

// PageSize parses x-ms-max-item-count.
func PageSize(h http.Header) (int, error) {
	s := h.Get("X-Ms-Max-Item-Count")
	if s == "" {
		return defaultPageSize, nil
	}
	n, err := strconv.Atoi(s)
	switch {
	case err != nil || n < -1:
		return 0, apierror.InvalidHeader("X-Ms-Max-Item-Count", s)
	case n == -1:
		return MaxPageScan, nil
	case n == 0:
		return defaultPageSize, nil
	}
	return min(n, MaxPageScan), nil
}

// FeedRange returns the bounds of a feed range that is narrower than a physical partition: effective partition keys
// in [low, high), each empty if the request does not name it.
func FeedRange(h http.Header) (low, high []byte, err error) {
	bound := func(name string) []byte {
		b, invalid := hex.DecodeString(h.Get(name))
		if invalid != nil && err == nil {
			err = apierror.InvalidHeader(name, h.Get(name))
		}
		return b
	}
	low, high = bound("X-Ms-Start-Epk"), bound("X-Ms-End-Epk")
	return low, high, err
}
