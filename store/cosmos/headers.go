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

const (
	contentPathHeader = "X-Ms-Content-Path" // the container's resource id
	substatusHeader   = "X-Ms-Substatus"
	retryAfterHeader  = "X-Ms-Retry-After-Ms"
	activityHeader    = "X-Ms-Activity-Id"
	partitionHeader   = "X-Ms-Documentdb-Partitionkey"
	rangeHeader       = "X-Ms-Documentdb-Partitionkeyrangeid"
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

// containerPath returns the path of the container whose items a request is for, "" for other requests.
func containerPath(path string) string {
	if container, what := splitPath(path); what == "docs" {
		return container
	}
	return ""
}

// splitPath returns the path of the container that a request is for, and the next path element, such as
// "docs" for its items; "" for other requests.
func splitPath(path string) (container, what string) {
	start := strings.Index(path, "/dbs/") // an account may have a path of its own
	if start < 0 {
		return "", ""
	}
	end := start
	for range 4 { // /dbs/<name>/colls/<name>
		next := strings.IndexByte(path[end+1:], '/')
		if next < 0 {
			return "", ""
		}
		end += 1 + next
	}
	what, _, _ = strings.Cut(path[end+1:], "/")
	return path[start:end], what
}
