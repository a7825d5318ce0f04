package cost

import (
	"context"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

type fieldKey struct{}

// WithField names the field that something is read for, by its *graphql.FieldContext or by its
// path, where ctx is not the context of that field.
func WithField(ctx context.Context, field any) context.Context {
	return context.WithValue(ctx, fieldKey{}, field)
}

// FieldOf returns the field that something is read for. A batch is read for the field that
// needed its first key.
func FieldOf(ctx context.Context) any {
	if field := ctx.Value(fieldKey{}); field != nil {
		return field
	}
	return graphql.GetFieldContext(ctx)
}

// pathOf returns the response path, without list indexes, of the field that something is read
// for.
func pathOf(ctx context.Context) string {
	of := FieldOf(ctx)
	if path, ok := of.(string); ok {
		return path
	}
	field, _ := of.(*graphql.FieldContext)
	var path strings.Builder
	for _, step := range field.Path() {
		if name, ok := step.(ast.PathName); ok {
			if path.Len() > 0 {
				path.WriteByte('.')
			}
			path.WriteString(string(name))
		}
	}
	return path.String()
}
