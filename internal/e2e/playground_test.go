package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
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
	writeBlog(s)
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
	p.shows(`"username": "wordsmith"`)
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
	p.hasTabs(exampleTabs)
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
			p.sees(p.query, "mutation SignUp")
			if took := time.Since(began); tt.silent && took < 2*time.Second {
				t.Errorf("the page waited %s", took)
			}
			p.tab("Feed")
			p.execute()
			p.shows(`"title": "Written before"`)
		})
	}
}

// TestPlayground_Blocked: where the browser blocks site data, both editors work. They keep nothing.
func TestPlayground_Blocked(t *testing.T) {
	browser := browserPath(t)
	s := start(t, "--data", t.TempDir(), "--no-demo")
	writeBlog(s)
	c := newCDN(t, s.Root)
	for _, tt := range []struct {
		editor  editor
		address string
	}{{embedded, "/?embedded"}, {graphiQL, "/"}} {
		t.Run(tt.editor.name, func(t *testing.T) {
			p := newPage(t, browser, s.Root)
			p.editor = tt.editor
			p.answer(c)
			p.do("block", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, cdppage.AddScriptToEvaluateOnNewDocument,
					cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: blockSiteData})
				return err
			}))
			p.do("open", chromedp.Navigate(s.Root+tt.address))
			p.hasTabs(exampleTabs)
			p.tab("Feed")
			p.execute()
			p.shows(`"title": "Written before"`)
			p.paste("{ viewer { username } }")
			p.execute()
			p.shows(`"viewer": null`)
			p.choose("demo:ada")
			p.execute()
			p.shows(`"username": "ada"`)
			p.restore()
			p.tab("Feed")
			p.sees(p.query, "query Feed") // the text again
			p.done(s.Root+"/", c.root, "blob:"+s.Root+"/")
		})
	}
}

// blockSiteData does what a browser that blocks site data does: to name a storage is an error.
const blockSiteData = `for (const name of ["localStorage", "sessionStorage", "indexedDB", "caches"]) {
	const get = () => { throw new DOMException("Access is denied for this document.", "SecurityError"); };
	Object.defineProperty(window, name, { configurable: true, get });
}`

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

// exampleTabs are the tabs of the examples, in their order.
const exampleTabs = "SignUp WritePost Feed Post Search Home CommentAndLike Retry Rename Live"

// run runs the operation of a tab, and waits until its response has the texts.
func (p *page) run(tab string, texts ...string) {
	p.t.Helper()
	p.tab(tab)
	p.execute()
	p.shows(texts...)
	if result := p.result(); strings.Contains(result, `"errors"`) {
		p.t.Errorf("%s: %s", tab, result)
	}
}

// listen runs Live, and waits until it listens.
func (p *page) listen() {
	p.t.Helper()
	p.tab("Live")
	p.execute()
	p.sees(func() string { return p.eval(p.editor.listening) }, "Listening")
}

// choose selects the viewer with a token.
func (p *page) choose(token string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`(() => {
		const select = document.getElementById("viewer");
		select.value = %q;
		select.dispatchEvent(new Event("change"));
		return select.value;
	})()`, token))
}

// TestPlayground_InOrder runs the examples in the order of their tabs, on an empty and on the demo blog: each shows
// data. Live shows the post of WritePost that is run in a second window, which has the tabs of the first.
func TestPlayground_InOrder(t *testing.T) {
	browser := browserPath(t)
	for name, tt := range map[string]struct {
		editor  editor
		address string
		flags   []string
	}{
		"GraphiQL, empty blog": {graphiQL, "/", []string{"--no-demo"}},
		"embedded, demo blog":  {embedded, "/?embedded", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, append([]string{"--data", t.TempDir()}, tt.flags...)...)
			s.WaitReady()
			p := newPage(t, browser, s.Root)
			p.editor = tt.editor
			if tt.editor.name == graphiQL.name {
				p.answer(newCDN(t, s.Root))
			}
			p.do("open", chromedp.Navigate(s.Root+tt.address))
			p.hasTabs(exampleTabs)
			for range 2 { // in one and the same window
				p.runInOrder()
				p.tab("Live")
				p.execute() // stops
			}
			p.listen()
			second := p.window()
			second.do("open", chromedp.Navigate(s.Root+tt.address))
			second.hasTabs(exampleTabs)
			second.run("WritePost", `"title": "Hello from the playground"`)
			p.shows(`"postPublished"`, `"title": "Hello from the playground"`, `"username": "wordsmith"`)

			p.choose("")
			p.tab("WritePost")
			p.execute()
			p.shows(`"UNAUTHENTICATED"`, `select another viewer above, in \"Viewer\"`)
			if len(p.pageErrors) > 0 {
				t.Error(p.pageErrors)
			}
		})
	}
}

// runInOrder runs the examples in the order of their tabs, and leaves Live listening.
func (p *page) runInOrder() {
	p.t.Helper()
	p.run("SignUp", `"createUser"`, `"username": "`)
	p.run("WritePost", `"title": "Hello from the playground"`)
	p.run("Feed", `"title": "Hello from the playground"`)
	p.run("Post", `"content": "`)
	p.run("Search", `"title": "Hello from the playground"`, `"start": `)
	p.run("CommentAndLike", `"content": "Well said."`, `"viewerHasLiked": true`)
	p.run("Retry", `"title": "Written once"`)
	p.run("Rename", `"username": "wordsmith"`)
	p.listen()
}

