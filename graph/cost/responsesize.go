package cost

import (
	"cmp"
	"fmt"

	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/fields"
	"byline/graph/limit"
	"byline/graph/refusal"
)

const defaultMaxBytes = 128 // of the value of a field: ids, cursors, names, numbers, and the braces of objects

// size is the predicted maximum size of a response.
type size struct {
	bytes float64    // in total
	ascii float64    // in total, if all texts are ASCII
	most  float64    // of the largest field
	field *fieldCost // the largest field
}

// add counts a field that is executed several times.
func (s *size) add(f *ast.Field, in *fieldCost, times float64) {
	text := fields.Lookup(f.ObjectDefinition.Name, f.Name).MaxBytes
	bytes := clamp(times * (float64(len(f.Alias)) + cmp.Or(text, defaultMaxBytes)))
	s.bytes = clamp(s.bytes + bytes)
	s.ascii = clamp(s.ascii + times*(float64(len(f.Alias))+cmp.Or(text/fields.TextBytes, defaultMaxBytes)))
	if bytes > s.most {
		s.most, s.field = bytes, &fieldCost{in: in, field: f}
	}
}

// refusal returns an error if the predicted response is too large: if it exceeds MaxResponse even if each character
// has one byte (ASCII), or exceeds it byFar times with the most bytes per character. Otherwise the operation executes,
// and encoding measures the response. The RU budget does not limit it: selecting a long text repeatedly costs no RU.
func (s *size) refusal() *refusal.Error {
	const byFar = 3
	total := s.ascii
	if total <= limit.MaxResponse {
		if total = s.bytes; total <= byFar*limit.MaxResponse {
			return nil
		}
	}
	path := s.path()
	return &refusal.Error{Code: refusal.QueryTooExpensive, Field: path, Message: fmt.Sprintf(
		"with full pages and long texts the response may have %.0f MB, more than the limit of %d MB; the largest "+
			"field is %s with %.0f MB: request smaller pages or fewer text fields",
		total/mb, limit.MaxResponse/mb, path, min(total, s.most)/mb)}
}

const mb = 1 << 20

// path returns the response path of the largest field.
func (s *size) path() string { return refusal.Truncate(s.field.path(), refusal.MaxMessage) }

// TooLarge returns the error of an operation whose response turned out to be too large although it was not predicted to
// be.
func (p Prediction) TooLarge() *refusal.Error {
	path := p.response.path()
	return &refusal.Error{Code: refusal.QueryTooExpensive, Field: path, Message: fmt.Sprintf(
		"the response has more than the limit of %d MB, or takes more memory than this server has for one; the "+
			"largest field is %s: request smaller pages or fewer text fields",
		limit.MaxResponse/mb, path)}
}
