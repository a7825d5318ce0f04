package graph

import (
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/maypok86/otter/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/store"
	"byline/store/cosmos"
)

// answers keeps what queries over HTTP were answered, and gives it again, before the
// document is so much as parsed, to whoever sends the same while nothing has changed of
// what was read for it. An answer for which a field asked who the viewer is, is given to
// them alone. None is kept that has errors, or that tells what it cost: those are
// executed, from what the store remembers.
type answers struct {
	store   *store.Store
	kept    *otter.Cache[question, *keptAnswer] // nil: none are
	metrics keptMetrics
	tracing tracing // without a tracer: none
}

// question is what is answered alike.
type question struct {
	asker string // "" for whoever asks
	text  string // as received
}

// askerOnly is the asker of what is answered to one viewer alone, who may be nobody.
func askerOnly(viewer string) string { return "viewer " + viewer }

// keptAnswer is an answer that went well.
type keptAnswer struct {
	body      []byte
	readSet   *cosmos.ReadSet
	tag       string  // if caches may have it; "" if they may not
	operation string  // its name
	predicted float64 // RU
}

const (
	maxQuestion     = 16 << 10 // bytes, of what is remembered
	answerBytes     = 600      // of memory, that an answer takes beside its question and body
	answerReadBytes = 100      // and for each read that it rests on
)

func newAnswers(o Options, m metrics, t tracing) *answers {
	a := &answers{store: o.Store, metrics: m.kept, tracing: t}
	if o.AnswerBytes > 0 {
		a.kept = otter.Must(&otter.Options[question, *keptAnswer]{
			MaximumWeight: uint64(o.AnswerBytes),
			Weigher: func(q question, k *keptAnswer) uint32 {
				return uint32(len(q.asker) + len(q.text) + len(k.operation) + cap(k.body) + answerBytes + answerReadBytes*k.readSet.Reads())
			},
		})
	}
	return a
}

// recall returns the answer to a question that was answered before, nil if there is none
// or it may have changed.
func (a *answers) recall(r *http.Request, in received) *keptAnswer {
	asker := requestFrom(r.Context())
	if a.kept == nil || asker.tally.detail != costUntold || len(in.text) > maxQuestion || a.store.Renamed(asker.session) != "" {
		return nil // or it may have an old name
	}
	if r.Method == http.MethodPost && strings.HasPrefix(in.text, "?") {
		return nil // it is no JSON, but may be what somebody asked by GET
	}
	k := a.find(question{"", in.text}, asker.session)
	if k == nil { // or it has become the viewer's own
		k = a.find(question{askerOnly(asker.viewer), in.text}, asker.session)
	}
	return k
}

// observe takes note of an answer that is given again.
func (a *answers) observe(r *http.Request, k *keptAnswer) {
	a.metrics.observe(time.Since(requestFrom(r.Context()).tally.began), k.predicted)
	if a.tracing.tracer != nil {
		_, span := a.tracing.operation(r.Context(), ast.Query, k.operation)
		traceCost(span, cost{PredictedRU: rounded(k.predicted)})
		span.End()
	}
}

// find returns what was answered to a question, nil if nothing was or it may have changed.
func (a *answers) find(q question, s *cosmos.Session) *keptAnswer {
	k, ok := a.kept.GetIfPresent(q)
	if !ok || !k.readSet.Valid(s) {
		return nil
	}
	return k
}

// keep returns the answer that a response is, and keeps it if it may; nil if it is none
// that went well.
func (a *answers) keep(r *http.Request, in received, response *graphql.Response) *keptAnswer {
	asker := requestFrom(r.Context())
	if asker.readSet == nil || response.Data == nil || len(response.Errors) > 0 {
		return nil
	}
	personal := asker.personal.Load()
	public := !personal && r.Method == http.MethodGet && r.URL.Query().Get("query") == "" // it named its document by hash or id
	k := &keptAnswer{body: encode(response), readSet: asker.readSet}
	if public {
		k.tag = tagOf(k.body)
	}
	if a.kept == nil || asker.registers || len(response.Extensions) > 0 || len(in.text) > maxQuestion {
		return k
	}
	q := question{text: in.text}
	if personal {
		q.asker = askerOnly(asker.viewer)
	}
	k.operation, k.predicted = asker.operation, asker.tally.prediction()
	a.kept.Set(q, k)
	return k
}

// write answers with it.
func (k *keptAnswer) write(w http.ResponseWriter, r *http.Request) {
	if k.tag != "" && asksInPublic(r) {
		if maxAge := publicMaxAge - k.readSet.Age(); maxAge >= time.Second {
			writePublic(w, r, k.body, k.tag, maxAge)
			return
		}
	}
	writeBody(w, http.StatusOK, k.body)
}
