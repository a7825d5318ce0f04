package sql

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden runs testdata/*.txt. A file is a list of blocks: a command with
// arguments, its input, a line of four dashes, the output, an empty line.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			g := &golden{}
			out := g.run(t, string(in))
			if *update {
				if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(in), "\n"), strings.Split(out, "\n")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

type golden struct {
	docs [][]byte
}

func (g *golden) run(t *testing.T, text string) string {
	var out strings.Builder
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		i++
		if line == "" || strings.HasPrefix(line, "#") {
			if i < len(lines) || line != "" {
				out.WriteString(line + "\n")
			}
			continue
		}
		from := i
		for i < len(lines) && lines[i] != "----" {
			i++
		}
		if i == len(lines) {
			t.Fatalf("%q has no output", line)
		}
		input := lines[from:i]
		for i++; i < len(lines) && lines[i] != ""; i++ {
		}
		args := strings.Fields(line)
		fmt.Fprintf(&out, "%s\n%s----\n", line, joined(input))
		out.WriteString(g.command(t, args[0], args[1:], input))
	}
	return out.String()
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

func (g *golden) command(t *testing.T, name string, args, input []string) string {
	var params []Param
	var rest []string
	for _, line := range input {
		if name, value, ok := strings.Cut(line, " := "); ok && name[0] == '@' {
			params = append(params, Param{name, []byte(value)})
		} else if !strings.HasPrefix(line, "#") {
			rest = append(rest, line)
		}
	}
	var out strings.Builder
	switch name {
	case "docs":
		g.docs = nil
		for _, line := range rest {
			g.docs = append(g.docs, []byte(line))
		}
	case "eval":
		for _, line := range rest {
			fmt.Fprintf(&out, "%s\n", g.eval(line, params))
		}
	case "match":
		for _, line := range rest {
			fmt.Fprintf(&out, "%s\n", g.match(line, params))
		}
	case "error":
		for _, line := range rest {
			out.WriteString(errorOf(line, params) + "\n")
		}
	case "condition":
		for _, line := range rest {
			q, err := ParseCondition(line)
			if err != nil {
				fmt.Fprintf(&out, "%v\n", err)
				continue
			}
			b, err := q.Bind(params)
			if err != nil {
				fmt.Fprintf(&out, "%v\n", err)
				continue
			}
			ok, err := b.Matches(g.docs[0])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%v\n", ok)
		}
	case "query":
		out.WriteString(joined(g.query(strings.Join(rest, "\n"), params)))
	case "plan":
		for _, line := range rest {
			out.WriteString(plan(line, params, args))
		}
	default:
		t.Fatalf("unknown command %q", name)
	}
	return out.String()
}

func bind(text string, params []Param) (*Bound, error) {
	q, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return q.Bind(params)
}

func errorOf(text string, params []Param) string {
	if _, err := bind(text, params); err != nil {
		e := err.(*Error)
		return fmt.Sprintf("%d-%d %s", e.Pos, e.End, e.Message)
	}
	return "ok"
}

func (g *golden) eval(text string, params []Param) string {
	b, err := bind("SELECT VALUE "+text+" FROM c", params)
	if err != nil {
		return err.Error()
	}
	row, ok, err := project(b, nil, g.docs[0])
	if err != nil {
		return err.Error()
	}
	if !ok {
		return "undefined"
	}
	return string(row)
}

func (g *golden) match(text string, params []Param) string {
	b, err := bind("SELECT * FROM c WHERE "+text, params)
	if err != nil {
		return err.Error()
	}
	var ids []string
	for _, doc := range g.docs {
		if ok, err := b.Matches(doc); err != nil {
			return err.Error()
		} else if ok {
			ids = append(ids, Lookup(doc, Path{"id"}).String())
		}
	}
	return "[" + strings.Join(ids, " ") + "]"
}

// query runs a query over docs, like the engine.
func (g *golden) query(text string, params []Param) []string {
	b, err := bind(text, params)
	if err != nil {
		return []string{err.Error()}
	}
	var docs, rows [][]byte
	for _, doc := range g.docs {
		if ok, err := b.Matches(doc); err != nil {
			return []string{err.Error()}
		} else if ok {
			docs = append(docs, doc)
		}
	}
	slices.SortStableFunc(docs, func(x, y []byte) int {
		for _, o := range b.OrderBy() {
			if c := Compare(Lookup(x, o.Path), Lookup(y, o.Path)); c != 0 {
				if o.Desc {
					return -c
				}
				return c
			}
		}
		return 0
	})
	if b.Aggregates() {
		a := b.NewAggregation()
		for _, doc := range docs {
			buf := bytes.Clone(doc)
			var order []byte
			for _, o := range b.OrderBy() {
				at := len(order)
				order = AppendKey(order, Lookup(doc, o.Path))
				for i := at; o.Desc && i < len(order); i++ {
					order[i] = ^order[i]
				}
			}
			if err := a.Add(buf, order); err != nil {
				return []string{err.Error()}
			}
			clear(buf) // the Aggregation must not retain it
		}
		if err := a.Rows(context.Background(), nil, func(row, _ []byte) bool {
			rows = append(rows, bytes.Clone(row))
			return true
		}); err != nil {
			return []string{err.Error()}
		}
	} else {
		for _, doc := range docs {
			row, ok, err := project(b, nil, doc)
			if err != nil {
				return []string{err.Error()}
			}
			if ok {
				rows = append(rows, row)
			}
		}
	}
	if offset, limit, ok := b.OffsetLimit(); ok {
		rows = rows[min(offset, len(rows)):]
		rows = rows[:min(limit, len(rows))]
	}
	if n, ok := b.Top(); ok {
		rows = rows[:min(n, len(rows))]
	}
	var out []string
	for _, row := range rows {
		out = append(out, string(row))
	}
	return out
}

// plan prints the analysis of a query for the paths in args.
func plan(text string, params []Param, args []string) string {
	b, err := bind(text, params)
	if err != nil {
		return err.Error() + "\n"
	}
	var out strings.Builder
	var paths, eq []Path
	var rng Path
	for _, arg := range args {
		p := Path(strings.Split(arg, ".")[1:])
		paths = append(paths, p)
		if v, ok := b.Equal(p); ok {
			fmt.Fprintf(&out, "%v = %s\n", p, v.AppendJSON(nil))
			eq = append(eq, p)
			continue
		}
		if r, ok := b.Range(p); ok {
			rng = p
			open, closing := "(", ")"
			if r.LowInclusive {
				open = "["
			}
			if r.HighInclusive {
				closing = "]"
			}
			fmt.Fprintf(&out, "%v in %s%s, %s%s\n", p, open, r.Low.AppendJSON(nil), r.High.AppendJSON(nil), closing)
		}
	}
	fmt.Fprintf(&out, "covered %v, reads %v\n", b.Covered(eq, rng), b.Paths())
	if points, ok := b.Points(paths...); ok {
		out.WriteString("points")
		for _, point := range points {
			out.WriteString(" (")
			for i, v := range point {
				if i > 0 {
					out.WriteString(" ")
				}
				out.Write(v.AppendJSON(nil))
			}
			out.WriteString(")")
		}
		out.WriteString("\n")
	}
	return out.String()
}

// TestFunctions_Documented: README.md lists every function as supported.
func TestFunctions_Documented(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	served, missing, ok := strings.Cut(string(text), "| | not served |")
	if !ok {
		t.Fatal("README.md has no table of functions that are not served")
	}
	names := []string{"REGEXMATCH", "FULLTEXTSCORE", "RRF"}
	for name := range textFunctions {
		names = append(names, name)
	}
	for name := range functions {
		names = append(names, name)
	}
	for name := range aggregateKinds {
		names = append(names, name)
	}
	for _, name := range names {
		if code := "`" + name + "`"; !strings.Contains(served, code) || strings.Contains(missing, code) {
			t.Errorf("%s is supported, but README.md does not say so", name)
		}
	}
}
