package cosmos

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// failAmbiguous is a policy, per try, for requests. A write whose outcome is unknown (a broken
// connection, a gateway timeout) is ambiguous. azcore would repeat it; this policy returns a final error:
// an increment could count twice, and a condition that held the first time could fail. The caller reads
// the outcome instead (see Error.Ambiguous).
type failAmbiguous struct{}

// ambiguous are the statuses after which the outcome of a write is unknown.
var ambiguous = []int{http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// Do implements policy.Policy.
func (failAmbiguous) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if !isWrite(req.Raw()) {
		return resp, err
	}
	if err == nil && slices.Contains(ambiguous, resp.StatusCode) {
		err = runtime.NewResponseError(resp)
	}
	if err != nil {
		return nil, finalError{err}
	}
	return resp, nil
}

// isWrite reports whether a request changes items; a POST may also be a query.
func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	case http.MethodPost:
		return !strings.HasPrefix(r.Header.Get("Content-Type"), "application/query+json")
	}
	return false
}

// writeError returns the error of a write as an *Error. After an ambiguous write, the session token of
// the write is missing, so writeError fetches the partition's newest with a batch, which is executed
// where writes are. A later read of the outcome then waits for a replica that has the write.
func (c *Container) writeError(ctx context.Context, partition string, err error) error {
	if err == nil {
		return nil
	}
	e := ErrorOf(err)
	if e.Ambiguous() && ctx.Err() == nil {
		b := Batch{NoItems: true}
		b.Read(partition)                                     // the item need not exist
		_, _ = c.execute(WithWrites(ctx, nil), partition, &b) // not counted as a write
	}
	return e
}
