package emulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
)

// Throughput limits of the service.
const (
	defaultThroughput = 400
	minThroughput     = 400
	minAutoscale      = 1000
)

// offer is the throughput of a database or a container. It is immutable.
type offer struct {
	No          uint32        `json:"no"`
	ResourceRID string        `json:"resourceRid"`
	Resource    string        `json:"resource"`
	Content     *offerContent `json:"content"`
	ETag        string        `json:"etag"`
	Timestamp   int64         `json:"ts"`
}

type offerContent struct {
	Throughput int             `json:"offerThroughput,omitempty"`
	Autopilot  *offerAutopilot `json:"offerAutopilotSettings,omitempty"`
}

type offerAutopilot struct {
	Max     int             `json:"maxThroughput"`
	Upgrade json.RawMessage `json:"autoUpgradePolicy,omitempty"`
}

// id is lower case, because clients sign it.
func (o *offer) id() string { return fmt.Sprintf("%04s", strconv.FormatUint(uint64(o.No)+46656, 36)) }

func (o *offer) body() []byte {
	content, err := json.Marshal(o.Content)
	if err != nil {
		return nil // cannot fail
	}
	return fmt.Appendf(nil,
		`{"resource":%q,"offerType":"Invalid","offerResourceId":%q,"offerVersion":"V2","content":%s,"id":%q,"_rid":%q,"_self":"offers/%s/","_etag":%q,"_ts":%d}`,
		o.Resource, o.ResourceRID, content, o.id(), o.id(), o.id(), o.ETag, o.Timestamp)
}

// check sets the service's defaults and validates.
func (c *offerContent) check() error {
	switch {
	case c.Autopilot != nil:
		if c.Autopilot.Max < minAutoscale || c.Autopilot.Max%1000 != 0 {
			return apierror.BadRequest("The autoscale throughput must be a multiple of 1000, and at least %d.",
				minAutoscale)
		}
		if c.Throughput == 0 {
			c.Throughput = c.Autopilot.Max / 10
		}
	case c.Throughput < minThroughput || c.Throughput%100 != 0:
		return apierror.BadRequest(
			"The offer should have valid throughput values between %d and 1000000 inclusive in increments of 100.",
			minThroughput)
	}
	return nil
}

// offerFromHeaders reads the throughput of a create request, or returns nil.
func offerFromHeaders(q *request) (*offerContent, error) {
	var c offerContent
	if s := q.get("X-Ms-Offer-Throughput"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, apierror.InvalidHeader("X-Ms-Offer-Throughput", s)
		}
		c.Throughput = n
	} else if s := q.get("X-Ms-Cosmos-Offer-Autopilot-Settings"); s != "" {
		if err := json.Unmarshal([]byte(s), &c.Autopilot); err != nil || c.Autopilot == nil {
			return nil, apierror.InvalidHeader("X-Ms-Cosmos-Offer-Autopilot-Settings", s)
		}
	} else {
		return nil, nil
	}
	return &c, c.check()
}

func (m *metaChange) addOffer(resourceRID, link string, content *offerContent, ts int64) error {
	o := &offer{No: m.number(), ResourceRID: resourceRID, Resource: link, Content: content, Timestamp: ts}
	o.ETag = quoteETag(layout.FormatETag(0, uint64(o.No), 0, ts))
	m.cat.offers[o.id()] = o
	return m.set(layout.MetaOffer, o.No, o)
}

func (m *metaChange) dropOffer(resourceRID string) error {
	for id, o := range m.cat.offers {
		if o.ResourceRID == resourceRID {
			delete(m.cat.offers, id)
			return m.remove(layout.MetaOffer, o.No)
		}
	}
	return nil
}

// offers serves /offers and /offers/{offer}: query, list, read and replace.
func (e *Engine) offers(q *request) (*response, error) {
	if len(q.segments) == 1 {
		var all [][]byte
		for _, o := range sortedByNo(e.catalog.Load().offers, func(o *offer) uint32 { return o.No }) {
			all = append(all, o.body())
		}
		switch {
		case q.method == http.MethodPost && isQuery(q):
			return e.queryMetadata(q, "Offers", "", all)
		case q.method == http.MethodGet:
			return listResponse("Offers", "", all), nil
		}
		return nil, apierror.MethodNotAllowed()
	}
	id := strings.ToLower(q.segments[1])
	switch q.method {
	case http.MethodGet:
		switch o := e.catalog.Load().offers[id]; {
		case o == nil:
			return nil, apierror.ResourceNotFound()
		case q.notModified(o.ETag):
			return &response{status: http.StatusNotModified, etag: o.ETag, charge: charge.Metadata}, nil
		default:
			return o.response(), nil
		}
	case http.MethodPut:
		var in struct {
			Content *offerContent `json:"content"`
		}
		if err := json.Unmarshal(q.body, &in); err != nil || in.Content == nil {
			return nil, apierror.BadRequest(
				"The request payload is invalid. Ensure to provide a valid request payload.")
		}
		if err := checkSupported("offer's content",
			sql.Lookup(bytes.TrimSpace(q.body), sql.Path{"content"}).AppendJSON(nil),
			"offerThroughput", "offerAutopilotSettings"); err != nil {
			return nil, err
		}
		if in.Content.Autopilot != nil {
			in.Content.Throughput = 0
		}
		if err := in.Content.check(); err != nil {
			return nil, err
		}
		var changed offer
		err := e.changeMeta(q.ctx, func(m *metaChange) error {
			o := m.cat.offers[id]
			if o == nil {
				return apierror.ResourceNotFound()
			}
			if err := checkIfMatch(q.get("If-Match"), o.ETag); err != nil {
				return err
			}
			changed = *o
			changed.Content, changed.Timestamp = in.Content, e.o.Clock().Unix()
			changed.ETag = quoteETag(layout.FormatETag(0, uint64(m.number()), 0, changed.Timestamp))
			m.cat.offers[id] = &changed
			return m.set(layout.MetaOffer, o.No, changed)
		})
		if err != nil {
			return nil, err
		}
		return changed.response(), nil
	}
	return nil, apierror.MethodNotAllowed()
}

func (o *offer) response() *response {
	return &response{status: http.StatusOK, body: o.body(), etag: o.ETag, charge: charge.Metadata, extra: []string{
		"X-Ms-Offer-Replace-Pending", "false",
		"X-Ms-Cosmos-Min-Throughput", strconv.Itoa(minThroughput),
	}}
}

// sortedByNo returns a map's values in order of creation.
func sortedByNo[T any](m map[string]T, no func(T) uint32) []T {
	all := make([]T, 0, len(m))
	for _, v := range m {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(no(a), no(b)) })
	return all
}