// useExamples executes each of the examples, closes tabs and restores them, and changes the viewer.
func (p *page) useExamples(s *instance) {
	p.t.Helper()
	run := func(tab string, texts ...string) {
		p.t.Helper()
		p.run(tab, texts...)
		p.costs()
	}
	p.hasTabs(exampleTabs)
	p.eval(keepCost)
	run("SignUp", `"username": "newcomer"`)
	run("Feed", `"title": "Written before"`, `"username": "ada"`, `"viewerHasLiked": false`)
	if shown, sent := p.eval(shownCost), p.eval(sentCost); !strings.HasPrefix(shown, sent) {
		p.t.Errorf("the header shows %q, the server has sent %q", shown, sent)
	}
	if result := p.result(); strings.Contains(result, "extensions") {
		p.t.Errorf("the cost is in the result: %s", result)
	}
	run("Post", `"content": "First."`, `"likeCount": 1`)
	for range 2 { // a second run writes nothing
		run("Retry", `"title": "Written once"`)
	}
	feed := at(p.t, s.Do("", q6, nil), "feed.edges").([]any)
	if len(feed) != 2 || at(p.t, feed[0], "node.title") != "Written once" {
		p.t.Errorf("the feed after one mutation, twice: %v", feed)
	}
	run("WritePost", `"title": "Hello from the playground"`, `"username": "newcomer"`)
	run("Search", `"title": "Hello from the playground"`)
	for n := range 2 {
		run("CommentAndLike", `"content": "Well said."`, fmt.Sprintf(`"commentCount": %d`, n+2), `"likeCount": 2`)
	}
	run("Rename", `"username": "wordsmith"`)
	if cost := p.eval(shownCost); !regexp.MustCompile(`, about \d+ later for [1-9]\d* items?, `).MatchString(cost) {
		p.t.Errorf("the cost of a rename does not say that of its job: %s", cost)
	}
	run("Post", `"content": "First."`, `"username": "wordsmith"`) // in the session of the rename
	if result := p.result(); strings.Contains(result, `"username": "newcomer"`) {
		p.t.Errorf("after the rename the post has its old name: %s", result)
	}
	p.listen()
	s.Do("newcomer", createPost, map[string]any{"title": "Live", "content": "x"})
	p.shows(`"title": "Live"`, `"username": "wordsmith"`)
	p.costs()

	// Each tab has an address, by which a closed one opens again.
	p.tab("Post")
	p.sees(p.address, "#post")
	p.sees(p.query, "query Post")
	p.pause()
	p.click(p.editor.close)
	p.hasTabs("SignUp WritePost Feed Search Home CommentAndLike Retry Rename Live")
	eventually(p.t, func() error {
		if strings.Contains(p.query(), "query Post") {
			return errors.New("the closed tab is still shown")
		}
		return nil
	})
	p.pause()
	p.click(`//summary[text()="Examples"]`)
	p.click(`//a[text()="Post"]`)
	p.hasTabs("SignUp WritePost Feed Search Home CommentAndLike Retry Rename Live Post")
	p.sees(p.query, "query Post")
	p.execute()
	p.shows(`"content": "First."`)
	p.eval(`location.hash = "#write-a-post"`)
	p.sees(p.query, "mutation WritePost")
	p.pause()
	p.click(p.editor.close)
	p.hasTabs("SignUp Feed Search Home CommentAndLike Retry Rename Live Post")
	p.restore()

	// The viewer is switched in one place.
	p.tab("Feed")
	p.paste("{ viewer { username } }")
	for _, viewer := range []struct{ token, shows string }{
		{"demo:grace", `"username": "grace"`}, {"demo-moderator:alan", `"username": "alan"`}, {"", `"viewer": null`},
		{"demo:newcomer", `"username": "wordsmith"`},
	} {
		p.choose(viewer.token)
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
	p.hasTabs(exampleTabs)
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
			// GraphiQL keeps its docs open
			p.do("forget", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, storage.ClearDataForOrigin,
					storage.ClearDataForOriginParams{Origin: p.root, StorageTypes: "local_storage"})
				return err
			}))
			p.do("size", chromedp.EmulateViewport(width, 800))
			p.do("theme", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia,
					emulation.SetEmulatedMediaParams{
						Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
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
	p.eval(`Promise.allSettled(document.getAnimations()
		.filter((animation) => animation.effect.getComputedTiming().endTime < Infinity)
		.map((animation) => animation.finished)).then(() => "")`)
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
		const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(
			(v) => v <= 10 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4);
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
	listening  string // the text that shows that a subscription waits for its first event
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
		listening: `document.body.innerText`,
		paste:     `document.querySelector(".CodeMirror").CodeMirror.setValue`,
	}
	graphiQL = editor{
		name:      "graphiql",
		tab:       `//button[contains(@class, "graphiql-tab-button") and text()=%q]`,
		close:     `//li[contains(@class, "graphiql-tab-active")]//button[contains(@class, "graphiql-tab-close")]`,
		run:       `//button[contains(@class, "graphiql-execute-button")]`,
		tabs:      `[...document.querySelectorAll(".graphiql-tab-button")].map((tab) => tab.textContent).join(" ")`,
		query:     `globalThis.monaco?.editor.getModels().find(({ uri }) => uri.path.endsWith("operation.graphql"))?.getValue() ?? ""`,
		result:    `globalThis.monaco?.editor.getModels().find(({ uri }) => uri.path.endsWith("response.json"))?.getValue() ?? ""`,
		listening: `globalThis.monaco?.editor.getModels().find(({ uri }) => uri.path.endsWith("response.json"))?.getValue() ?? ""`,
		paste:     `monaco.editor.getModels().find(({ uri }) => uri.path.endsWith("operation.graphql")).setValue`,
	}
)
