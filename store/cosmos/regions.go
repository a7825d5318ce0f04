package cosmos

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// ErrMultiRegionWrites reports an account with multi-region writes, which is not supported.
var ErrMultiRegionWrites = errors.New(
	"the account has multi-region writes: conditions, unique names and leases hold within one region only, and of " +
		"conflicting writes one is lost. Use an account with a single write region")

// Properties are the properties of an account that matter to requests.
type Properties struct {
	MultipleWrites bool                      // it writes in several regions
	Consistency    azcosmos.ConsistencyLevel // the default
	Regions        []string                  // in which it can be read
	Preferred      []string                  // Options.Regions
}

// Properties returns the account's properties, as azcosmos has requested them last; the zero value before the first
// request.
func (a *Account) Properties() Properties {
	p := a.properties.Load()
	if p == nil {
		return Properties{}
	}
	all := Properties{MultipleWrites: p.MultipleWrites, Consistency: p.Consistency.Level, Preferred: a.regions}
	for _, r := range p.Readable {
		all.Regions = append(all.Regions, r.Name)
	}
	return all
}

// properties are the properties of an account as the service sends them ("Get database account").
type properties struct {
	MultipleWrites bool     `json:"enableMultipleWriteLocations"`
	Readable       []region `json:"readableLocations"`
	Consistency    struct {
		Level azcosmos.ConsistencyLevel `json:"defaultConsistencyLevel"`
	} `json:"userConsistencyPolicy"`
}

type region struct {
	Name     string `json:"name"`
	Endpoint string `json:"databaseAccountEndpoint"`
}

// regionOf returns the name of the region that a host serves, "" if it is not known.
func (s *shared) regionOf(host string) string {
	if p := s.properties.Load(); p != nil {
		for _, r := range p.Readable {
			if u, err := url.Parse(r.Endpoint); err == nil && u.Host == host {
				return r.Name
			}
		}
	}
	return ""
}

// fetchProperties sends a request for the account's properties, and stores the response. azcosmos makes
// one before its first request, and one every few minutes.
func (s *shared) fetchProperties(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := runtime.Payload(resp) // azcosmos can read it again
	if err != nil {
		return nil, err
	}
	var p properties
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	if before := s.properties.Swap(&p); before != nil && !before.MultipleWrites && p.MultipleWrites {
		s.log.Error("account has changed", logError, ErrMultiRegionWrites)
	}
	return resp, nil
}

// isPropertiesRequest reports whether a request is for the account's properties.
func isPropertiesRequest(r *http.Request) bool { return strings.Trim(r.URL.Path, "/") == "" }
