package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
)

// mutant is one change of a source file.
type mutant struct {
	file     string // absolute
	line     int
	from, to int // offsets of the replaced text
	text     string
	change   string // for the report
}

// apply returns the changed source.
func (m mutant) apply(source []byte) []byte {
	return []byte(string(source[:m.from]) + m.text + string(source[m.to:]))
}

// swapped are the operators that replace each other.
var swapped = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
	token.BREAK: token.CONTINUE, token.CONTINUE: token.BREAK,
}

// mutantsOf returns all mutants of a file; none of a generated one. Some may not compile.
func mutantsOf(file string) ([]mutant, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.ParseComments)
	if err != nil || ast.IsGenerated(parsed) {
		return nil, err
	}
	f := &mutator{file: file, source: string(source), at: fset.Position}
	ast.Walk(scope{f, nil}, parsed)
	return f.mutants, nil
}

type mutator struct {
	file, source string
	at           func(token.Pos) token.Position
	mutants      []mutant
}

// scope visits the nodes of a function.
type scope struct {
	*mutator
	function *ast.FuncType // nil outside of functions
}

// Visit implements ast.Visitor.
func (s scope) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.ImportSpec, *ast.ArrayType:
		return nil
	case *ast.FuncDecl:
		return scope{s.mutator, n.Type}
	case *ast.FuncLit:
		return scope{s.mutator, n.Type}
	case *ast.BlockStmt:
		s.remove(n.List)
	case *ast.CaseClause:
		s.remove(n.Body)
		s.negateCases(n)
	case *ast.CommClause:
		s.remove(n.Body)
	case *ast.IfStmt:
		s.negate(n.Cond)
	case *ast.ForStmt:
		s.negate(n.Cond)
	case *ast.BinaryExpr:
		s.swap(n.OpPos, n.Op)
	case *ast.BranchStmt:
		s.swap(n.TokPos, n.Tok)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			s.replace(n, s.text(n.X))
		}
	case *ast.BasicLit:
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil && n.Kind == token.INT {
			s.replace(n, strconv.FormatInt(i+1, 10))
		}
	case *ast.Ident:
		if opposite := map[string]string{"true": "false", "false": "true"}[n.Name]; opposite != "" {
			s.replace(n, opposite)
		}
	case *ast.ReturnStmt:
		s.returnNil(n)
	}
	return s
}

func (s scope) text(n ast.Node) string {
	return s.source[s.at(n.Pos()).Offset:s.at(n.End()).Offset]
}

// add adds the mutant that replaces the text between two positions.
func (s scope) add(from, to token.Pos, text, change string) {
	begin, end := s.at(from), s.at(to)
	s.mutator.mutants = append(s.mutator.mutants, mutant{s.file, begin.Line, begin.Offset, end.Offset, text, change})
}

func (s scope) replace(n ast.Node, text string) {
	s.add(n.Pos(), n.End(), text, brief(s.text(n))+" -> "+brief(text))
}

func (s scope) swap(at token.Pos, operator token.Token) {
	if other, ok := swapped[operator]; ok {
		s.add(at, at+token.Pos(len(operator.String())), other.String(), fmt.Sprintf("%v -> %v", operator, other))
	}
}

// negate adds the opposite of a condition, unless another mutant is the same.
func (s scope) negate(condition ast.Expr) {
	switch c := condition.(type) {
	case nil:
		return
	case *ast.BinaryExpr:
		if c.Op == token.EQL || c.Op == token.NEQ {
			return
		}
	case *ast.UnaryExpr:
		return
	}
	s.replace(condition, "!("+s.text(condition)+")")
}

// negateCases negates what can only be a condition; a case of a switch with a tag may be one, too.
func (s scope) negateCases(c *ast.CaseClause) {
	for _, condition := range c.List {
		switch e := condition.(type) {
		case *ast.BinaryExpr, *ast.CallExpr:
			s.negate(e)
		}
	}
}

// remove removes statements that a function may compile without.
func (s scope) remove(statements []ast.Stmt) {
	for _, statement := range statements {
		switch n := statement.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
		default:
			continue
		}
		s.add(statement.Pos(), statement.End(), "", "removed "+brief(s.text(statement)))
	}
}

// returnNil replaces a returned error by nil.
func (s scope) returnNil(n *ast.ReturnStmt) {
	if s.function == nil || s.function.Results == nil {
		return
	}
	results := s.function.Results.List
	t, ok := results[len(results)-1].Type.(*ast.Ident)
	if !ok || t.Name != "error" || len(n.Results) != s.function.Results.NumFields() {
		return
	}
	if last := n.Results[len(n.Results)-1]; s.text(last) != "nil" {
		s.replace(last, "nil")
	}
}

// brief returns a text in one line of limited length.
func brief(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:57]) + "..."
	}
	return text
}
