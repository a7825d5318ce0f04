package limit

import (
	"byline/graph/refusal"
)

// PerNetwork is how many times the requests and subscriptions of an address an IPv6 /48 network may
// have.
const PerNetwork = 8

// Requests limits the requests per second of viewers, of addresses, and of networks of addresses.
// The zero value has no limits.
type Requests struct{ viewers, addresses, networks *Rate }

// NewRequests returns limits in requests per second; 0 is no limit.
func NewRequests(perViewer, perAddress int) Requests {
	return Requests{NewRate(perViewer), NewRate(perAddress), NewRate(PerNetwork * perAddress)}
}

// AdmitAddress counts a request of an address, before any of it is read. "" is not limited.
func (l Requests) AdmitAddress(key string) error {
	if key == "" || l.addresses == nil {
		return nil
	}
	if err := admit(l.addresses, key, "too many requests from this address; try again later"); err != nil {
		return err
	}
	return admit(l.networks, Network(key), "too many requests from this network; try again later")
}

// AdmitViewer counts a request of a viewer. "" is not limited.
func (l Requests) AdmitViewer(id string) error {
	return admit(l.viewers, id, "too many requests from this user; try again later")
}

func admit(rate *Rate, key, message string) error {
	if key == "" {
		return nil
	}
	if wait := rate.Take(key, 1); wait > 0 {
		return &refusal.Error{Code: refusal.Throttled, Message: message, RetryAfter: wait}
	}
	return nil
}
