package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"byline/internal/oidctest"
	"byline/internal/servertest"
	"byline/internal/testkit"
)

// proxiesEnv is the environment variable by which .ci/proxies runs TestProxies, which needs nginx and Caddy.
const proxiesEnv = "BYLINE_TEST_PROXIES"

// proxied is three instances behind a proxy.
type proxied struct {
	t         *testing.T
	root      string // https address of the proxy
	client    *http.Client
	instances []*process
	token     string
	log       *output // of the proxy
}

// TestProxies runs the configurations of deploy/proxies in front of three instances.
func TestProxies(t *testing.T) {
	if os.Getenv(proxiesEnv) == "" {
		t.Skip("run by .ci/proxies, which installs nginx and Caddy")
	}
	for name, start := range map[string]func(dir, config string) *exec.Cmd{
		"nginx.conf": func(dir, config string) *exec.Cmd {
			whole := "daemon off;\npid " + dir + "/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				whole += fmt.Sprintf("%s_temp_path %s/%[1]s;\n", kind, dir)
			}
			write(t, dir+"/nginx.conf", whole+config+"}\n")
			return exec.Command("nginx", "-e", "stderr", "-c", dir+"/nginx.conf")
		},
		"Caddyfile": func(dir, config string) *exec.Cmd {
			write(t, dir+"/Caddyfile", "{\nadmin off\nauto_https off\n}\n"+config)
			cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", dir+"/Caddyfile")
			cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
			return cmd
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxied(t, name, start)
			p.testAddress()
			p.testPages()
			p.testWebSocket()
			p.testEventStream()
			p.testDrain()
		})
	}
}

// newProxied starts an emulator, three instances, and a proxy with a file of deploy/proxies, whose addresses and
// certificates it replaces.
func newProxied(t *testing.T, file string, start func(dir, config string) *exec.Cmd) *proxied {
	t.Helper()
	provider := oidctest.New(t)
	args := append(startEmulator(t), "--behind-proxy", "127.0.0.0/8", "--auth-issuer", provider.URL, "--auth-audience",
		"byline",
		"--requests-per-address", "1", "--drain", "3s", "--site", "testdata/site", "--site-url", siteURL)
	t.Setenv("BYLINE_SESSION_KEY", strings.Repeat("k", 32))
	p := &proxied{t: t, token: provider.Token(t, nil)}
	config, err := os.ReadFile(servertest.Path("deploy/proxies/" + file))
	if err != nil {
		t.Fatal(err)
	}
	text := string(config)
	for _, port := range []string{"8080", "8082", "8083"} {
		i := startProcess(t, args...)
		i.WaitReady()
		p.instances = append(p.instances, i)
		text = strings.ReplaceAll(text, "127.0.0.1:"+port, strings.TrimPrefix(i.Root, "http://"))
	}
	dir := t.TempDir()
	address, roots := p.certify(dir)
	_, port, _ := net.SplitHostPort(address)
	text = strings.NewReplacer(
		"listen 443 ssl", "listen "+address+" ssl",
		"/etc/ssl/blog.example.com.pem", dir+"/cert.pem", "/etc/ssl/blog.example.com.key", dir+"/key.pem",
		"blog.example.com {", "https://127.0.0.1:"+port+" {\n\ttls "+dir+"/cert.pem "+dir+"/key.pem",
	).Replace(text)
	cmd, log := start(dir, text), &output{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	p.root, p.log = "https://"+address, log
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true}}
	testkit.Until(t, func() error {
		status, body, err := p.post("{__typename}", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s: %s", status, body, log)
		}
		return err
	})
	return p
}

