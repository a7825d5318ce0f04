package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// cdn is the CDN of GraphiQL.
type cdn struct {
	root    string // its URL
	files   string // the folder with its files
	silent  bool   // it never responds
	changed string // a file that is not what was published
}

// newCDN downloads the package that the page names.
func newCDN(t testing.TB, root string) cdn {
	t.Helper()
	c := cdn{root: readPrepared(t, root).CDN.URL, files: t.TempDir()}
	_, name, _ := strings.Cut(strings.TrimSuffix(c.root, "/"), "/npm/")
	cmd := exec.Command("npm", "pack", "--silent", "--pack-destination", c.files, name)
	out, err := cmd.Output()
	if err == nil {
		err = exec.Command("tar", "-xzf", filepath.Join(c.files, strings.TrimSpace(string(out))), "-C", c.files,
			"--strip-components=1").Run()
	}
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return c
}

// answer answers the page's requests to the CDN.
func (p *page) answer(c cdn) {
	p.t.Helper()
	p.cdn = &c
	respond := func(e *fetch.EventRequestPaused) error {
		name := strings.TrimPrefix(e.Request.URL, c.root)
		body, err := os.ReadFile(filepath.Join(c.files, filepath.FromSlash(name)))
		status := int64(200)
		if err != nil {
			status = 404
		}
		if name == c.changed {
			body = append(body, '\n')
		}
		types := map[string]string{".js": "application/javascript", ".css": "text/css", ".json": "application/json"}
		return chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, fetch.FulfillRequest,
				fetch.FulfillRequestParams{RequestID: e.RequestID, ResponseCode: status, Body: body,
					ResponseHeaders: []*fetch.HeaderEntry{{Name: "Access-Control-Allow-Origin", Value: "*"},
						{Name: "Content-Type", Value: types[path.Ext(name)]}}})
			return err
		}))
	}
	var answers sync.WaitGroup
	p.t.Cleanup(answers.Wait)
	err := chromedp.Listen(p.ctx, func(event any) {
		if e, ok := event.(*fetch.EventRequestPaused); ok && !c.silent {
			answers.Go(func() { _ = respond(e) }) // the page may have been closed
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.do("intercept", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, fetch.Enable,
			fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: c.root + "*"}}})
		return err
	}))
}

// button selects the button with a text.
func button(text string) string { return `//button[text()="` + text + `"]` }

// browserPath returns the path of the browser. It skips the test unless .ci/clients runs it, which needs
// a browser.
func browserPath(t testing.TB) string {
	t.Helper()
	if _, required := os.LookupEnv(clientsEnv); !required {
		t.Skip(".ci/clients runs the tests in a browser")
	}
	for _, name := range []string{"chromium", "chromium-headless-shell", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no browser: install chromium")
	return ""
}

// page is a page of the server in a browser of its own.
type page struct {
	t      testing.TB
	ctx    context.Context
	root   string
	editor editor // of the playground
	cdn    *cdn   // nil if it is not answered

	mu         sync.Mutex
	requests   []string // guarded by mu
	pageErrors []string // guarded by mu
	shots      int
}

// openPage opens the server's page in a new browser.
func openPage(t testing.TB, path, root string, rules ...string) *page {
	t.Helper()
	p := newPage(t, path, root, rules...)
	p.do("open", chromedp.Navigate(root+"/"))
	return p
}

// newPage opens an empty page in a browser that resolves only the hosts of the rules
// (--host-resolver-rules). The browser is closed when the test ends.
func newPage(t testing.TB, path, root string, rules ...string) *page {
	t.Helper()
	host := strings.TrimPrefix(root, "http://")
	address, _, _ := strings.Cut(host, ":")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 900),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("host-resolver-rules",
			strings.Join(append(rules, "MAP * ~NOTFOUND", "EXCLUDE "+address), ", ")))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx, root: root}
	p.record()
	return p
}

// window returns an empty page in a second window of the browser, which shares what the first stores. If the first has
// a CDN, so has the second.
func (p *page) window() *page {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	p.t.Cleanup(cancel)
	w := &page{t: p.t, ctx: ctx, root: p.root, editor: p.editor}
	w.record()
	if p.cdn != nil {
		w.answer(*p.cdn)
	}
	return w
}

