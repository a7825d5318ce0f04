package markdown

import (
	"bytes"
	"context"
	"regexp"
	"runtime"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensions "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// HTML is a rendered text. It is safe to insert into a page: elements of text without scripts, styles, event handlers,
// forms and frames. Headings begin at h2, and have ids with a prefix. Every link has rel="nofollow ugc noopener". A
// code block has the class language-… if it names its language.
type HTML string

// Render renders a text in UTF-8. The error of a text that is built to be slow is a *LimitError. Render waits for a
// slot, and ends with ctx.
func Render(ctx context.Context, source string) (HTML, error) {
	slots := shortSlots
	if len(source) > shortText {
		slots = longSlots
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-slots }()
	text := []byte(source)
	root, err := parse(ctx, text)
	if err != nil {
		return "", err
	}
	var rendered bytes.Buffer
	if err := commonMark.Renderer().Render(paced{ctx, &rendered}, text, root); err != nil {
		return "", err
	}
	var safe strings.Builder
	unsafe := bytes.NewBuffer(openIPv6(rendered.Bytes()))
	if err := policy.SanitizeReaderToWriter(paced{ctx, unsafe}, &safe); err != nil {
		return "", err
	}
	return HTML(safe.String()), nil
}

// paced is a buffer that is written and read in parts of some KB. Before each it fails if the context has ended, and
// lets other goroutines run.
type paced struct {
	ctx    context.Context
	buffer *bytes.Buffer
}

// Write implements io.Writer.
func (p paced) Write(part []byte) (int, error) {
	if err := pace(p.ctx); err != nil {
		return 0, err
	}
	return p.buffer.Write(part)
}

// Read implements io.Reader.
func (p paced) Read(part []byte) (int, error) {
	if err := pace(p.ctx); err != nil {
		return 0, err
	}
	return p.buffer.Read(part)
}

// pace lets other goroutines run, which would otherwise wait up to 10 ms for one that renders a long text, and returns
// the error of ctx.
func pace(ctx context.Context) error {
	runtime.Gosched()
	return ctx.Err()
}

// The slots limit how many texts are rendered at a time. Those of usual length do not wait for long ones, which take as
// many as 60 ms and 45 MB and occupy at most half of the processors.
var (
	shortSlots = make(chan struct{}, runtime.GOMAXPROCS(0))
	longSlots  = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
)

const shortText = 16 << 10 // bytes

var commonMark = goldmark.New(
	goldmark.WithParser(newParser(
		append(parser.DefaultParagraphTransformers(), util.Prioritized(extension.NewTableParagraphTransformer(), 200)),
		append(parser.DefaultInlineParsers(), util.Prioritized(extension.NewStrikethroughParser(), 500),
			util.Prioritized(taskBoxes{}, 0), util.Prioritized(bareLinks{}, 999)),
	)),
	goldmark.WithParserOptions(parser.WithASTTransformers(
		util.Prioritized(extension.NewTableASTTransformer(), 0), util.Prioritized(safeTree{}, 1000))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(
		util.Prioritized(extension.NewTableHTMLRenderer(
			extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), 500),
		util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500),
		util.Prioritized(textRenderer{}, 0))),
)

// policy allows what Markdown has syntax for.
var policy = newPolicy()

func newPolicy() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "pre", "code", "hr", "br",
		"em", "strong", "del", "table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^language-[\pL\pN+#._-]{1,40}$`)).OnElements("code")
	p.AllowAttrs("id").Matching(regexp.MustCompile(`^`+idPrefix+`[\pL\pM\pN_-]+$`)).
		OnElements("h2", "h3", "h4", "h5", "h6")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(left|center|right)$`)).OnElements("th", "td")
	p.AllowAttrs("href").OnElements("a")
	p.AllowAttrs("rel").Matching(regexp.MustCompile("^" + string(rel) + "$")).OnElements("a")
	p.AllowAttrs("src").OnElements("img")
	p.AllowAttrs("alt", "title").OnElements("a", "img")
	p.AllowAttrs("loading").Matching(regexp.MustCompile("^lazy$")).OnElements("img")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(true)
	p.AllowURLSchemes("http", "https", "mailto")
	return p
}

// textRenderer renders what has no place in the HTML as text: HTML, and the boxes of task lists, which a form
// control would show to screen readers as something to operate.
type textRenderer struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (textRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML,
		func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering {
				writeText(w, n.(*ast.RawHTML).Segments.Value(source))
			}
			return ast.WalkSkipChildren, nil
		})
	r.Register(ast.KindHTMLBlock,
		func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering {
				_, _ = w.WriteString("<p>")
				writeText(w, bytes.TrimSpace(htmlBlock(n.(*ast.HTMLBlock), source)))
				_, _ = w.WriteString("</p>\n")
			}
			return ast.WalkContinue, nil
		})
	r.Register(extensions.KindTaskCheckBox,
		func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering {
				_, _ = w.WriteString(box(n.(*extensions.TaskCheckBox)))
			}
			return ast.WalkContinue, nil
		})
}

func writeText(w util.BufWriter, text []byte) { _, _ = w.Write(util.EscapeHTML(text)) }

// htmlBlock returns the text of a block of HTML.
func htmlBlock(n *ast.HTMLBlock, source []byte) []byte {
	lines := n.Lines().Value(source)
	if n.HasClosure() {
		lines = append(lines, n.ClosureLine.Value(source)...)
	}
	return lines
}

// box returns the box of an item of a task list as text.
func box(n *extensions.TaskCheckBox) string {
	if n.IsChecked {
		return "☑ "
	}
	return "☐ "
}