// certify writes a certificate for loopback, and returns an address that is free and the roots.
func (p *proxied) certify(dir string) (address string, roots *x509.CertPool) {
	p.t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	c := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		p.t.Fatal(err)
	}
	write(p.t, dir+"/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})))
	write(p.t, dir+"/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.Listener.Addr().String(), roots
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Clean(name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// request returns an operation as a POST with further headers.
func (p *proxied) request(query string, header map[string]string) *http.Request {
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, p.root+"/graphql", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return r
}

func (p *proxied) post(query string, header map[string]string) (int, string, error) {
	r, err := p.client.Do(p.request(query, header))
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return r.StatusCode, string(body), err
}

// mutate executes a mutation as ada.
func (p *proxied) mutate(query string) {
	p.t.Helper()
	status, body, err := p.post(query, map[string]string{"Authorization": "Bearer " + p.token})
	if err != nil || status != http.StatusOK || strings.Contains(body, `"errors"`) {
		p.t.Fatalf("%d %s %v", status, body, err)
	}
}

// testAddress: a client cannot take another address by headers, so that the requests of this machine, which are not
// limited, are not taken for those of a remote address.
func (p *proxied) testAddress() {
	p.t.Helper()
	for range 50 {
		status, body,
			err := p.post("{__typename}",
			map[string]string{"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"})
		if err != nil || status != http.StatusOK || strings.Contains(body, "THROTTLED") {
			p.t.Fatalf("%d %s %v", status, body, err)
		}
	}
}

// testPages: a page comes with its status and the headers for caches, and crawlers have their limit.
func (p *proxied) testPages() {
	p.t.Helper()
	get := func(path string, header ...string) *http.Response {
		r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.root+path, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := p.client.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			p.t.Fatal(err)
		}
		return resp
	}
	front := get("/", "Accept-Encoding", "gzip")
	tag := front.Header.Get("ETag")
	if front.StatusCode != http.StatusOK || front.Header.Get("Content-Encoding") != "gzip" || tag == "" ||
		!strings.HasPrefix(front.Header.Get("Cache-Control"), "public, max-age=") {
		p.t.Errorf("the front page: %d %v", front.StatusCode, front.Header)
	}
	if again := get("/", "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
		p.t.Errorf("the front page with its entity tag: %d", again.StatusCode)
	}
	if missing := get("/posts/nothing"); missing.StatusCode != http.StatusNotFound || missing.Header.Get("Cache-Control") != "no-store" {
		p.t.Errorf("a page that does not exist: %d %v", missing.StatusCode, missing.Header)
	}
	if asset := get("/assets/app-4f2a9c1e.js"); !strings.Contains(asset.Header.Get("Cache-Control"), "immutable") {
		p.t.Errorf("an asset: %d %v", asset.StatusCode, asset.Header)
	}
	refused := 0
	for range 100 { // each of three instances admits ten at once, and one each second
		if resp := get("/", "User-Agent", crawlerAgent); resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
			refused++
		}
	}
	if refused == 0 {
		p.t.Error("a crawler has no limit")
	}
}

func (p *proxied) testWebSocket() {
	p.t.Helper()
	p.mutate(`mutation { createUser(input: {username: "ada"}) { user { id } } }`)
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, p.root+"/graphql",
		&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"},
			HTTPClient: &http.Client{
				Transport: &http.Transport{TLSClientConfig: p.client.Transport.(*http.Transport).TLSClientConfig}}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	for _, m := range []string{`{"type":"connection_init"}`,
		`{"type":"subscribe","id":"1","payload":{"query":"subscription { postPublished { title } }"}}`} {
		if err := c.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.publishUntil(ctx, func() (string, error) {
		_, m, err := c.Read(ctx)
		return string(m), err
	})
}

func (p *proxied) testEventStream() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	r, err := p.client.Do(p.request("subscription { postPublished { title } }",
		map[string]string{"Accept": "text/event-stream"}).WithContext(ctx))
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	p.publishUntil(ctx, func() (string, error) { return lines.ReadString('\n') })
}

// publishUntil publishes posts until one is received by a subscription, which may have begun after the first ones.
func (p *proxied) publishUntil(ctx context.Context, receive func() (string, error)) {
	p.t.Helper()
	received := make(chan error, 1)
	go func() {
		for {
			m, err := receive()
			if err != nil || strings.Contains(m, `"title":"through the proxy"`) {
				received <- err
				return
			}
		}
	}()
	for {
		p.mutate(`mutation { createPost(input: {title: "through the proxy", content: "c"}) { post { id } } }`)
		select {
		case err := <-received:
			if err != nil {
				p.t.Fatal(err)
			}
			return
		case <-ctx.Done():
			p.t.Fatal("no event")
		case <-time.After(time.Second):
		}
	}
}

// testDrain: no query by GET fails while an instance stops. nginx, which has no health checks, passes a POST on to
// another instance only if it could not connect to the first.
func (p *proxied) testDrain() {
	p.t.Helper()
	query := p.root + "/graphql?query=" + url.QueryEscape("{ feed(first: 1) { edges { node { title } } } }")
	stopped := make(chan error, 1)
	go func() {
		_ = p.instances[1].Cmd.Process.Signal(syscall.SIGTERM)
		stopped <- p.instances[1].Cmd.Wait()
	}()
	var clients sync.WaitGroup
	done, requests := make(chan struct{}), make([]int, 4)
	for i := range requests {
		clients.Go(func() {
			for ; ; requests[i]++ {
				select {
				case <-done:
					return
				default:
				}
				r, err := p.client.Get(query)
				if err != nil {
					p.t.Error(err)
					return
				}
				body, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode != http.StatusOK || bytes.Contains(body, []byte(`"errors"`)) {
					p.t.Errorf("%d %s %v %s", r.StatusCode, body, err, p.log)
					return
				}
			}
		})
	}
	if err := <-stopped; err != nil {
		p.t.Errorf("%v: %s", err, p.instances[1].Log)
	}
	<-time.After(2 * time.Second) // requests to the two that are left
	close(done)
	clients.Wait()
	for _, n := range requests {
		if n == 0 {
			p.t.Error("a client got no response")
		}
	}
}
