package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// application uses the server at root as a page of another origin, over every transport. Each result is
// the value or "refused".
const application = `(async (root) => {
  const url = root + "/graphql";
  const headers = { "Content-Type": "application/json", Authorization: "Bearer demo:ada" };
  const send = (query, more) => fetch(url, { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify({ query }) });
  const create = (title) => send('mutation { createPost(input: {title: "' + title + '", content: "c"}) { post { title } } }');
  const refused = (promise) => promise.catch(() => "refused");

  // until publishes posts until the promise resolves.
  const until = async (promise) => {
    let done = false;
    promise.finally(() => (done = true)).catch(() => {});
    while (!done) {
      await refused(create("to follow"));
      await Promise.race([promise.catch(() => {}), new Promise((resolve) => setTimeout(resolve, 200))]);
    }
    return promise;
  };

  const socket = () => new Promise((resolve, reject) => {
    const ws = new WebSocket(url.replace("http", "ws"), "graphql-transport-ws");
    const say = (message) => ws.send(JSON.stringify(message));
    ws.onopen = () => say({ type: "connection_init" });
    ws.onerror = ws.onclose = reject;
    ws.onmessage = ({ data }) => {
      const { type, payload } = JSON.parse(data);
      if (type === "connection_ack") say({ id: "1", type: "subscribe", payload: { query: "subscription { postPublished { title } }" } });
      if (type === "next") resolve(typeof payload.data.postPublished.title);
    };
  });

  const stream = async () => {
    const response = await send("subscription { postPublished { title } }", { Accept: "text/event-stream" });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) throw new Error(text);
      text += value;
      const event = text.match(/data: (.*)\n/);
      if (event) return typeof JSON.parse(event[1]).data.postPublished.title;
    }
  };

  const query = await refused(send("{ viewer { username } }"));
  const get = await refused(fetch(url + "?query={viewer{username}}", { headers: { Authorization: headers.Authorization } }).then((r) => r.text()));
  const mutation = await refused(create("by a page"));
  return JSON.stringify({
    query: query === "refused" ? query : (await query.json()).data.viewer.username,
    exposed: query === "refused" ? "" : typeof query.headers.get("X-Request-Id"),
    get: get === "refused" ? get : JSON.parse(get).data.viewer.username,
    mutation: mutation === "refused" ? mutation : (await mutation.json()).data.createPost.post.title,
    socket: await refused(until(socket())),
    stream: await refused(until(stream())),
  });
})`

// used has the results of application.
type used struct{ Query, Exposed, Get, Mutation, Socket, Stream string }

var (
	allWorks   = used{"ada", "string", "ada", "by a page", "string", "string"}
	allRefused = used{"refused", "", "refused", "refused", "refused", "refused"}
)

// use runs the application in a page at that address.
func (p *page) use(address string, s *instance) (got used) {
	p.t.Helper()
	p.do("open", chromedp.Navigate(address))
	result, err := chromedp.Run(p.ctx,
		chromedp.Evaluate[string](fmt.Sprintf("%s(%q)", application, s.Root), chromedp.EvalAwaitPromise))
	if err == nil {
		err = json.Unmarshal([]byte(result), &got)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// pages serves an empty page, as the server of a front end does, on loopback.
func pages(t testing.TB) (root, port string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>application</title>")
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err = net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	return s.URL, port
}

// TestOriginsInBrowser_LoopbackPage: a page of a loopback origin on another port may use every transport.
func TestOriginsInBrowser_LoopbackPage(t *testing.T) {
	path := browserPath(t)
	s := start(t, "--data", t.TempDir(), "--no-demo")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	root, port := pages(t)
	p := openPage(t, path, root, "MAP localhost 127.0.0.1")
	for _, address := range []string{root, "http://localhost:" + port} {
		if diff := cmp.Diff(allWorks, p.use(address, s)); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
	}
	if strings.Contains(s.Log.String(), "origin refused") {
		t.Error(s.Log)
	}
}

// TestOriginsInBrowser_OtherPage: a page of another origin is refused until the flag that the log names is set.
func TestOriginsInBrowser_OtherPage(t *testing.T) {
	path := browserPath(t)
	root, port := pages(t)
	origin := "http://app.example:" + port
	const fix = "--cors-origins="
	p := openPage(t, path, root, "MAP app.example 127.0.0.1")

	s := start(t, "--data", t.TempDir(), "--no-demo")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	if diff := cmp.Diff(allRefused, p.use(origin, s)); diff != "" {
		t.Error(diff)
	}
	want := fmt.Sprintf(`level=WARN msg="origin refused" origin=%s admit-with="%s%[1]s"`, origin, fix)
	if n := strings.Count(s.Log.String(), "origin refused"); n != 1 || !strings.Contains(s.Log.String(), want) {
		t.Errorf("%d lines, want one %s: %s", n, want, s.Log)
	}
	p.mu.Lock()
	console := strings.Join(p.pageErrors, "\n")
	p.mu.Unlock()
	// which docs/graphql.md quotes
	for _, text := range []string{"blocked by CORS policy", "Unexpected response code: 403"} {
		if !strings.Contains(console, text) {
			t.Errorf("the console lacks %q: %s", text, console)
		}
	}
	if feed := at(t, s.Do("", q6, nil), "feed.edges").([]any); len(feed) != 0 {
		t.Errorf("the refused page has written %v", feed)
	}
	s.Stop()

	s = start(t, "--data", t.TempDir(), "--no-demo", fix+origin)
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	if diff := cmp.Diff(allWorks, p.use(origin, s)); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(s.Log.String(), "origin refused") {
		t.Error(s.Log)
	}
}
