package emulator

import (
	"net/http"
	"net/url"
	"strings"

	"byline/store/emulator/internal/apierror"
)

// route authenticates the request, checks it and dispatches it.
func (e *Engine) route(r *http.Request, body []byte, bodyErr error, from origin) (*response, error) {
	path, err := decodePath(r.URL, from.compute)
	if err != nil {
		return nil, err
	}
	signed, err := signedPath(r.URL, path, from.compute)
	if err != nil {
		return nil, err
	}
	resourceType, link := e.resolve(signed)
	q := &request{ctx: r.Context(), method: r.Method, header: r.Header, body: body, segments: path}
	if err := e.authenticate(q, resourceType, link); err != nil {
		return nil, err
	}
	if bodyErr != nil {
		return nil, bodyErr
	}
	if len(q.get("X-Ms-Session-Token")) > maxSessionToken {
		return nil, apierror.BadRequest("Request header too large.")
	}
	if err := q.checkHeaders(); err != nil {
		return nil, err
	}
	return e.dispatch(q, from.endpoint)
}

// itemSegments is the number of segments in the path of an item, maxSegments that of the longest path.
const (
	itemSegments = 6
	maxSegments  = itemSegments + 2 // an attachment
)

// decodePath returns the decoded segments of a path. The id of an item includes the query of the URL: @azure/cosmos
// sends an id with a question mark as it is, and signs all of it. decodePath refuses the ids that the gateway refuses.
func decodePath(u *url.URL, compute bool) ([]string, error) {
	segments := make([]string, 0, itemSegments)
	path := strings.TrimLeft(u.EscapedPath(), "/")
	if (u.RawQuery != "" || u.ForceQuery) && strings.Count(path, "/") == itemSegments-1 {
		path += "?" + u.RawQuery
	}
	for path = strings.TrimRight(path, "/"); path != ""; {
		var one string
		one, path, _ = strings.Cut(path, "/")
		decoded, err := url.PathUnescape(one)
		if err != nil || len(segments) == maxSegments {
			return nil, apierror.BadRequest("Request url is invalid.")
		}
		segments = append(segments, decoded)
	}
	if len(segments) == itemSegments && !compute {
		if err := checkGatewayID(segments[itemSegments-1]); err != nil {
			return nil, err
		}
	}
	return segments, nil
}

