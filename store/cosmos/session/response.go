package session

import "net/http"

// Header is the header of session tokens.
const Header = "X-Ms-Session-Token"

// Substatus is the substatus of a 404 if no replica has reached the session token of the request.
const Substatus = "1002"

// IsBehind reports whether no replica has reached the session token of the request, so that the item may exist.
func IsBehind(r *http.Response) bool {
	return r.StatusCode == http.StatusNotFound && r.Header.Get("X-Ms-Substatus") == Substatus
}

// Parse parses the session token of a response of one partition key range: the id of the range, the version of the
// account's regions, which is -1 if the account has one region, and the LSN.
func Parse(token string) (rangeID uint64, version, lsn int64, ok bool) {
	r, ok := parseRange(token)
	return r.id, r.version, r.lsn, ok
}
