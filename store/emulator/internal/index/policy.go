package index

import (
	"encoding/json"
	"slices"
	"strings"

	"byline/store/emulator/internal/apierror"
)

// Policy is the protocol's indexing policy.
type Policy struct {
	Mode      string            `json:"indexingMode"`
	Automatic *bool             `json:"automatic"` // nil until complete
	Included  []indexPath       `json:"includedPaths"`
	Excluded  []indexPath       `json:"excludedPaths"`
	Composite [][]compositePath `json:"compositeIndexes,omitempty"`
	Spatial   json.RawMessage   `json:"spatialIndexes,omitempty"`
	Vector    json.RawMessage   `json:"vectorIndexes,omitempty"`
	FullText  []textIndexPath   `json:"fullTextIndexes,omitempty"`
}

type indexPath struct {
	Path    string          `json:"path"`
	Indexes json.RawMessage `json:"indexes,omitempty"`
}

type compositePath struct {
	Path  string `json:"path"`
	Order string `json:"order,omitempty"`
}

const etagPath = `/"_etag"/?`

// Limits of the service on an indexing policy.
const (
	maxPolicyPaths      = 1500 // included, and the same number excluded
	maxComposites       = 100
	maxCompositeColumns = 8
)

// Complete sets the service's defaults and checks the policy.
func (p *Policy) Complete() error {
	p.Mode = strings.ToLower(p.Mode)
	if p.Mode == "" {
		p.Mode = "consistent"
	}
	if p.Automatic == nil {
		automatic := p.Mode != "none"
		p.Automatic = &automatic
	}
	if p.Included == nil {
		p.Included = []indexPath{}
	}
	if p.Excluded == nil {
		p.Excluded = []indexPath{}
	}
	if p.Mode == "none" {
		return nil
	}
	if p.Mode != "consistent" && p.Mode != "lazy" {
		return apierror.BadRequest("The indexing mode '%s' is invalid.", p.Mode)
	}
	if !*p.Automatic { // the items of such a container are in no index, unless their writes ask for it
		return apierror.BadRequest(
			"The indexing policy's 'automatic' false is not supported with the indexing mode '%s'.", p.Mode)
	}
	isRoot := func(i indexPath) bool { return i.Path == "/*" || i.Path == "/" }
	if !slices.ContainsFunc(p.Included, isRoot) && !slices.ContainsFunc(p.Excluded, isRoot) {
		if len(p.Included) > 0 {
			return apierror.BadRequest(
				`The special mandatory indexing path "/" is not provided in any of the path type sets. Please provide this path in one of the sets.`)
		}
		p.Included = append(p.Included, indexPath{Path: "/*"})
	}
	isETag := func(i indexPath) bool { return i.Path == etagPath }
	if !slices.ContainsFunc(p.Included, isETag) && !slices.ContainsFunc(p.Excluded, isETag) {
		p.Excluded = append(p.Excluded, indexPath{Path: etagPath})
	}
	if len(p.Included) > maxPolicyPaths || len(p.Excluded) > maxPolicyPaths {
		return apierror.BadRequest("An indexing policy can't have more than %d included or excluded paths.",
			maxPolicyPaths)
	}
	if len(p.Composite) > maxComposites {
		return apierror.BadRequest("An indexing policy can't have more than %d composite indexes.", maxComposites)
	}
	for _, columns := range p.Composite {
		if len(columns) < 2 || len(columns) > maxCompositeColumns {
			return apierror.BadRequest("A composite index must have from 2 to %d paths.", maxCompositeColumns)
		}
		for i := range columns {
			switch c := &columns[i]; strings.ToLower(c.Order) {
			case "", "ascending":
				c.Order = "ascending"
			case "descending":
				c.Order = "descending"
			default:
				return apierror.BadRequest("The order '%s' of a composite index is invalid.", c.Order)
			}
		}
	}
	return nil
}
