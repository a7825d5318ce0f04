package enginetest

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// HoldDeletions fails the first query of every deleteUser job with 503, so that tests see the items that are
// stored between the mutation and the job.
func HoldDeletions(t policy.Transporter) policy.Transporter { return heldDeletions{t} }

type heldDeletions struct{ policy.Transporter }

func (h heldDeletions) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/query+json") ||
		!strings.HasSuffix(r.URL.Path, "/colls/posts/docs") {
		return h.Transporter.Do(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(`FROM c WHERE c.userId = @user"`)) {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable",
			Body: http.NoBody, Header: http.Header{}, Request: r}, nil
	}
	return h.Transporter.Do(r)
}
