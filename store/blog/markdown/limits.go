package markdown

import (
	"bytes"
	"context"
	"fmt"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// The limits of a text, whose length is limited by the caller. A text of many short lines, links or cells takes much
// longer than prose of the same length. The longest post within the limits takes at most about ten times as long, which
// BYLINE_TEST_LONG=1 go test -run TestWorstText -v ./store/blog/markdown searches for.
const (
	maxDepth    = 32        // block quotes and lists within each other
	workPerByte = 200       // steps for each byte of the text
	freeWork    = 2_500_000 // steps that every text may take: some kB of anything
)

// The steps of what a parser does, of about a nanosecond: including to render and sanitize what it found.
const (
	tryBlock      = 150 // whether a block begins on a line
	continueBlock = 120 // whether a line continues a block
	nextLine      = 500 // of a paragraph
	hardBreak     = 600 // at the end of a line
	newTable      = 3000
	newRow        = 1800
	newCell       = 1500
	newDefinition = 600
	tryInline     = 100 // whether a character has a meaning
	tryTag        = 250 // whether a tag begins
	perNode       = 6   // to walk a node of a paragraph again
	perDelimiter  = 2   // to compare an end of emphasis with a beginning
	perLabel      = 10  // a byte of the label of a link
	perAddress    = 25  // a byte of the address and title of a link
	perScan       = 2   // a byte that is searched for an end
	perMark       = 750 // a further * of several: each pair may become an element
)

// stepsToCheck is after how many steps a parser lets others run, and looks whether its context has ended.
const stepsToCheck = 100_000

// stepsOf returns the steps of a new node.
func stepsOf(n ast.Node) int {
	switch n.Kind() {
	case ast.KindHeading: // with its id
		return 6000
	case ast.KindHTMLBlock:
		return 3000
	case ast.KindListItem, ast.KindThematicBreak:
		return 1000
	case ast.KindAutoLink:
		return 7000
	case ast.KindLink:
		return 4500
	case ast.KindImage:
		return 5500
	case ast.KindCodeSpan, ast.KindRawHTML, ast.KindText, ast.KindParagraph:
		return 1700
	case ast.KindBlockquote, ast.KindList, ast.KindCodeBlock, ast.KindFencedCodeBlock:
		return 2200
	}
	return 1400 // a bracket or the beginning or end of emphasis
}

// work is a part of a text that takes steps, as writers know it.
type work int

const (
	ofBlocks work = iota
	ofCells
	ofBrackets
	ofDelimiters
	ofOthers
	works
)

var workNames = [works]string{"lines, lists and quotes", "cells in tables", "brackets and links", "* _ ~",
	"HTML, code and links"}

// LimitError is the error of a text that exceeds a limit. Its message is for the writer.
type LimitError struct{ message string }

func (e *LimitError) Error() string { return e.message }

func exceeds(format string, a ...any) error { return &LimitError{fmt.Sprintf(format, a...)} }

// Check returns a *LimitError if a text would take long to parse or to render: Render would refuse it.
func Check(source string) error {
	_, err := parse(context.Background(), []byte(source))
	return err
}

// parse parses a text. It ends with ctx, and with a *LimitError if it takes too many steps.
func parse(ctx context.Context, source []byte) (root ast.Node, err error) {
	root, _, err = parseWithin(ctx, source, freeWork+workPerByte*len(source))
	return root, err
}

// parseWithin parses a text within a number of steps.
func parseWithin(ctx context.Context, source []byte, steps int) (root ast.Node, m *meter, err error) {
	m = &meter{ctx: ctx, left: steps, checkAt: steps}
	for line := range bytes.Lines(source) {
		if depth(line) > maxDepth {
			return nil, m, errTooDeep
		}
	}
	pc := parser.NewContext()
	pc.Set(meterKey, m)
	defer func() { // goldmark has no other way to end
		switch r := recover().(type) {
		case nil:
		case stopped:
			root, err = nil, r.err
		default:
			panic(r)
		}
	}()
	m.take(0, ofBlocks)
	return commonMark.Parser().Parse(text.NewReader(source), parser.WithContext(pc)), m, nil
}

var errTooDeep = exceeds("must have at most %d quotes and lists within each other", maxDepth)

// stopped is the panic that ends a parser.
type stopped struct{ err error }

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

// meter counts the steps of a parser. It stops the parser when there are none left, or with the context.
type meter struct {
	ctx     context.Context
	left    int
	checkAt int // look at ctx when so many are left
	taken   [works]int

	// Of the block whose inline content is being parsed:
	nodes      int
	delimiters int
	brackets   []bracket // that are open
}

// bracket is where a bracket was opened.
type bracket struct{ position, nodes int }

var meterKey = parser.NewContextKey()

func meterOf(pc parser.Context) *meter { return pc.Get(meterKey).(*meter) }

func (m *meter) take(steps int, of work) {
	m.left -= steps
	if m.taken[of] += steps; m.left < 0 {
		most := ofBlocks
		for w, n := range m.taken {
			if n > m.taken[most] {
				most = work(w)
			}
		}
		panic(stopped{exceeds("must have fewer %s for its length", workNames[most])})
	}
	if m.left > m.checkAt {
		return
	}
	m.checkAt = m.left - stepsToCheck
	if err := pace(m.ctx); err != nil {
		panic(stopped{err})
	}
}

// meteredBlocks counts the steps of a parser of blocks.
type meteredBlocks struct{ parser.BlockParser }

// Open implements parser.BlockParser.
func (p meteredBlocks) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	m := meterOf(pc)
	m.take(tryBlock, ofBlocks)
	n, state := p.BlockParser.Open(parent, reader, pc)
	if n == nil {
		return n, state
	}
	m.take(stepsOf(n), ofBlocks)
	nested := 1
	for _, b := range pc.OpenedBlocks() {
		if isNesting(b.Node) {
			nested++
		}
	}
	if isNesting(n) && nested > maxDepth {
		panic(stopped{errTooDeep})
	}
	return n, state
}

