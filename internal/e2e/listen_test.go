package e2e

import (
	"byline/internal/servertest"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate makes a certificate for localhost and its key, as PEM.
func certificate(t testing.TB, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// TestTLS: a renewed certificate is used without a restart, once both its files have changed.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	written := time.Now().Add(-time.Hour)
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		written = written.Add(time.Second) // for file systems with coarse timestamps
		if err := os.Chtimes(name, written, written); err != nil {
			t.Fatal(err)
		}
	}
	first, firstKey := certificate(t, 1)
	second, secondKey := certificate(t, 2)
	write(cert, first)
	write(key, firstKey)
	s := start(t, "--data", t.TempDir(), "--no-demo", "--tls-cert", cert, "--tls-key", key)
	address := strings.TrimPrefix(s.Root, "http://")

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(first)
	pool.AppendCertsFromPEM(second)
	serial := func() int64 {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport}).Get("https://" + address + "/graphql?query={__typename}")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK || r.ProtoMajor != 2 ||
			!strings.Contains(string(body), `{"__typename":"Query"}`) {
			t.Fatalf("%s %s %s, %v", r.Proto, r.Status, body, err)
		}
		return r.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	for _, step := range []struct {
		what string
		do   func()
		want int64
	}{
		{"at the start", func() {}, 1},
		{"only the certificate is new", func() { write(cert, second) }, 1},
		{"the key is new, too", func() { write(key, secondKey) }, 2},
		{"unchanged", func() {}, 2},
		{"invalid certificate", func() { write(cert, []byte("x")) }, 2},
		{"missing certificate", func() { _ = os.Remove(cert) }, 2},
		{"both files replaced", func() { write(cert, first); write(key, firstKey) }, 1},
	} {
		step.do()
		if got := serial(); got != step.want {
			t.Errorf("%s: certificate %d, want %d", step.what, got, step.want)
		}
	}
	old := &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}
	if c, err := tls.Dial("tcp", address, old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is accepted")
	}
	if !strings.Contains(s.Log.String(), "url=https://") {
		t.Error(s.Log)
	}
}

// get sends a query with a header, and returns the response and its body.
func get(i *instance, header http.Header) (*http.Response, string) {
	i.T.Helper()
	r, err := http.NewRequest(http.MethodGet, i.Root+"/graphql?query={__typename}", nil)
	if err != nil {
		i.T.Fatal(err)
	}
	r.Header = header
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		i.T.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		i.T.Fatal(err)
	}
	return response, string(body)
}

// TestBehindProxy: rates are limited per client behind the proxy: one over the limit gets Retry-After, others are
// served.
func TestBehindProxy(t *testing.T) {
	s := start(t, "--data", t.TempDir(), "--no-demo", "--auth-issuer", "https://localhost:1", "--auth-audience", "x",
		"--behind-proxy", "127.0.0.1,::1,10.0.0.0/8", "--requests-per-address", "1")
	client := func(hops string) http.Header {
		return http.Header{"X-Forwarded-For": {hops}, "Accept": {"application/graphql-response+json"}}
	}
	refused := 0
	for n := range 50 { // more than the burst and what refills meanwhile
		r, body := get(s, client(fmt.Sprintf("203.0.113.%d, 198.51.100.7, 10.1.2.3", n)))
		if r.StatusCode == http.StatusOK {
			continue
		}
		if refused++; r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" ||
			!strings.Contains(body, "THROTTLED") {
			t.Errorf("%s %v %s", r.Status, r.Header, body)
		}
	}
	if refused == 0 {
		t.Error("no request is refused")
	}
	if r, body := get(s, client("198.51.100.8")); r.StatusCode != http.StatusOK {
		t.Errorf("another client: %s %s", r.Status, body)
	}
}

// TestCORSOrigins: by default pages of other origins may only send a GET; --cors-origins allows more.
func TestCORSOrigins(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		args := []string{"--data", t.TempDir(), "--no-demo"}
		if allowed {
			args = append(args, "--cors-origins", "https://other.example,https://app.example")
		}
		r, body := get(start(t, args...),
			http.Header{"Origin": {"https://app.example"}, "Sec-Fetch-Site": {"cross-site"}})
		if got := r.Header.Get("Access-Control-Allow-Origin"); (got == "https://app.example") != allowed {
			t.Errorf("%q: %s", got, body)
		}
	}
}

const plainGet = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

// TestMaxConnections: a connection over the limit is refused, open ones are served, and after one is closed the next
// is accepted.
func TestMaxConnections(t *testing.T) {
	s := start(t, "--data", t.TempDir(), "--no-demo", "--max-connections", "3")
	var open []net.Conn
	for n := range 3 {
		c := s.Dial(plainGet)
		if code, _ := servertest.Status(t, c); code != http.StatusOK {
			t.Fatalf("connection %d: %d", n, code)
		}
		open = append(open, c)
	}
	if code, header := servertest.Status(t, s.Dial("")); code != http.StatusServiceUnavailable ||
		header.Get("Retry-After") != "1" {
		t.Errorf("one more: %d %v", code, header)
	}
	for n, c := range open {
		if _, err := io.WriteString(c, plainGet); err != nil {
			t.Fatal(err)
		}
		if code, _ := servertest.Status(t, c); code != http.StatusOK {
			t.Errorf("connection %d again: %d", n, code)
		}
	}
	open[0].Close()
	eventually(t, func() error {
		c := s.Dial("")
		defer c.Close()
		_, _ = io.WriteString(c, plainGet) // may be closed already
		if code, _ := servertest.Status(t, c); code != http.StatusOK {
			return fmt.Errorf("refused after one is closed: %d", code)
		}
		return nil
	})
}

// TestLongHeader: a header of 32 KB is accepted, one of 200 KB is refused.
func TestLongHeader(t *testing.T) {
	s := start(t, "--data", t.TempDir(), "--no-demo")
	if code, _ := servertest.Status(t,
		s.Dial("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 200<<10)+
			"\r\n\r\n")); code != http.StatusRequestHeaderFieldsTooLarge && code != 0 {
		t.Errorf("a header of 200 KB: status %d", code)
	}
	if r, body := get(s, http.Header{"X-Long": {strings.Repeat("x", 32<<10)}}); r.StatusCode != http.StatusOK {
		t.Errorf("a header of 32 KB: %s %s", r.Status, body)
	}
}
