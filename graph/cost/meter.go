package cost

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"sync"

	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/refusal"
	"byline/store/blog"
	"byline/store/cosmos"
)

// Header requests the cost of an operation in extensions.cost.
const Header = "Byline-Cost"

// Detail is how much of the cost is reported.
type Detail int

const (
	None Detail = iota
	Summary
	Full
)

// ParseDetail parses the header Byline-Cost.
func ParseDetail(text string) (Detail, error) {
	switch text {
	case "", "none":
		return None, nil
	case "summary":
		return Summary, nil
	case "detail":
		return Full, nil
	}
	return None, refusal.Input(Header, blog.ReasonFormat, "must be summary, detail or none")
}

// Meter adds up what the operation of a request charges. It is safe for concurrent use. The
// zero value meters without reporting.
type Meter struct {
	Detail    Detail
	Payer     string // whose budget is charged: a viewer or an address; "": none
	SignedIn  bool   // the payer is a viewer
	RequestID string // for the log

	mu         sync.Mutex
	kind       ast.Operation // guarded by mu; "" until it is known
	predicted  float64       // guarded by mu; RU
	reserved   int           // guarded by mu; hundredths of an RU reserved from the payer's budget
	work       int           // guarded by mu; hundredths of an RU: what no request charges
	counted    bool          // guarded by mu; see CountLater
	waiting    bool          // guarded by mu; the next event waits for the payer's budget
	charged    bool          // guarded by mu; the payer's budget is charged
	response   Report        // guarded by mu; since the last response
	operations []Operation   // guarded by mu; since the last response, if they are reported
}

// Report is extensions.cost of a response.
type Report struct {
	PredictedRU Rounded      `json:"predictedRU"`
	ActualRU    Rounded      `json:"actualRU"`
	LaterRU     Rounded      `json:"laterRU,omitempty"`    // predicted for views and jobs after the response
	LaterItems  int          `json:"laterItems,omitempty"` // that a job writes
	Requests    int          `json:"requests"`             // to Cosmos DB
	Operations  *[]Operation `json:"operations,omitempty"` // nil in a summary
}

// Operation is an operation on Cosmos DB in a Report.
type Operation struct {
	Path         string          `json:"path"`
	Pattern      string          `json:"pattern"`
	Container    string          `json:"container"`
	Kind         string          `json:"kind"`
	PartitionKey json.RawMessage `json:"partitionKey,omitempty"`
	Range        string          `json:"range"`
	RU           Rounded         `json:"ru"`
	Ms           Rounded         `json:"ms"`
	Retries      int             `json:"retries"`
}

// Rounded is a number with two decimals in JSON.
type Rounded float64

// MarshalJSON implements json.Marshaler.
func (r Rounded) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(r)*100)/100, 'f', -1, 64), nil
}

// Record adds an operation on Cosmos DB. See cosmos.WithRecorder.
func (t *Meter) Record(ctx context.Context, o *cosmos.Operation) {
	var reported Operation
	if t.Detail == Full {
		reported = Operation{Path: pathOf(ctx), Pattern: string(o.Pattern), Container: o.Container,
			Kind:         string(o.Kind),
			PartitionKey: json.RawMessage(o.PartitionKey), Range: o.Range,
			RU: Rounded(o.RU), Ms: Rounded(o.Took.Seconds() * 1000), Retries: max(0, o.Tries-1)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.response.ActualRU += Rounded(o.RU)
	t.response.Requests += o.Tries
	if t.Detail == Full {
		t.operations = append(t.operations, reported)
	}
}

// predict records the kind of the operation and its predicted charge.
func (t *Meter) predict(kind ast.Operation, ru float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kind, t.predicted = kind, ru
}

// Prediction returns the predicted charge of the operation, in RU.
func (t *Meter) Prediction() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.predicted
}

// Spent returns the charge since the operation's last response, in RU to the hundredth.
func (t *Meter) Spent() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return math.Round(float64(t.response.ActualRU)*100) / 100
}

// reserve records that n hundredths of an RU have been taken from the budget in advance. Of these, work hundredths are
// for the work of this server, for which Cosmos DB charges nothing.
func (t *Meter) reserve(n, work int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved, t.work, t.charged = n, min(n, work), true
}

// AddWork adds work of this server, in RU, that was not predicted.
func (t *Meter) AddWork(ru float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.work += hundredths(ru)
}

// AddLater adds what views and a job of so many items are predicted to charge after the response.
func (t *Meter) AddLater(ru float64, items int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.response.LaterRU += Rounded(ru)
	t.response.LaterItems += items
}

// CountLater reports, once, whether to count what a mutation writes later: that may cost as much as the mutation.
func (t *Meter) CountLater() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.counted
	t.counted = true
	return first
}

// wait records whether an event waits for the budget, and reports whether the one before did not.
func (t *Meter) wait(is bool) (began bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	began = is && !t.waiting
	t.waiting = is
	return began
}

// settled reports whether the budget is charged and nothing is reserved.
func (t *Meter) settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.charged && t.reserved == 0
}

// settle returns what is reserved, once, and what is spent for work; ok reports whether the budget is charged.
func (t *Meter) settle() (reserved, work int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	reserved, work = t.reserved, t.work
	t.reserved, t.work = 0, 0
	return reserved, work, t.charged
}

// Take returns the kind of the operation, "" if it is unknown, and the cost since the last
// response.
func (t *Meter) Take() (ast.Operation, Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.response
	c.PredictedRU = Rounded(t.predicted)
	if t.Detail == Full {
		operations := append([]Operation{}, t.operations...)
		c.Operations = &operations
	}
	t.response, t.operations = Report{}, t.operations[:0]
	return t.kind, c
}
