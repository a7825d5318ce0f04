package auth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/testkit"
)

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns the text since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.MultiWriter(l, testkit.LogWriter), nil))
}

// Ready and the log of Run name the cause of an outage; Ready without addresses, since it is public.
func TestOIDC_CauseOfOutage(t *testing.T) {
	respond := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "$URL", "http://"+r.Host))
		}
	}
	for name, tt := range map[string]struct {
		discovery http.HandlerFunc // nil: nothing listens
		keys      http.HandlerFunc
		cause     string // $URL is the issuer
	}{
		"another issuer": {respond(200, `{"issuer":"$URL/","jwks_uri":"$URL/keys"}`), nil,
			`the discovery document has the issuer "$URL/", not "$URL"`},
		"no issuer":             {respond(200, `{}`), nil, `the discovery document has the issuer "", not "$URL"`},
		"no discovery":          {respond(404, "no page"), nil, "404 Not Found"},
		"a status without text": {respond(599, ""), nil, "599"},
		"not JSON":              {respond(200, "<html>"), nil, "the response is not the expected JSON"},
		"nothing listens":       {nil, nil, "connection refused"},
		"a broken response": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, nil, "the connection failed"},
		"redirect to a file": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		}, nil, errUnsafeRedirect.Error()},
		"no keys": {respond(200, `{"issuer":"$URL","jwks_uri":"$URL/keys"}`), respond(200, `{"keys":[]}`),
			"there are no public keys for signatures"},
		"no address of keys": {respond(200, `{"issuer":"$URL"}`), nil,
			"the jwks_uri in the discovery document is not an https address"},
		"keys not authorized": {respond(200, `{"issuer":"$URL","jwks_uri":"$URL/keys"}`), respond(403, "secret"),
			"403 Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			s := httptest.NewServer(mux)
			defer s.Close()
			if tt.discovery == nil {
				s.Close()
			} else {
				mux.HandleFunc("/.well-known/openid-configuration", tt.discovery)
			}
			if tt.keys != nil {
				mux.HandleFunc("/keys", tt.keys)
			}
			log := &lines{}
			v, err := NewOIDC(OIDCOptions{Issuer: s.URL, Audience: "byline", Logger: log.logger()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = v.Run(ctx) })
			defer running.Wait()
			defer stop()
			var text string
			testkit.WaitFor(t, func() bool { text += log.take(); return text != "" })
			known, err := v.Ready()
			var e *KeysError
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			if want := strings.ReplaceAll(tt.cause, "$URL", s.URL); known || e.Cause != want {
				t.Errorf("keys known %t, cause %s; want false and %s", known, e.Cause, want)
			}
			if !strings.HasPrefix(e.URL, s.URL) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v", err)
			}
			if !strings.Contains(text, "level=WARN") || !strings.Contains(text, "not ready") ||
				!strings.Contains(text, s.URL) || strings.Count(text, "\n") != 1 {
				t.Errorf("log: %s", text)
			}
		})
	}
}

func TestConnectionCause(t *testing.T) {
	private := httptest.NewUnstartedServer(http.NotFoundHandler())
	private.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	private.StartTLS()
	defer private.Close()
	get := func(c http.Client, url string) error {
		r, err := c.Get(url)
		if err == nil {
			r.Body.Close()
			t.Errorf("%s: no error", url)
		}
		return err
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for want, err := range map[string]error{
		"no response in time": get(http.Client{Timeout: 10 * time.Millisecond},
			"http://"+silent.Addr().String()),
		"the certificate is not trusted": get(http.Client{Transport: &http.Transport{}}, private.URL),
		"the host name does not resolve": &net.OpError{Err: &net.DNSError{Name: "secret.example"}},
		"the connection failed":          io.ErrUnexpectedEOF,
	} {
		if got := connectionCause(err); got != want {
			t.Errorf("%v: cause %q, want %q", err, got, want)
		}
	}
}

func TestOutageLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		l := outageLog{log: log.logger()}
		refused := func() error {
			return &KeysError{URL: "https://id.example", Cause: "connection refused",
				Err: errors.New(time.Now().String())}
		}
		lost := &KeysError{Cause: "no response in time"}
		observe := func(known bool, err error, want string) {
			t.Helper()
			l.observe(known, err)
			if got := log.take(); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("logged %q, want %q", got, want)
			}
		}
		observe(true, nil, "")
		observe(false, refused(), "not ready")
		for range 200 {
			time.Sleep(time.Second)
			observe(false, refused(), "")
		}
		observe(false, lost, "no response in time")
		observe(false, refused(), "") // two causes alternate
		time.Sleep(outageCauseInterval)
		observe(false, refused(), "connection refused")
		time.Sleep(outageLogInterval)
		observe(false, refused(), "connection refused")
		observe(true, nil, "level=INFO msg=\"identity provider's keys fetched again\"")
		observe(true, nil, "")
		observe(true, refused(), "only tokens of known keys")
	})
}