// record records the requests and errors of the page.
func (p *page) record() {
	err := chromedp.Listen(p.ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			p.requests = append(p.requests, e.Request.URL)
		case *network.EventWebSocketCreated:
			p.requests = append(p.requests, e.URL)
		case *runtime.EventExceptionThrown:
			p.pageErrors = append(p.pageErrors, fmt.Sprintf("%+v", e.ExceptionDetails))
		case *log.EventEntryAdded:
			p.pageErrors = append(p.pageErrors, fmt.Sprintf("%+v", e.Entry))
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *page) do(what string, action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, action); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

func (p *page) click(xpath string) {
	p.t.Helper()
	p.do("click "+xpath, chromedp.Click(chromedp.Search(xpath)))
}

func (p *page) tab(name string) {
	p.t.Helper()
	p.click(fmt.Sprintf(p.editor.tab, name))
}

// hasTabs waits until the editor has these tabs.
func (p *page) hasTabs(names string) {
	p.t.Helper()
	eventually(p.t, func() error {
		if got := p.eval(p.editor.tabs); got != names {
			return fmt.Errorf("the tabs are %q, want %q", got, names)
		}
		return nil
	})
}

// execute clicks the button that executes the operation.
func (p *page) execute() {
	p.t.Helper()
	p.click(p.editor.run)
}

// costs waits until the header shows the cost of the operation.
func (p *page) costs() {
	p.t.Helper()
	shown := regexp.MustCompile(`^\d+\.\d RU predicted, \d+\.\d charged(, about [\d.,]+ later( for \d+ items?)?)?, \d+ requests?$`)
	eventually(p.t, func() error {
		if cost := p.eval(shownCost); !shown.MatchString(cost) {
			return fmt.Errorf("the header shows the cost %q", cost)
		}
		return nil
	})
}

// address returns the address after the path.
func (p *page) address() string {
	p.t.Helper()
	return p.eval(`location.hash`)
}

// selectAll selects the text of the editor.
func (p *page) selectAll() {
	p.t.Helper()
	p.click(`//div[contains(@class, "active")]//div[contains(@class, "CodeMirror-lines")]`)
	p.do("select all", chromedp.KeyEvent("a", chromedp.KeyModifiers(kb.ModifierCtrl)))
}

// keys types a text key by key, with time for the page to react to each.
func (p *page) keys(text string) {
	p.t.Helper()
	for _, key := range text {
		p.do("type", chromedp.KeyEvent(string(key)))
		p.frame()
	}
}

// frame waits until the page has been drawn twice.
func (p *page) frame() {
	p.t.Helper()
	p.eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(""))))`)
}

// pause waits as users do between two changes of the tab: GraphiQL saves the editor's text 100 ms after a change, into
// the tab that is active then.
func (p *page) pause() { time.Sleep(300 * time.Millisecond) }

// waitStored waits until the page has stored a text, 300 ms after a change.
func (p *page) waitStored(text string) {
	p.t.Helper()
	p.sees(func() string { return p.eval(`localStorage.getItem("graphql-playground") ?? ""`) }, text)
}

// paste replaces the text of the editor at once, without completion.
func (p *page) paste(text string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`(%s(%q), "")`, p.editor.paste, text))
	p.frame()
}

// query returns the text of the editor.
func (p *page) query() string {
	p.t.Helper()
	return p.eval(p.editor.query)
}

// text returns the visible text of the page.
func (p *page) text() string {
	p.t.Helper()
	return p.eval(
		`document.body.innerText + [...document.querySelectorAll("input")].map((i) => i.placeholder).join("\n")`)
}

func (p *page) eval(script string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	return text
}

// uncovered fails if the number of completion lists is wrong, or if anything else covers the editor.
func (p *page) uncovered(lists int) {
	p.t.Helper()
	const script = `(() => {
		const editor = document.querySelector(".CodeMirror"), box = editor.getBoundingClientRect(), found = new Set();
		for (let x = box.left + 5; x < box.right; x += 20) for (let y = box.top + 5; y < box.bottom; y += 10) {
			const over = document.elementFromPoint(x, y);
			if (!over || editor.contains(over) || over.closest("[title^='Execute Query'],[title^='Stop'],.CodeMirror-hints-wrapper") || over.contains(editor)) continue;
			if (over.closest("div:has(> [title^='Execute Query'])") || over.offsetWidth < 20) continue; // the button's frame, and the bar to resize by
			found.add(over.outerHTML.slice(0, 200));
		}
		return document.querySelectorAll(".CodeMirror-hints-wrapper, body > .CodeMirror-hints").length + " " + [...found].join("\n");
	})()`
	want := fmt.Sprint(lists, " ")
	eventually(p.t, func() error {
		if got := p.eval(script); got != want {
			return fmt.Errorf("completion lists, and what covers the editor: %q, want %q", got, want)
		}
		return nil
	})
	p.screenshot()
}

// result returns the text of the response.
func (p *page) result() string {
	p.t.Helper()
	return p.eval(p.editor.result)
}

// shows waits until the result contains all of the texts.
func (p *page) shows(texts ...string) {
	p.t.Helper()
	p.sees(p.result, texts...)
	p.screenshot()
}

// sees waits until a text contains all of the others.
func (p *page) sees(text func() string, texts ...string) {
	p.t.Helper()
	eventually(p.t, func() error {
		all := text()
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return fmt.Errorf("no %s in %q", text, all)
			}
		}
		return nil
	})
}

// screenshot adds a screenshot to the test's artifacts.
func (p *page) screenshot() {
	p.t.Helper()
	p.shots++
	p.screenshotAs(fmt.Sprint(p.shots))
}

// screenshotAs adds a screenshot with a name, and a number if there is one with this name.
func (p *page) screenshotAs(name string) {
	p.t.Helper()
	file := filepath.Join(p.t.ArtifactDir(), name+".png")
	if _, err := os.Stat(file); err == nil {
		file = filepath.Join(p.t.ArtifactDir(), name+"-docs.png")
	}
	p.save(file)
}

// save writes a screenshot to a file.
func (p *page) save(file string) {
	p.t.Helper()
	shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, shot, 0o666); err != nil {
		p.t.Fatal(err)
	}
}

// done checks that the page requested only what is below the addresses, and its errors.
func (p *page) done(addresses ...string) {
	p.t.Helper()
	p.mu.Lock()
	requests, pageErrors := p.requests, p.pageErrors
	p.mu.Unlock()
	for _, url := range requests {
		if !slices.ContainsFunc(append(addresses, "data:"), func(address string) bool {
			return strings.HasPrefix(url, address)
		}) {
			p.t.Errorf("the page requested %s", url)
		}
	}
	if len(requests) < 5 {
		p.t.Errorf("the page requested only %v", requests)
	}
	if len(pageErrors) > 0 {
		p.t.Errorf("errors of the page: %s", strings.Join(pageErrors, "\n"))
	}
	if err := chromedp.Do(p.ctx, chromedp.Navigate("http://example.com/")); err == nil {
		p.t.Error("the browser reaches other servers")
	}
}
