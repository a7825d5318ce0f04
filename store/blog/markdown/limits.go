package markdown

import (
	"bytes"
	"fmt"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// The limits of a text. Its length is limited by the caller. Within them, parsing and rendering take time in
// proportion to the length; beyond them some take its square: BenchmarkHostile has the figures.
const (
	maxDepth      = 32     // block quotes and lists within each other
	maxBrackets   = 1000   // [ and ] in a paragraph, heading or table
	maxDelimiters = 2000   // *, _ and ~ in a paragraph, heading or table
	maxCells      = 10_000 // of all tables: rows by columns
)

// LimitError is the error of a text that exceeds a limit. Its message is for the writer.
type LimitError struct{ message string }

func (e *LimitError) Error() string { return e.message }

func exceeds(format string, a ...any) error { return &LimitError{fmt.Sprintf(format, a...)} }

// blocks parses the blocks of a text, but not what is in their lines, which is what can be slow.
var blocks = parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))

// Check returns a *LimitError if a text would take long to parse or to render: Render would refuse it.
func Check(source string) error { return check([]byte(source)) }

// check refuses texts that would take long to parse or to render.
func check(source []byte) error {
	for line := range bytes.Lines(source) {
		if depth(line) > maxDepth {
			return exceeds("must have at most %d quotes and lists within each other", maxDepth)
		}
	}
	return (&checker{source: source}).block(blocks.Parse(text.NewReader(source)), 0)
}

type checker struct {
	source []byte
	cells  int // of tables so far
}

// depth returns the number of block quotes and lists that a line may open. The parser takes the square of it.
func depth(line []byte) (n int) {
	for {
		line = bytes.TrimLeft(line, " \t")
		rest := bytes.TrimLeft(line, "0123456789")
		switch {
		case len(line) > 0 && line[0] == '>':
			line = line[1:]
		case len(rest) > 1 && (rest[0] == '.' || rest[0] == ')') && len(rest) < len(line) && isSpace(rest[1]):
			line = rest[2:]
		case len(line) > 1 && (line[0] == '-' || line[0] == '*' || line[0] == '+') && isSpace(line[1]):
			line = line[2:]
		default:
			return n
		}
		n++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// block checks a block and those in it.
func (c *checker) block(block ast.Node, depth int) error {
	switch block.Kind() {
	case ast.KindBlockquote, ast.KindList:
		if depth++; depth > maxDepth {
			return exceeds("must have at most %d quotes and lists within each other", maxDepth)
		}
	case ast.KindParagraph, ast.KindTextBlock, ast.KindHeading:
		if err := c.lines(block.Lines().Value(c.source)); err != nil {
			return err
		}
	}
	for child := block.FirstChild(); child != nil; child = child.NextSibling() {
		if err := c.block(child, depth); err != nil {
			return err
		}
	}
	return nil
}

// lines checks the lines of a block with inline content, which may be a table.
func (c *checker) lines(content []byte) error {
	brackets, delimiters, lines, columns := 0, 0, 0, 0
	for line := range bytes.Lines(content) {
		lines++
		columns = max(columns, bytes.Count(line, []byte{'|'})+1)
	}
	if columns > 1 {
		c.cells += columns * lines
	}
	for _, char := range content {
		switch char {
		case '[', ']':
			brackets++
		case '*', '_', '~':
			delimiters++
		}
	}
	switch {
	case brackets > maxBrackets:
		return exceeds("must have at most %d brackets in a paragraph", maxBrackets)
	case delimiters > maxDelimiters:
		return exceeds("must have at most %d of * _ ~ in a paragraph", maxDelimiters)
	case c.cells > maxCells:
		return exceeds("must have at most %d cells in tables", maxCells)
	}
	return nil
}
