package cosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// ErrMultiRegionWrites reports an account with multi-region writes, which is not supported.
var ErrMultiRegionWrites = errors.New("the account has multi-region writes: conditions, unique names and leases hold within one region only, and of conflicting writes one is lost. Use an account with a single write region")

// properties are the properties of an account that this package uses ("Get database account").
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
		s.log.Error("account has changed", "error", ErrMultiRegionWrites)
	}
	return resp, nil
}

// isPropertiesRequest reports whether a request is for the account's properties.
func isPropertiesRequest(r *http.Request) bool { return strings.Trim(r.URL.Path, "/") == "" }

// multipleWrites reports whether the account writes in several regions. A request must have been made.
func (s *shared) multipleWrites() bool {
	p := s.properties.Load()
	return p != nil && p.MultipleWrites
}

// compareRegions returns the regions in Options.Regions that the account does not have. A request must
// have been made.
func (s *shared) compareRegions() (all []Difference) {
	p := s.properties.Load()
	if p == nil {
		return nil
	}
	var readable []string
	for _, r := range p.Readable {
		readable = append(readable, r.Name)
	}
	for _, name := range s.regions {
		if !slices.ContainsFunc(readable, func(have string) bool { return plainRegion(have) == plainRegion(name) }) {
			all = append(all, Difference{Property: "regions", Text: fmt.Sprintf("the account cannot be read in the preferred region %s, only in %s", name, strings.Join(readable, ", "))})
		}
	}
	return all
}

// plainRegion returns a region's name as azcosmos compares it: "West US" is "westus".
func plainRegion(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}
