package graph

import (
	goast "go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every error with one of the codes that have several causes is made with a reason. Those of the views and of
// provisioning are for operators.
func TestErrors_HaveReasons(t *testing.T) {
	codes := []string{"BadUserInput", "Invalid", "Unauthenticated", "Forbidden", "Conflict", "LimitReached"}
	found := map[string]bool{}
	for _, root := range []string{".", "../store"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"projection", "emulator", "testdata"}, d.Name()):
				return filepath.SkipDir
			case d.IsDir() || d.Name() == "provision.go" || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			goast.Inspect(file, func(n goast.Node) bool {
				if set := errorFields(n); slices.Contains(codes, set["Code"]) {
					found[set["Code"]] = true
					if set["Reason"] == "" {
						t.Errorf("%s: an error with the code %s has no reason", files.Position(n.Pos()), set["Code"])
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, code := range codes {
		if !found[code] {
			t.Errorf("found no error with the code %s", code)
		}
	}
}

// errorFields returns the fields that a literal of a blog.Error or refusal.Error sets, and the last name of its code.
func errorFields(n goast.Node) map[string]string {
	literal, _ := n.(*goast.CompositeLit)
	if literal == nil {
		return nil
	}
	name, _ := literal.Type.(*goast.Ident)
	if of, ok := literal.Type.(*goast.SelectorExpr); ok {
		name = of.Sel
	}
	if name == nil || name.Name != "Error" {
		return nil
	}
	set := map[string]string{}
	for _, e := range literal.Elts {
		if e, ok := e.(*goast.KeyValueExpr); ok {
			value := "set"
			if of, ok := e.Value.(*goast.SelectorExpr); ok {
				value = of.Sel.Name
			} else if of, ok := e.Value.(*goast.Ident); ok {
				value = of.Name
			}
			set[e.Key.(*goast.Ident).Name] = value
		}
	}
	return set
}
