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
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestPlayground_Embedded uses the embedded GraphQL Playground in a browser that reaches only this server. -artifacts
// keeps screenshots.
func TestPlayground_Embedded(t *testing.T) {
	path := browserPath(t)
	s := start(t, "--data", t.TempDir(), "--no-demo", "--playground-cdn=off")
	p := openPage(t, path, s.Root)
	p.editor = embedded
	p.tab("Post")
	p.sees(p.query, `post(id: "POST_ID")`)
	id := writeBlog(s)
	p.waitStored("POST_ID")
	p.do("reload", chromedp.Reload()) // now there is a post to name
	p.tab("Post")
	p.sees(p.query, `post(id: "`+id+`")`)
	p.tab("Feed")
	p.execute()
	p.shows(`"title": "Written before"`)

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
	p.click(`//*[contains(@class, "doc-category-item") and starts-with(., "feed")]`)
	p.sees(p.text, "The front page: all posts")
	p.keys(kb.Escape)
	p.click(`//*[text()="Docs"]`)
	p.click(`//*[text()="Schema"]`)
	p.sees(p.text, "# What has happened to an object.", "enum ChangeKind") // the editor shows only the lines in view
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
	p.restore()
	p.useExamples(s)

	// The text of the editor survives a reload, also in a narrow window; invalid settings do not blank the page.
	p.tab("Feed")
	p.paste("{ viewer { username } } # mine")
	p.uncovered(0)
	p.waitStored("# mine")
	p.do("resize", chromedp.EmulateViewport(600, 800))
	p.eval(`(() => {
		const stored = JSON.parse(localStorage.getItem("graphql-playground"));
		stored.settingsString = "{ \"editor.theme\": light }";
		localStorage.setItem("graphql-playground", JSON.stringify(stored));
		return "";
	})()`)
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
	p.restore()
	p.look(`//*[text()="Docs"]`)
	p.done(s.Root + "/")
}

// TestPlayground_GraphiQL uses GraphiQL, whose CDN is answered from the package.
func TestPlayground_GraphiQL(t *testing.T) {
	path := browserPath(t)
	s := start(t, "--data", t.TempDir(), "--no-demo")
	writeBlog(s)
	c := newCDN(t, s.Root)
	p := newPage(t, path, s.Root)
	p.editor = graphiQL
	p.answer(c)
	p.do("open", chromedp.Navigate(s.Root+"/"))
	p.useExamples(s)
	p.click(`//button[@aria-label="Show GraphiQL Explorer"]`)
	p.sees(p.text, "userByUsername")
	p.click(`//button[@aria-label="Hide GraphiQL Explorer"]`)
	p.restore()
	p.look(`//button[@aria-label="Show Documentation Explorer"]`)
	p.editor = embedded // which the browser has not used before
	p.do("open", chromedp.Navigate(p.root+"/?embedded"))
	p.hasTabs("Feed Post WritePost CommentAndLike Rename Live")
	p.done(s.Root+"/", c.root, "blob:"+s.Root+"/")
}

// TestPlayground_CDN: if the CDN does not respond, refuses, or has another file, the page uses what is embedded.
func TestPlayground_CDN(t *testing.T) {
	browser := browserPath(t)
	s := start(t, "--data", t.TempDir(), "--no-demo")
	writeBlog(s)
	c := newCDN(t, s.Root)
	for name, tt := range map[string]cdn{
		"silent":        {root: c.root, silent: true},
		"missing files": {root: c.root, files: t.TempDir()},
		"another file":  {root: c.root, files: c.files, changed: "dist/yoga-graphiql.umd.js"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPage(t, browser, s.Root)
			p.editor = embedded
			p.answer(tt)
			began := time.Now()
			p.do("open", chromedp.Navigate(s.Root+"/"))
			p.sees(p.query, "query Feed")
			if took := time.Since(began); tt.silent && took < 2*time.Second {
				t.Errorf("the page waited %s", took)
			}
			p.execute()
			p.shows(`"title": "Written before"`)
		})
	}
}