// checkGatewayID refuses the ids that the service's routing gateway cannot address: it decodes
// them differently from what the client signed.
func checkGatewayID(id string) error {
	if strings.ContainsAny(id, "\r\n\t") {
		return apierror.BadRequest("Request url is invalid.")
	}
	if strings.ContainsAny(id, `/\#`) || strings.HasSuffix(id, " ") {
		return apierror.Unauthorized("")
	}
	for i := 0; i+2 < len(id); i++ {
		if id[i] == '%' && isHex(id[i+1]) && isHex(id[i+2]) {
			return apierror.Unauthorized("")
		}
	}
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// resolve replaces the resource ids in a path by names. It returns the type of the resource and the link, which
// the client has signed.
func (e *Engine) resolve(path []string) (resourceType, link string) {
	resourceType, link = signedResource(path)
	if rid, ok := e.catalog.Load().resolveRIDs(path); ok {
		link = strings.ToLower(rid) // the only part that the client signs
	}
	return resourceType, link
}

// signedPath returns the path of the resource that a request is about, with the same array if it is the path of
// the URL itself.
func signedPath(u *url.URL, path []string, compute bool) ([]string, error) {
	switch {
	case len(path) == 1 && path[0] == "addresses": // direct mode: the addresses of a resource
		return decodePath(&url.URL{Path: u.Query().Get("$resolveFor")}, compute)
	case len(path) == itemSegments && path[4] == "operations": // on a container
		return path[:4], nil
	}
	return path, nil
}

// signedResource returns the type of the resource at a path of names and the link that the client signs: the
// path, or for a feed that of the parent.
func signedResource(path []string) (resourceType, link string) {
	n := len(path)
	switch {
	case n == 0: // the account
		return "", ""
	case n == 2 && path[0] == "offers":
		return path[0], strings.ToLower(path[1])
	case n%2 == 1:
		return path[n-1], strings.Join(path[:n-1], "/")
	}
	return path[n-2], strings.Join(path, "/")
}

// dispatch serves a request to the account at an endpoint.
func (e *Engine) dispatch(q *request, endpoint string) (*response, error) {
	n := len(q.segments)
	switch {
	case n == 0:
		if q.method != http.MethodGet {
			return nil, apierror.MethodNotAllowed()
		}
		return e.account(endpoint)
	case q.segments[0] == "offers" && n <= 2:
		return e.offers(q)
	case q.segments[0] != "dbs":
	case n == 1:
		return e.databases(q)
	case n == 2:
		return e.database(q)
	case q.segments[2] != "colls":
	case n == 3:
		return e.containers(q)
	case n == 4:
		return e.container(q)
	case n == 5 && q.segments[4] == "pkranges":
		return e.partitionKeyRanges(q)
	case n <= itemSegments && q.segments[4] == "docs":
		if err := e.background.enter(q); err != nil {
			return nil, err
		}
		defer q.leave()
		return e.items(q)
	}
	return nil, unsupportedResource(q.segments)
}

// unsupported are the resources that the service has and the engine has not, by their names in paths.
var unsupported = map[string]string{
	"addresses":            "Direct mode is not supported: use gateway mode.",
	"attachments":          "Attachments are not supported.",
	"clientencryptionkeys": "Client encryption keys are not supported.",
	"conflicts":            "Conflicts are not supported.",
	"media":                "Media are not supported.",
	"permissions":          "Permissions are not supported.",
	"pkranges":             "Reading one partition key range is not supported: list them.",
	"sprocs":               "Stored procedures are not supported.",
	"triggers":             "Triggers are not supported.",
	"udfs":                 "User-defined functions are not supported.",
	"users":                "Users are not supported.",
}

// unsupportedResource refuses a path that the engine does not serve, by the name of the resource.
func unsupportedResource(path []string) error {
	n := len(path)
	switch {
	case n == itemSegments && path[4] == "operations" && path[5] == "partitionkeydelete":
		return apierror.BadRequest("The deletion of all items of a partition key is not supported.")
	case n == itemSegments && path[4] == "operations":
		return apierror.BadRequest("The operation '%s' on a container is not supported.", path[5])
	}
	if message, ok := unsupported[path[(n-1)&^1]]; ok {
		return apierror.BadRequest("%s", message)
	}
	return apierror.BadRequest("Request url is invalid.")
}

// kind is a kind of request for items.
type kind int

// The kinds of requests for items. kindNone is one with a method that items do not have.
const (
	kindNone kind = iota
	kindRead
	kindCreate
	kindUpsert
	kindReplace
	kindPatch
	kindDelete
	kindBatch
	kindQuery
	kindChangeFeed
)

// classify returns the kind of a request for items.
func (r *request) classify() kind {
	n := len(r.segments)
	switch {
	case n == 6 && r.method == http.MethodGet:
		return kindRead
	case n == 6 && r.method == http.MethodPut:
		return kindReplace
	case n == 6 && r.method == http.MethodPatch:
		return kindPatch
	case n == 6 && r.method == http.MethodDelete:
		return kindDelete
	case n == 5 && r.method == http.MethodGet && r.get("A-Im") != "":
		return kindChangeFeed
	case n == 5 && r.method == http.MethodGet:
		return kindQuery
	case n != 5 || r.method != http.MethodPost:
		return kindNone
	case r.is("X-Ms-Cosmos-Is-Batch-Request"):
		return kindBatch
	case isQuery(r):
		return kindQuery
	case r.is("X-Ms-Documentdb-Is-Upsert"):
		return kindUpsert
	}
	return kindCreate
}
