package cosmos

import (
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Headers of requests, in the form in which net/http keeps them.
const (
	headerQuery         = "X-Ms-Documentdb-Query"
	headerEnableScan    = "X-Ms-Documentdb-Query-Enable-Scan"
	headerModifiedSince = "If-Modified-Since"
	headerDate          = "X-Ms-Date"
)

// setHeaders is a policy, per call, that sets headers that azcosmos omits or gets wrong. It enables scans
// for queries: otherwise the service may refuse a filter on a path that is not indexed, according to its
// documentation. Times are in GMT (RFC 9110, section 5.6.7), not UTC.
func setHeaders(req *policy.Request) (*http.Response, error) {
	h := req.Raw().Header
	if h[headerQuery] != nil {
		h[headerEnableScan] = []string{"True"}
	}
	if since := h[headerModifiedSince]; since != nil {
		if date, ok := strings.CutSuffix(since[0], " UTC"); ok {
			h[headerModifiedSince] = []string{date + " GMT"}
		}
	}
	return req.Next()
}

// dateTries is a policy, per call, for sign-in with the account's key. It removes the date that azcosmos sets once per
// call, so that azcosmos dates and signs each try: the service refuses a date after 15 minutes, and background work
// may be throttled for longer.
func dateTries(req *policy.Request) (*http.Response, error) {
	delete(req.Raw().Header, headerDate)
	return req.Next()
}
