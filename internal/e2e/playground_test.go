package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestPlayground uses the playground in a browser that reaches only this server. -artifacts keeps
// screenshots.
func TestPlayground(t *testing.T) {
	path := browserPath(t)
	s := start(t, "--data", t.TempDir(), "--no-demo")
	p := openPage(t, path, s.Root)
	p.tab("Post")
	p.sees(p.query, `post(id: "POST_ID")`)
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	created := s.Do("ada", createPost, map[string]any{"title": "Written before", "content": "x"})
	id := at(t, created, "createPost.post.id").(string)
	s.Do("ada", `mutation($id: ID!) { createComment(input: {postId: $id, content: "First."}) { comment { id } } likePost(input: {postId: $id}) { like { id } } }`, map[string]any{"id": id})
	p.waitStored("POST_ID")
	p.do("reload", chromedp.Reload()) // now there is a post to name
	p.tab("Post")
	p.sees(p.query, `post(id: "`+id+`")`)
	p.tab("Feed")

	// The first tab has the viewer's token; its response has the cost before the data.
	p.sees(p.text, `"Bearer demo:ada"`, `"Byline-Cost": "summary"`)
	p.execute()
	p.shows(`"title": "Written before"`, `"username": "ada"`, `"viewerHasLiked": true`, `"actualRU": `)
	if result := p.result(); strings.Index(result, `"cost"`) > strings.Index(result, `"data"`) {
		t.Errorf("the cost is after the data: %s", result)
	}

	// Completion: each key replaces the list, a click accepts from it, Escape closes it.
	p.sees(func() string {
		return p.eval(`"schema: " + !!document.querySelector(".CodeMirror").CodeMirror.options.hintOptions?.schema`)
	}, "schema: true") // which completion needs
	p.selectAll()
	p.keys("{ fee")
	p.uncovered(1)
	p.click(`//li[contains(@class, "CodeMirror-hint-active")]`)
	p.uncovered(0)
	p.keys("(first: 1) { edges { node { tit")
	p.uncovered(1)
	p.keys(kb.Escape)
	p.uncovered(0)
	p.keys("le i")
	p.uncovered(1)
	p.do("run", chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(kb.ModifierCtrl)))
	p.uncovered(0)
	p.shows(`"GRAPHQL_VALIDATION_FAILED"`)
	p.keys("d ")
	p.keys(kb.Escape)
	if text := p.query(); !strings.HasPrefix(text, "{ feed(first: 1) { edges { node { title id ") {
		t.Errorf("the editor has %q", text)
	}
	p.execute()
	p.shows(`"title": "Written before"`)
	p.uncovered(0)

	// Error positions are positions in the editor.
	p.paste("# A comment,\n# and another.\n\nquery Wrong { viewer { nothing } }")
	p.execute()
	p.shows(`"GRAPHQL_VALIDATION_FAILED"`, `"line": 4`, `"column": 24`)
	p.uncovered(0)

	p.paste("{feed{edges{cursor}}}")
	p.click(button("Prettify"))
	eventually(t, func() error {
		if text := p.query(); !strings.Contains(text, "\n    edges {\n") {
			return fmt.Errorf("prettified: %q", text)
		}
		return nil
	})
	p.uncovered(0)

	p.click(button("History"))
	p.sees(p.text, "Search the history")
	p.keys(kb.Escape)
	p.uncovered(0)
	p.click(`//*[text()="Docs"]`)
	p.sees(p.text, "Search the docs", "createPost")
	p.keys(kb.Escape)
	p.click(`//*[text()="Docs"]`)
	p.click(`//*[text()="Schema"]`)
	p.sees(p.text, "CommentConnection")
	p.click(`//*[text()="Schema"]`)
	p.uncovered(0)

	p.paste("query One($first: Int!) { feed(first: $first) { edges { node { title } } } }")
	p.click(`//*[text()="Query Variables"]`)
	p.click(`(//div[contains(@class, "CodeMirror-lines")])[2]`)
	p.do("select all", chromedp.KeyEvent("a", chromedp.KeyModifiers(kb.ModifierCtrl)))
	p.keys(`{"first": 1`)
	p.uncovered(0)
	p.execute()
	p.shows(`"title": "Written before"`)
	p.click(`//*[starts-with(text(), "HTTP Headers")]`)
	p.sees(p.text, `"Bearer demo:ada"`)

	// The other tabs run unchanged; a second run of a mutation writes nothing.
	p.tab("Post")
	p.execute()
	p.shows(`"content": "First."`, `"likeCount": 1`)
	p.uncovered(0)
	p.tab("Write a post")
	for range 2 {
		p.execute()
		p.shows(`"title": "Hello from the playground"`, `"username": "ada"`)
		p.uncovered(0)
	}
	feed := at(t, s.Do("", q6, nil), "feed.edges").([]any)
	if len(feed) != 2 || at(t, feed[0], "node.title") != "Hello from the playground" {
		t.Errorf("the feed after one mutation, twice: %v", feed)
	}
	p.tab("Comment and like")
	for range 2 {
		p.execute()
		p.shows(`"content": "Well said."`, `"commentCount": 2`, `"likeCount": 1`)
	}
	p.uncovered(0)
	p.tab("Rename")
	p.execute()
	p.shows(`"username": "countess"`)
	p.uncovered(0)
	p.tab("Post") // in the session of the rename
	p.execute()
	p.shows(`"content": "First."`, `"username": "countess"`)
	if result := p.result(); strings.Contains(result, `"username": "ada"`) {
		t.Errorf("after the rename the post has its old name: %s", result)
	}

	p.tab("Live")
	p.execute()
	// The page does not show when the subscription has begun, so write posts until one arrives.
	written := 0
	next := time.Now()
	eventually(t, func() error {
		if !time.Now().Before(next) {
			s.Do("ada", createPost, map[string]any{"title": fmt.Sprintf("Live %d", written), "content": "x"})
			written++
			next = time.Now().Add(time.Second)
		}
		if result := p.result(); !strings.Contains(result, `"title": "Live `) {
			return fmt.Errorf("%d posts were written, and the page shows %q", written, result)
		}
		return nil
	})
	p.shows(`"username": "countess"`, `"actualRU": `)
	p.uncovered(0)

	// The text of the editor survives a reload, also in a narrow window.
	p.tab("Feed")
	p.paste("{ viewer { username } } # mine")
	p.uncovered(0)
	p.waitStored("# mine")
	p.do("resize", chromedp.EmulateViewport(600, 800))
	p.do("reload", chromedp.Reload())
	eventually(t, func() error {
		if text := p.query(); !strings.HasSuffix(text, "# mine") {
			return fmt.Errorf("after a reload the editor has %q", text)
		}
		return nil
	})
	p.execute()
	p.shows(`"username": "countess"`)
	p.uncovered(0)
	p.done()
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
	path, err := exec.LookPath("chromium")
	if err != nil {
		path, err = exec.LookPath("google-chrome")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// page is a page of the server in a browser of its own.
type page struct {
	t    testing.TB
	ctx  context.Context
	root string

	mu         sync.Mutex
	requests   []string // guarded by mu
	pageErrors []string // guarded by mu
	shots      int
}

// openPage opens the server's page in a browser that resolves only the hosts of the rules
// (--host-resolver-rules). The browser is closed when the test ends.
func openPage(t testing.TB, path, root string, rules ...string) *page {
	t.Helper()
	host := strings.TrimPrefix(root, "http://")
	address, _, _ := strings.Cut(host, ":")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 900),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("host-resolver-rules", strings.Join(append(rules, "MAP * ~NOTFOUND", "EXCLUDE "+address), ", ")))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx, root: root}
	err := chromedp.Listen(ctx, func(event any) {
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
		t.Fatal(err)
	}
	p.do("open", chromedp.Navigate(root+"/"))
	return p
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
	p.click(`//div[text()="` + name + `"]`)
}

