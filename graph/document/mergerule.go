package document

import (
	"fmt"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/core"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// mergeRule is "Field Selection Merging" (GraphQL, section 5.3.2): fields with the
// same response name must be mergeable into one. The specification compares them in
// pairs, and again for each pair of their parents. But a pair must be equal, so it is
// enough to compare each field with the first, and the selections of all of them
// together.
//
// It relies on documentLimit: no fragment spreads itself, and there are not many more
// than MaxSpread selections. It reports one conflict of each operation.
var mergeRule = core.Rule{
	Name: rules.OverlappingFieldsCanBeMergedRule.Name,
	RuleFunc: func(observers *core.Events, addError core.AddErrFunc) {
		observers.OnOperation(func(w *core.Walker, operation *ast.OperationDefinition) {
			m := merging{schema: w.Schema}
			all := []ast.SelectionSet{operation.SelectionSet}
			if m.sameFields(all); m.conflict == nil {
				m.sameShapes(all)
			}
			if c := m.conflict; c != nil {
				addError(core.Message(
					"Fields %q conflict because %s. Use different aliases on the fields to fetch both if this was "+
						"intentional.",
					responseName(c.field), c.reason), core.At(c.field.Position))
			}
		})
	},
}

type merging struct {
	schema   *ast.Schema
	conflict *mergeConflict // the first one; nil: none
}

type mergeConflict struct {
	field  *ast.Field // the later of the two
	reason string
}

// sameFields finds fields that may be of the same object and have the same response
// name, but are not the same field with the same arguments.
func (m *merging) sameFields(sets []ast.SelectionSet) {
	for _, named := range byResponseName(sets) {
		for _, fields := range byParent(named) {
			first := fields[0]
			for _, f := range fields[1:] {
				switch {
				case f.Name != first.Name:
					m.found(f, "%q and %q are different fields", first.Name, f.Name)
				case !sameArguments(f.Arguments, first.Arguments):
					m.found(f, "they have differing arguments")
				}
			}
			if m.conflict == nil {
				m.sameFields(selections(fields))
			}
			if m.conflict != nil {
				return
			}
		}
	}
}

// byParent groups fields that may belong to the same object: fields of the same object
// type, with all fields of interfaces and unions.
func byParent(fields []*ast.Field) [][]*ast.Field {
	var classes [][]*ast.Field
	var abstract []*ast.Field
	at := map[*ast.Definition]int{}
	for _, f := range fields {
		parent := f.ObjectDefinition
		if parent == nil || parent.Kind != ast.Object {
			abstract = append(abstract, f)
			continue
		}
		i, known := at[parent]
		if !known {
			i = len(classes)
			at[parent], classes = i, append(classes, nil)
		}
		classes[i] = append(classes[i], f)
	}
	if abstract == nil {
		return classes
	}
	for i := range classes {
		classes[i] = append(slices.Clip(abstract), classes[i]...)
	}
	if classes == nil {
		classes = [][]*ast.Field{abstract}
	}
	return classes
}

// sameShapes finds fields with the same response name whose values have different types,
// even if no object has both.
func (m *merging) sameShapes(sets []ast.SelectionSet) {
	for _, fields := range byResponseName(sets) {
		first := fields[0]
		for _, f := range fields[1:] {
			if f.Definition != nil && first.Definition != nil &&
				!m.sameShape(f.Definition.Type, first.Definition.Type) {
				m.found(f, "they return conflicting types %q and %q", first.Definition.Type, f.Definition.Type)
			}
		}
		if m.conflict == nil {
			m.sameShapes(selections(fields))
		}
		if m.conflict != nil {
			return
		}
	}
}

func (m *merging) sameShape(a, b *ast.Type) bool {
	if a.NonNull != b.NonNull || (a.Elem == nil) != (b.Elem == nil) {
		return false
	}
	if a.Elem != nil {
		return m.sameShape(a.Elem, b.Elem)
	}
	if a.NamedType == b.NamedType {
		return true
	}
	x, y := m.schema.Types[a.NamedType], m.schema.Types[b.NamedType]
	return x != nil && y != nil && x.IsCompositeType() && y.IsCompositeType()
}

func (m *merging) found(f *ast.Field, format string, args ...any) {
	if m.conflict == nil {
		m.conflict = &mergeConflict{f, fmt.Sprintf(format, args...)}
	}
}

// byResponseName groups the fields of selection sets by their response name, in the order of
// the document. Each fragment is expanded once.
func byResponseName(sets []ast.SelectionSet) [][]*ast.Field {
	var groups [][]*ast.Field
	at := map[string]int{}
	spread := map[*ast.FragmentDefinition]bool{}
	var collect func(ast.SelectionSet)
	collect = func(set ast.SelectionSet) {
		for _, selected := range set {
			switch s := selected.(type) {
			case *ast.Field:
				name := responseName(s)
				i, known := at[name]
				if !known {
					i = len(groups)
					at[name], groups = i, append(groups, nil)
				}
				groups[i] = append(groups[i], s)
			case *ast.InlineFragment:
				collect(s.SelectionSet)
			case *ast.FragmentSpread:
				if s.Definition != nil && !spread[s.Definition] {
					spread[s.Definition] = true
					collect(s.Definition.SelectionSet)
				}
			}
		}
	}
	for _, set := range sets {
		collect(set)
	}
	return groups
}

func responseName(f *ast.Field) string {
	if f.Alias != "" {
		return f.Alias
	}
	return f.Name
}

func selections(fields []*ast.Field) []ast.SelectionSet {
	var sets []ast.SelectionSet
	for _, f := range fields {
		if len(f.SelectionSet) > 0 {
			sets = append(sets, f.SelectionSet)
		}
	}
	return sets
}

// sameArguments reports whether two fields have the same arguments, in any order.
func sameArguments(a, b ast.ArgumentList) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if y := b.ForName(x.Name); y == nil || !sameValue(x.Value, y.Value) {
			return false
		}
	}
	return true
}

// sameValue compares literals. The fields of an object may be in any order.
func sameValue(a, b *ast.Value) bool {
	if a.Kind != b.Kind || a.Raw != b.Raw || len(a.Children) != len(b.Children) {
		return false
	}
	for i, x := range a.Children {
		y := b.Children[i].Value
		if a.Kind == ast.ObjectValue {
			y = b.Children.ForName(x.Name)
		}
		if y == nil || !sameValue(x.Value, y) {
			return false
		}
	}
	return true
}