// writeBlog creates users with the names of the viewers, and a post with a comment and a like. It returns the id of
// the post.
func writeBlog(s *instance) (id string) {
	for _, name := range []string{"ada", "grace", "alan"} {
		s.Do(name, createUser, map[string]any{"name": name})
	}
	created := s.Do("ada", createPost, map[string]any{"title": "Written before", "content": "x"})
	id = at(s.T, created, "createPost.post.id").(string)
	s.Do("ada", `mutation($id: ID!) { createComment(input: {postId: $id, content: "First."}) { comment { id } } likePost(input: {postId: $id}) { like { id } } }`, map[string]any{"id": id})
	return id
}

// useExamples executes each of the examples, closes tabs and restores them, and changes the viewer.
func (p *page) useExamples(s *instance) {
	p.t.Helper()
	run := func(tab string, texts ...string) {
		p.t.Helper()
		p.tab(tab)
		p.execute()
		p.shows(texts...)
		p.costs()
	}
	p.hasTabs("Feed Post WritePost CommentAndLike Rename Live")
	p.eval(keepCost)
	run("Feed", `"title": "Written before"`, `"username": "ada"`, `"viewerHasLiked": true`)
	if shown, sent := p.eval(shownCost), p.eval(sentCost); !strings.HasPrefix(shown, sent) {
		p.t.Errorf("the header shows %q, the server has sent %q", shown, sent)
	}
	if result := p.result(); strings.Contains(result, "extensions") {
		p.t.Errorf("the cost is in the result: %s", result)
	}
	run("Post", `"content": "First."`, `"likeCount": 1`)
	for range 2 { // a second run writes nothing
		run("WritePost", `"title": "Hello from the playground"`, `"username": "ada"`)
	}
	feed := at(p.t, s.Do("", q6, nil), "feed.edges").([]any)
	if len(feed) != 2 || at(p.t, feed[0], "node.title") != "Hello from the playground" {
		p.t.Errorf("the feed after one mutation, twice: %v", feed)
	}
	for range 2 {
		run("CommentAndLike", `"content": "Well said."`, `"commentCount": 2`, `"likeCount": 1`)
	}
	run("Rename", `"username": "countess"`)
	run("Post", `"content": "First."`, `"username": "countess"`) // in the session of the rename
	if result := p.result(); strings.Contains(result, `"username": "ada"`) {
		p.t.Errorf("after the rename the post has its old name: %s", result)
	}

	// The page does not show when the subscription has begun, so another client writes posts until one arrives.
	p.tab("Live")
	p.execute()
	written := 0
	next := time.Now()
	eventually(p.t, func() error {
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
	p.shows(`"username": "countess"`)
	p.costs()

	// Each tab has an address, by which a closed one opens again.
	p.tab("Post")
	p.sees(p.address, "#post")
	p.click(p.editor.close)
	p.hasTabs("Feed WritePost CommentAndLike Rename Live")
	p.click(`//summary[text()="Examples"]`)
	p.click(`//a[text()="Post"]`)
	p.hasTabs("Feed WritePost CommentAndLike Rename Live Post")
	p.sees(p.query, "query Post")
	p.execute()
	p.shows(`"content": "First."`)
	p.eval(`location.hash = "#write-a-post"`)
	p.sees(p.query, "mutation WritePost")
	p.click(p.editor.close)
	p.hasTabs("Feed CommentAndLike Rename Live Post")
	p.restore()

	// The viewer is switched in one place.
	p.tab("Feed")
	p.paste("{ viewer { username } }")
	for _, viewer := range []struct{ token, shows string }{
		{"demo:grace", `"username": "grace"`}, {"demo-moderator:alan", `"username": "alan"`}, {"", `"viewer": null`}, {"demo:ada", `"username": "countess"`},
	} {
		p.eval(fmt.Sprintf(`(() => { const select = document.getElementById("viewer"); select.value = %q; select.dispatchEvent(new Event("change")); return select.value; })()`, viewer.token))
		p.execute()
		p.shows(viewer.shows)
	}
}

// keepCost keeps the last cost that the server has sent, for sentCost. shownCost is what the header shows.
const (
	keepCost = `(() => {
		const send = fetch;
		globalThis.fetch = async (...request) => {
			const response = await send(...request);
			if (response.headers.get("Content-Type").includes("json")) {
				const { extensions } = await response.clone().json();
				globalThis.sent = extensions?.cost ?? globalThis.sent; // introspection has none
			}
			return response;
		};
		return "";
	})()`
	sentCost  = `sent.predictedRU.toFixed(1) + " RU predicted, " + sent.actualRU.toFixed(1) + " charged, " + sent.requests + " request"`
	shownCost = `document.getElementById("cost").value`
)

// restore restores all examples.
func (p *page) restore() {
	p.t.Helper()
	p.click(`//summary[text()="Examples"]`)
	p.click(button("Restore all"))
	p.hasTabs("Feed Post WritePost CommentAndLike Rename Live")
}

// look takes screenshots of the page in a wide and a narrow window, light and dark, after a run and with the docs open,
// and checks them with axe.
func (p *page) look(docs string) {
	p.t.Helper()
	packages, _ := clientPackages(p.t)
	axe, err := os.ReadFile(filepath.Join(packages, "axe-core/axe.min.js"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, width := range []int64{1280, 400} {
		for _, theme := range []string{"light", "dark"} {
			// The embedded playground reloads when the theme changes.
			p.do("leave", chromedp.Navigate("about:blank"))
			p.do("forget", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error { // GraphiQL keeps its docs open
				_, err := cdp.Call(ctx, t, storage.ClearDataForOrigin, storage.ClearDataForOriginParams{Origin: p.root, StorageTypes: "local_storage"})
				return err
			}))
			p.do("size", chromedp.EmulateViewport(width, 800))
			p.do("theme", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
				return err
			}))
			p.do("open", chromedp.Navigate(p.root+"/"))
			p.tab("Feed")
			p.execute()
			p.shows(`"title": "Written before"`)
			p.do("axe", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, runtime.Evaluate, runtime.EvaluateParams{Expression: string(axe)})
				return err
			}))
			p.inspect(width, theme)
			p.click(docs)
			p.sees(p.text, "CreatePostPayload")
			p.inspect(width, theme)
		}
	}
}

