package graph

import (
	"fmt"

	"github.com/vektah/gqlparser/v2/ast"
)

// maxAnswer is the length that an answer may be predicted to have, in bytes: whole
// answers are in memory, and what repeats a long text costs Cosmos DB nothing.
const maxAnswer = 32 << 20

// longest is how many bytes the values of a field may have, by type: that of ASCII
// texts of as many characters as are allowed.
var longest = map[string]map[string]float64{
	"Post":    {"title": 200, "excerpt": 280, "content": 100_000},
	"Comment": {"content": 10_000},
}

const longestOther = 128 // of ids, cursors, names, numbers, and the braces of objects

// size is what fields add to an answer.
type size struct {
	bytes float64 // of all
	most  float64 // of the longest field
	field *fieldCost
}

// add counts a field that is executed so many times.
func (s *size) add(f *ast.Field, in *fieldCost, times float64) {
	value, ok := longest[f.ObjectDefinition.Name][f.Name]
	if !ok {
		value = longestOther
	}
	bytes := bearable(times * (float64(len(f.Alias)) + value))
	s.bytes = bearable(s.bytes + bytes)
	if bytes > s.most {
		s.most, s.field = bytes, &fieldCost{in: in, field: f}
	}
}

// refusal refuses operations whose answer may be too long; nil for all others.
func (s *size) refusal() *refusal {
	if s.bytes <= maxAnswer {
		return nil
	}
	const mb = 1 << 20
	path := bounded(s.field.path(), maxMessage)
	return &refusal{code: queryTooExpensive, field: path, message: fmt.Sprintf(
		"with full pages and long texts the response may have %.0f MB, more than the limit of %d MB; the largest field is %s with %.0f MB: request smaller pages or fewer text fields",
		s.bytes/mb, maxAnswer/mb, path, s.most/mb)}
}
