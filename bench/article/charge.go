package article

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Charges is a policy, per try, for the client that is measured: it adds up what the
// requests of a measurement are charged, those included that were tried again.
func Charges() policy.Policy { return charges{} }

type charges struct{}

// tally is what the requests of one measurement are charged, in request units.
type tally struct {
	mu    sync.Mutex
	calls []call // guarded by mu
}

type call struct {
	container string
	partition string // the header's text, in JSON; "" over partitions
	read      bool   // or query
	charge    float64
}

type tallyKey struct{}

// counted returns a context whose requests are added to a tally.
func counted(ctx context.Context) (context.Context, *tally) {
	t := &tally{}
	return context.WithValue(ctx, tallyKey{}, t), t
}

func (charges) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	t, ok := req.Raw().Context().Value(tallyKey{}).(*tally)
	if !ok || err != nil {
		return resp, err
	}
	charge, _ := strconv.ParseFloat(resp.Header.Get("x-ms-request-charge"), 64)
	_, container, _ := strings.Cut(req.Raw().URL.Path, "/colls/")
	container, _, _ = strings.Cut(container, "/")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, call{container: container, partition: req.Raw().Header.Get("x-ms-documentdb-partitionkey"),
		read:   req.Raw().Method == http.MethodGet || req.Raw().Header.Get("Content-Type") == "application/query+json",
		charge: charge})
	return resp, nil
}

// sum returns the charge of the calls that are, and of those that are not.
func (t *tally) sum(is func(call) bool) (of, others float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		if is(c) {
			of += c.charge
		} else {
			others += c.charge
		}
	}
	return of, others
}