func isNesting(n ast.Node) bool { return n.Kind() == ast.KindBlockquote || n.Kind() == ast.KindList }

// Continue implements parser.BlockParser.
func (p meteredBlocks) Continue(node ast.Node, reader text.Reader, pc parser.Context) parser.State {
	steps := continueBlock
	if line, _ := reader.PeekLine(); ast.IsParagraph(node) {
		if steps += nextLine; bytes.HasSuffix(line, []byte("\\\n")) || bytes.HasSuffix(line, []byte("  \n")) {
			steps += hardBreak
		}
	}
	meterOf(pc).take(steps, ofBlocks)
	return p.BlockParser.Continue(node, reader, pc)
}

// meteredInlines counts the steps of a parser of inline content.
type meteredInlines struct{ parser.InlineParser }

// Parse implements parser.InlineParser.
func (p meteredInlines) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	m := meterOf(pc)
	m.take(tryInline, ofOthers)
	line, segment := block.PeekLine()
	of := ofOthers
	switch line[0] {
	case '[', ']', '!':
		of = ofBrackets
	case '*', '_', '~':
		of = ofDelimiters
	}
	links := p.InlineParser == linkParser
	lines, rest := parent.Lines(), 0
	if n := lines.Len(); n > 0 {
		rest = max(0, lines.At(n-1).Stop-segment.Start)
	}
	if line[0] == ']' && links && len(m.brackets) > 0 {
		opened := m.brackets[len(m.brackets)-1]
		m.brackets = m.brackets[:len(m.brackets)-1]
		m.take(perNode*(m.nodes-opened.nodes+lines.Len()), of)
		m.take(perLabel*min(segment.Start-opened.position, maxLabel), of)
	}
	n := p.InlineParser.Parse(parent, block, pc)
	if n == nil {
		if line[0] == '<' || len(line) > 1 && line[0] == ']' && (line[1] == '(' || line[1] == '[') {
			m.take(tryTag+perScan*rest, of)
		}
		if line[0] == '~' { // several are no strikethrough, but are counted for each
			m.take(len(line)-len(bytes.TrimLeft(line, "~")), of)
		}
		return nil
	}
	m.nodes += 2 // with the text before it
	m.take(stepsOf(n), of)
	switch n := n.(type) {
	case *ast.Text:
		m.take(perScan*rest, of)
	case *parser.Delimiter:
		if n.CanClose {
			m.take(perDelimiter*m.delimiters, of)
		}
		m.delimiters++
		m.take(perMark*(n.OriginalLength-1), of)
	case *ast.AutoLink:
		m.take(perAddress*len(n.Label(block.Source())), of)
	case *ast.Link:
		m.take(perAddress*(len(n.Destination)+len(n.Title)), of)
	case *ast.Image:
		m.take(perAddress*(len(n.Destination)+len(n.Title)), of)
	default:
		if links {
			m.brackets = append(m.brackets, bracket{segment.Start, m.nodes})
		}
	}
	return n
}

