package main

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

// TestPlayground uses the playground as a person does, in a browser that reaches
// nothing but this server. -artifacts keeps what it looked like.
func TestPlayground(t *testing.T) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		path, err = exec.LookPath("google-chrome")
	}
	if _, required := os.LookupEnv(clientsEnv); err != nil && required {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("needs chromium or google-chrome")
	}
	s := start(t, "--data", t.TempDir(), "--no-demo")
	s.do("ada", createUser, map[string]any{"name": "ada"})
	s.do("ada", createPost, map[string]any{"title": "Written before", "content": "x"})
	p := openPage(t, path, s.root)

	p.execute()
	p.shows(`"title": "Written before"`, `"username": "ada"`, `"viewerHasLiked": false`, `"actualRU": `)

	p.tab("Write a post")
	p.execute()
	p.shows(`"title": "Hello from the playground"`, `"username": "ada"`)
	feed := at(t, s.do("", q6, nil), "feed.edges").([]any)
	if len(feed) != 2 || at(t, feed[0], "node.title") != "Hello from the playground" {
		t.Errorf("the feed after one mutation: %v", feed)
	}

	p.tab("Me")
	p.write(`{ viewer { name: username } }`)
	p.execute()
	p.shows(`"name": "ada"`)
	p.write(`{ viewer { nothing } }`)
	p.execute()
	p.shows(`"GRAPHQL_VALIDATION_FAILED"`)

	p.tab("Live")
	p.execute()
	// The page does not tell when the subscription has begun, so posts are written until
	// one arrives.
	written := 0
	eventually(t, func() error {
		s.do("ada", createPost, map[string]any{"title": fmt.Sprintf("Live %d", written), "content": "x"})
		written++
		for range 20 {
			if strings.Contains(p.result(), `"title": "Live `) {
				return nil
			}
			time.Sleep(50 * time.Millisecond)
		}
		return fmt.Errorf("%d posts were written, and the page shows %q", written, p.result())
	})
	p.shows(`"username": "ada"`)
	p.done()
}

// page is a page of the server in a browser of its own.
type page struct {
	t    testing.TB
	ctx  context.Context
	root string

	mu       sync.Mutex
	requests []string // guarded by mu
	troubles []string // guarded by mu; what the page complained of
	shots    int
}

// openPage opens the server's page. The browser ends with the test.
func openPage(t testing.TB, path, root string) *page {
	t.Helper()
	host := strings.TrimPrefix(root, "http://")
	address, _, _ := strings.Cut(host, ":")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 900),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE "+address))...)
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
			p.troubles = append(p.troubles, fmt.Sprintf("%+v", e.ExceptionDetails))
		case *log.EventEntryAdded:
			p.troubles = append(p.troubles, fmt.Sprintf("%+v", e.Entry))
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

// execute presses the button.
func (p *page) execute() {
	p.t.Helper()
	p.click(`//div[starts-with(@title, "Execute Query")]`)
}

// selectAll selects what is in the editor.
func (p *page) selectAll() {
	p.t.Helper()
	p.click(`//div[contains(@class, "active")]//div[contains(@class, "CodeMirror-lines")]`)
	p.do("select all", chromedp.KeyEvent("a", chromedp.KeyModifiers(kb.ModifierCtrl)))
}

// write types over what is in the editor.
func (p *page) write(text string) {
	p.t.Helper()
	p.selectAll()
	p.do("type", chromedp.KeyEvent(text))
}

// paste is write at once, so that the editor suggests nothing: it leaves suggestions lying
// about, perhaps over the button, when one types as fast as write.
func (p *page) paste(text string) {
	p.t.Helper()
	p.selectAll()
	if ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`document.execCommand("insertText", false, %q)`, text))); !ok || err != nil {
		p.t.Fatalf("pasted: %v, %v", ok, err)
	}
}

// result is what can be read to the right of the button.
func (p *page) result() string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](
		`document.querySelector("[title^='Execute Query']").parentElement.nextElementSibling.innerText`))
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// shows waits until the result has all of the texts.
func (p *page) shows(texts ...string) {
	p.t.Helper()
	eventually(p.t, func() error {
		result := p.result()
		for _, text := range texts {
			if !strings.Contains(result, text) {
				return fmt.Errorf("no %s in the result, which is %q", text, result)
			}
		}
		return nil
	})
	shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	p.shots++
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), fmt.Sprintf("%d.png", p.shots)), shot, 0o666); err != nil {
		p.t.Fatal(err)
	}
}

// done judges what the page did.
func (p *page) done() {
	p.t.Helper()
	p.mu.Lock()
	requests, troubles := p.requests, p.troubles
	p.mu.Unlock()
	sockets := 0
	for _, url := range requests {
		switch {
		case strings.HasPrefix(url, "ws"+strings.TrimPrefix(p.root, "http")+"/"):
			sockets++
		case !strings.HasPrefix(url, p.root+"/") && !strings.HasPrefix(url, "data:"):
			p.t.Errorf("the page asked for %s", url)
		}
	}
	if len(requests) < 5 || sockets == 0 {
		p.t.Errorf("%d sockets among %v", sockets, requests)
	}
	if len(troubles) > 0 {
		p.t.Errorf("the page complains: %s", strings.Join(troubles, "\n"))
	}
	if err := chromedp.Do(p.ctx, chromedp.Navigate("http://example.com/")); err == nil {
		p.t.Error("the browser reaches other servers")
	}
}