// execute clicks the button Execute Query.
func (p *page) execute() {
	p.t.Helper()
	p.click(`//div[starts-with(@title, "Execute Query")]`)
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

// waitStored waits until the page has stored a text, 300 ms after a change.
func (p *page) waitStored(text string) {
	p.t.Helper()
	p.sees(func() string { return p.eval(`localStorage.getItem("graphql-playground") ?? ""`) }, text)
}

// paste replaces the text of the editor at once, without completion.
func (p *page) paste(text string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`(document.querySelector(".CodeMirror").CodeMirror.setValue(%q), "")`, text))
	p.frame()
}

// query returns the text of the editor.
func (p *page) query() string {
	p.t.Helper()
	return p.eval(`document.querySelector(".CodeMirror")?.CodeMirror.getValue() ?? ""`)
}

// text returns the visible text of the page.
func (p *page) text() string {
	p.t.Helper()
	return p.eval(`document.body.innerText + [...document.querySelectorAll("input")].map((i) => i.placeholder).join("\n")`)
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
	return p.eval(`document.querySelector("[title^='Execute Query']")?.parentElement.nextElementSibling.innerText ?? ""`)
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
	shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	p.shots++
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), fmt.Sprintf("%d.png", p.shots)), shot, 0o666); err != nil {
		p.t.Fatal(err)
	}
}

// done checks the requests and errors of the page.
func (p *page) done() {
	p.t.Helper()
	p.mu.Lock()
	requests, pageErrors := p.requests, p.pageErrors
	p.mu.Unlock()
	sockets := 0
	for _, url := range requests {
		switch {
		case strings.HasPrefix(url, "ws"+strings.TrimPrefix(p.root, "http")+"/"):
			sockets++
		case !strings.HasPrefix(url, p.root+"/") && !strings.HasPrefix(url, "data:"):
			p.t.Errorf("the page requested %s", url)
		}
	}
	if len(requests) < 5 || sockets == 0 {
		p.t.Errorf("%d sockets among %v", sockets, requests)
	}
	if len(pageErrors) > 0 {
		p.t.Errorf("errors of the page: %s", strings.Join(pageErrors, "\n"))
	}
	if err := chromedp.Do(p.ctx, chromedp.Navigate("http://example.com/")); err == nil {
		p.t.Error("the browser reaches other servers")
	}
}