// maxLabel is the greatest length of the label of a link, in bytes: CommonMark's.
const maxLabel = 999

// CloseBlock implements parser.CloseBlocker.
func (p meteredInlines) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	if c, ok := p.InlineParser.(parser.CloseBlocker); ok {
		c.CloseBlock(parent, block, pc)
	}
	m := meterOf(pc)
	m.nodes, m.delimiters, m.brackets = 0, 0, m.brackets[:0]
}

// meteredParagraphs counts the steps of what makes tables and definitions of paragraphs.
type meteredParagraphs struct{ parser.ParagraphTransformer }

// Transform implements parser.ParagraphTransformer.
func (p meteredParagraphs) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	m, lines := meterOf(pc), node.Lines()
	if p.ParagraphTransformer == parser.LinkReferenceParagraphTransformer {
		if first := lines.At(0); bytes.HasPrefix(bytes.TrimSpace(first.Value(reader.Source())), []byte("[")) {
			definitions := 0
			for i := range lines.Len() {
				if line := lines.At(i); bytes.Contains(line.Value(reader.Source()), []byte("]:")) {
					definitions++
				}
			}
			// The parser copies the remaining lines at each definition.
			m.take(newDefinition*lines.Len()+definitions*(lines.Len()-1), ofBrackets)
		}
		p.ParagraphTransformer.Transform(node, reader, pc)
		return
	}
	for i := range lines.Len() {
		line := lines.At(i)
		row := bytes.TrimSpace(line.Value(reader.Source()))
		if bytes.Contains(row, []byte("-")) && len(bytes.Trim(row, " \t\f|:-")) == 0 {
			row = bytes.TrimSuffix(bytes.TrimPrefix(row, []byte("|")), []byte("|"))
			columns := bytes.Count(row, []byte("|")) + 1
			m.take(newTable+(newRow+newCell*columns)*(lines.Len()-i+1), ofCells)
			break
		}
	}
	p.ParagraphTransformer.Transform(node, reader, pc)
}

var linkParser = parser.NewLinkParser()

// newParser returns a parser that counts its steps.
func newParser(paragraphs, inlines []util.PrioritizedValue) parser.Parser {
	var blocks []util.PrioritizedValue
	for _, v := range parser.DefaultBlockParsers() {
		blocks = append(blocks, util.Prioritized(meteredBlocks{v.Value.(parser.BlockParser)}, v.Priority))
	}
	for i, v := range inlines {
		inlines[i].Value = meteredInlines{v.Value.(parser.InlineParser)}
	}
	for i, v := range paragraphs {
		paragraphs[i].Value = meteredParagraphs{v.Value.(parser.ParagraphTransformer)}
	}
	return parser.NewParser(parser.WithBlockParsers(blocks...), parser.WithInlineParsers(inlines...),
		parser.WithParagraphTransformers(paragraphs...))
}