// inspect checks that the page is readable, and takes a screenshot.
func (p *page) inspect(width int64, theme string) {
	p.t.Helper()
	for _, script := range []string{serious, faint} {
		if found := p.eval(script); found != "" {
			p.t.Errorf("%d px, %s: %s", width, theme, found)
		}
	}
	if wide := p.eval(`String(document.documentElement.scrollWidth)`); wide != fmt.Sprint(width) {
		p.t.Errorf("%d px, %s: the page is %s wide", width, theme, wide)
	}
	p.screenshotAs(fmt.Sprintf("%s-%d-%s", p.editor.name, width, theme))
}

// serious lists what axe finds serious, except in the tabs of GraphiQL, which have buttons within.
const serious = `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations
	.filter(({ id, impact }) => ["serious", "critical"].includes(impact) && id !== "nested-interactive")
	.map(({ id, nodes }) => id + ": " + nodes.slice(0, 3).map(({ html, any }) => html.slice(0, 150) + " " + any[0]?.message).join("; ")).join("\n"))`

// faint lists the visible texts with a contrast of less than 4.5:1. axe does not decide on those over other elements,
// such as the text of editors.
const faint = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const paint = (colors) => { // one over the other; returns the luminance
		for (const { color, opacity } of colors) {
			[canvas.fillStyle, canvas.globalAlpha] = [color, opacity];
			canvas.fillRect(0, 0, 1, 1);
		}
		const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v <= 10 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const found = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let text; text = texts.nextNode();) {
		const element = text.parentElement, range = document.createRange();
		range.selectNode(text);
		const { left, right, top, bottom, width } = range.getBoundingClientRect();
		const outside = right < 0 || bottom < 0 || left > innerWidth || top > innerHeight;
		if (!text.data.trim() || !width || outside || element.tagName === "OPTION" || !element.checkVisibility({ visibilityProperty: true })) continue;
		const behind = [];
		let opacity = 1;
		for (let e = element; e; e = e.parentElement) {
			const style = getComputedStyle(e);
			opacity *= style.opacity;
			behind.unshift({ color: style.backgroundColor, opacity: 1 });
		}
		const ground = paint([{ color: "white", opacity: 1 }, ...behind]);
		const front = paint([{ color: getComputedStyle(element).color, opacity }]);
		const contrast = (Math.max(ground, front) + .05) / (Math.min(ground, front) + .05);
		if (opacity && contrast < 4.5) found.add(contrast.toFixed(2) + " " + element.className + " " + text.data.slice(0, 30));
	}
	return [...found].join("\n");
})()`

// editor is one of the two editors of the playground.
type editor struct {
	name       string
	tab, close string // XPaths of the tab with a name, and of the button that closes the active one
	run        string // XPath of the button
	tabs       string // scripts for the names of the tabs, the text of the operation, and the result
	query      string
	result     string
	paste      string // the start of a script, before the text in quotes
}

var (
	embedded = editor{
		name:  "embedded",
		tab:   `//div[div[contains(@class, "close")]]/div[text()=%q]`,
		close: `//div[contains(@class, "close") and contains(@class, "llKxfP")]`,
		run:   `//div[starts-with(@title, "Execute Query") or starts-with(@title, "Stop")]`,
		tabs:  `[...document.querySelectorAll(".close")].map((close) => close.parentElement.children[1].textContent).join(" ")`,
		query: `document.querySelector(".CodeMirror")?.CodeMirror.getValue() ?? ""`,
		result: `[...document.querySelector("[title^='Execute Query'], [title^='Stop']")?.parentElement.nextElementSibling.querySelectorAll(".CodeMirror") ?? []]
			.map((result) => result.CodeMirror.getValue()).join("\n")`,
		paste: `document.querySelector(".CodeMirror").CodeMirror.setValue`,
	}
	graphiQL = editor{
		name:   "graphiql",
		tab:    `//button[contains(@class, "graphiql-tab-button") and text()=%q]`,
		close:  `//li[contains(@class, "graphiql-tab-active")]//button[contains(@class, "graphiql-tab-close")]`,
		run:    `//button[contains(@class, "graphiql-execute-button")]`,
		tabs:   `[...document.querySelectorAll(".graphiql-tab-button")].map((tab) => tab.textContent).join(" ")`,
		query:  `globalThis.monaco?.editor.getModels().find(({ uri }) => uri.path.endsWith("operation.graphql"))?.getValue() ?? ""`,
		result: `globalThis.monaco?.editor.getModels().find(({ uri }) => uri.path.endsWith("response.json"))?.getValue() ?? ""`,
		paste:  `monaco.editor.getModels().find(({ uri }) => uri.path.endsWith("operation.graphql")).setValue`,
	}
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
		err = exec.Command("tar", "-xzf", filepath.Join(c.files, strings.TrimSpace(string(out))), "-C", c.files, "--strip-components=1").Run()
	}
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return c
}

// answer answers the page's requests to the CDN.
func (p *page) answer(c cdn) {
	p.t.Helper()
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
			_, err := cdp.Call(ctx, t, fetch.FulfillRequest, fetch.FulfillRequestParams{RequestID: e.RequestID, ResponseCode: status, Body: body,
				ResponseHeaders: []*fetch.HeaderEntry{{Name: "Access-Control-Allow-Origin", Value: "*"}, {Name: "Content-Type", Value: types[path.Ext(name)]}}})
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
		_, err := cdp.Call(ctx, t, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: c.root + "*"}}})
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
	t      testing.TB
	ctx    context.Context
	root   string
	editor editor // of the playground

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
	shown := regexp.MustCompile(`^\d+\.\d RU predicted, \d+\.\d charged, \d+ requests?$`)
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
	shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.ArtifactDir(), name+".png")
	if _, err := os.Stat(file); err == nil {
		file = filepath.Join(p.t.ArtifactDir(), name+"-docs.png")
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
		if !slices.ContainsFunc(append(addresses, "data:"), func(address string) bool { return strings.HasPrefix(url, address) }) {
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
