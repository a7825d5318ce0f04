package files_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/files"
)

// azuriteVariable is the environment variable with the folder in which npm has installed testdata/azurite.
const azuriteVariable = "BYLINE_TEST_AZURITE"

// azuriteHost is the host of Azurite's account in the form that accounts in Azure have.
const azuriteHost = "devstoreaccount1.blob.localhost"

// azurite is a running Azurite.
type azurite struct {
	endpoint string
	address  string // host and port
	client   *http.Client
	account  *service.Client

	mu       sync.Mutex
	requests []*http.Request     // guarded by mu; that were sent by Do, without bodies
	deletes  int                 // guarded by mu; how many more deletions Do sends; negative: no limit
	before   func(*http.Request) // guarded by mu; called by Do, if it is not nil
}

// startAzurite starts Azurite with a certificate, without which it takes no tokens. It skips the test if Azurite is not
// installed.
func startAzurite(t *testing.T) *azurite {
	t.Helper()
	installed := os.Getenv(azuriteVariable)
	if installed == "" {
		t.Skip("without " + azuriteVariable)
	}
	dir := t.TempDir()
	certificate := writeCertificate(t, dir)
	cmd := exec.Command("node", filepath.Join(installed, "node_modules/azurite/dist/src/blob/main.js"),
		"--blobPort", "0", "--oauth", "basic", "--cert", "cert.pem", "--key", "key.pem", "--inMemoryPersistence",
		"--skipApiVersionCheck", "--disableTelemetry")
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	listens := regexp.MustCompile(`listens on https://(\S+)`)
	a := &azurite{deletes: -1}
	lines := bufio.NewScanner(out)
	for a.address == "" && lines.Scan() {
		if m := listens.FindStringSubmatch(lines.Text()); m != nil {
			a.address = m[1]
		}
	}
	if a.address == "" {
		t.Fatal("Azurite does not listen")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	_, port, _ := net.SplitHostPort(a.address)
	a.endpoint = "https://" + azuriteHost + ":" + port
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: certificate.DNSNames[0]},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, _, _ := net.SplitHostPort(address); host == azuriteHost {
				address = a.address
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	a.client = &http.Client{Transport: transport}
	a.account, err = service.NewClient(a.endpoint, token{}, &service.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: a.client}})
	if err != nil {
		t.Fatal(err)
	}
	for name, access := range map[string]*container.PublicAccessType{"uploads": nil,
		"files": to.Ptr(container.PublicAccessTypeBlob)} {
		_, err := a.account.CreateContainer(t.Context(), name, &service.CreateContainerOptions{Access: access})
		if err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// writeCertificate writes the certificate of package httptest.
func writeCertificate(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return server.Certificate()
}

// Do implements policy.Transporter.
func (a *azurite) Do(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.requests = append(a.requests, r)
	isDelete := r.Method == http.MethodDelete
	killed := isDelete && a.deletes == 0
	if isDelete && a.deletes > 0 {
		a.deletes--
	}
	before := a.before
	a.mu.Unlock()
	if killed {
		return nil, context.Canceled
	}
	if before != nil {
		before(r)
	}
	return a.client.Do(r)
}

// token is a credential that Azurite accepts.
type token struct{ err error }

func (c token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if c.err != nil {
		return azcore.AccessToken{}, c.err
	}
	now := time.Now()
	part := func(v map[string]any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	claims := part(map[string]any{"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/byline/",
		"nbf": now.Add(-time.Hour).Unix(), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "oid": "byline",
		"tid": "byline"})
	t := part(map[string]any{"alg": "none"}) + "." + claims + "." + base64.RawURLEncoding.EncodeToString([]byte("unsigned"))
	return azcore.AccessToken{Token: testkit.Secret(t), ExpiresOn: now.Add(time.Hour)}, nil
}

// newPlace returns empty Files on Azurite, and a server that redirects to it.
func (a *azurite) newPlace(t *testing.T, o files.Options) *place {
	t.Helper()
	p := &place{t: t, client: a.client, clock: &clock{now: time.Now()}, left: func() []string { return a.blobs(t) }}
	for _, name := range []string{"uploads", "files"} {
		for _, id := range a.names(t, name) {
			if _, err := a.account.NewContainerClient(name).NewBlobClient(id).Delete(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	o.Clock, o.Logger, o.Transport = p.clock.Now, testkit.Logger(), a
	var err error
	if p.Files, err = files.NewBlobs(a.endpoint, token{}, o); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p.Files)
	t.Cleanup(server.Close)
	p.root = server.URL
	return p
}

// names returns the names of the blobs in a container.
func (a *azurite) names(t *testing.T, name string) (names []string) {
	t.Helper()
	for pages := a.account.NewContainerClient(name).NewListBlobsFlatPager(nil); pages.More(); {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Segment.BlobItems {
			names = append(names, *i.Name)
		}
	}
	return names
}

func (a *azurite) blobs(t *testing.T) []string {
	return append(a.names(t, "uploads"), a.names(t, "files")...)
}

func TestFiles_Azurite(t *testing.T) {
	a := startAzurite(t)
	for _, tt := range filesTests {
		t.Run(tt.name, func(t *testing.T) { tt.test(a.newPlace(t, tt.options)) })
	}
	t.Run("other headers", func(t *testing.T) { testOtherHeaders(a.newPlace(t, files.Options{})) })
	t.Run("other bytes", func(t *testing.T) { testOtherBytes(a.newPlace(t, files.Options{})) })
	t.Run("killed deletion", func(t *testing.T) { testKilledDeletion(a, a.newPlace(t, files.Options{})) })
	t.Run("published meanwhile", func(t *testing.T) { testPublishedMeanwhile(a, a.newPlace(t, files.Options{})) })
	t.Run("replaced meanwhile", func(t *testing.T) { testReplacedMeanwhile(a, a.newPlace(t, files.Options{})) })
	t.Run("key", func(t *testing.T) { testKey(a, a.newPlace(t, files.Options{})) })
	t.Run("no signature in requests", func(t *testing.T) {
		for _, r := range a.requests {
			if text := r.URL.String() + copySource(r); strings.Contains(text, "sig=") {
				t.Errorf("%s %s", r.Method, text)
			}
		}
	})
}

// copySource returns what a request copies, "" for others. azblob does not write headers in their canonical form.
func copySource(r *http.Request) string {
	for name, values := range r.Header {
		if strings.EqualFold(name, "x-ms-copy-source") {
			return values[0]
		}
	}
	return ""
}

// testOtherHeaders: what a client adds to its request is not published.
func testOtherHeaders(p *place) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(picture(p.t, "picture.png")); err != nil || w.Close() != nil {
		p.t.Fatal(err)
	}
	for name, header := range map[string]string{"x-ms-blob-content-type": "text/html",
		"x-ms-blob-content-disposition": "attachment", "x-ms-blob-content-encoding": "gzip",
		"x-ms-blob-content-language": "en", "x-ms-blob-cache-control": "no-store"} {
		content := picture(p.t, "picture.png")
		if header == "gzip" {
			content = zipped.Bytes()
		}
		u := p.create("image/png", len(content))
		status := p.send(u, content, func(r *http.Request) { r.Header.Set(name, header) })
		if status != http.StatusCreated {
			p.t.Fatalf("%s: status %d", name, status)
		}
		_, err := p.Publish(p.t.Context(), "ada", u.ID)
		wantError(p.t, err, blog.Invalid, blog.ReasonMismatch, "")
		p.wantLeft()
	}
}

// testOtherBytes: Blob Storage takes bytes of any number, and they are not published.
func testOtherBytes(p *place) {
	content := picture(p.t, "picture.png")
	for _, sent := range [][]byte{content[:50], nil, append(slices.Clone(content), make([]byte, 11_000_000)...)} {
		u := p.create("image/png", len(content))
		if status := p.send(u, sent, nil); status != http.StatusCreated {
			p.t.Fatalf("%d bytes: status %d", len(sent), status)
		}
		if n, err := p.DeleteUploads(p.t.Context(), time.Time{}); n != 1 || err != nil {
			p.t.Errorf("%d bytes: %d deleted, %v", len(sent), n, err)
		}
		if status := p.send(u, sent, nil); status != http.StatusCreated {
			p.t.Fatalf("%d bytes: status %d", len(sent), status)
		}
		_, err := p.Publish(p.t.Context(), "ada", u.ID)
		wantError(p.t, err, blog.Invalid, blog.ReasonMismatch, "")
		p.wantLeft()
	}
	long := files.WithMetadata(p.t, 200_000) // the second read
	id := p.upload("image/jpeg", long)
	if got, err := p.Publish(p.t.Context(), "ada", id); err != nil || got != (files.Picture{Width: 30, Height: 20}) {
		p.t.Error(got, err)
	}
}

// testKilledDeletion: the deletion of a user's 300 files is killed ten times between two of them.
func testKilledDeletion(a *azurite, p *place) {
	const n, kills = 300, 10
	put := func(owner string, i int) blog.FileID {
		id, _ := blog.NewFileID(owner, "image/png", 1, [10]byte{byte(i), byte(i >> 8)})
		if _, err := a.account.NewContainerClient("files").NewBlockBlobClient(string(id)).UploadBuffer(p.t.Context(),
			[]byte{0}, nil); err != nil {
			p.t.Fatal(err)
		}
		return id
	}
	var others []blog.FileID
	for i := range n {
		put("ada", i)
		if i%30 == 0 {
			others = append(others, put("ada-2", i), put("bob", i))
		}
	}
	limit := func(deletes int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.deletes = deletes
	}
	for i := range kills {
		limit(n / (kills + 2))
		if _, err := p.DeleteUser(p.t.Context(), "ada", time.Now().Add(time.Minute)); err == nil {
			p.t.Errorf("deletion %d is not killed", i)
		}
	}
	limit(-1)
	if left, err := p.DeleteUser(p.t.Context(), "ada", time.Now().Add(time.Minute)); err != nil || left == 0 || left == n {
		p.t.Errorf("%d files were left: %v", left, err)
	}
	p.wantLeft(others...)
}

// testPublishedMeanwhile: a file that another call publishes is the result, whatever the upload has.
func testPublishedMeanwhile(a *azurite, p *place) {
	for name, before := range map[string]func(*http.Request) bool{
		"before the upload is read": func(r *http.Request) bool {
			return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/uploads/")
		},
		"before it is copied": func(r *http.Request) bool { return copySource(r) != "" },
	} {
		content := picture(p.t, "picture.png")
		id := p.upload("image/png", content)
		a.once(before, func() { p.publish(id) })
		if got, err := p.Publish(p.t.Context(), "ada", id); err != nil || got != (files.Picture{Width: 20, Height: 10}) {
			p.t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, got := p.get(id); !bytes.Equal(got, content) {
			p.t.Errorf("%s: %d bytes", name, len(got))
		}
	}
}

// once calls f before the first request that is selected.
func (a *azurite) once(selected func(*http.Request) bool, f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before = func(r *http.Request) {
		if selected(r) {
			a.mu.Lock()
			a.before = nil
			a.mu.Unlock()
			f()
		}
	}
}

// testReplacedMeanwhile: bytes that replace an upload after it has been checked are not published.
func testReplacedMeanwhile(a *azurite, p *place) {
	content := picture(p.t, "picture.png")
	id := p.upload("image/png", content)
	a.once(func(r *http.Request) bool { return copySource(r) != "" }, func() {
		upload := a.account.NewContainerClient("uploads").NewBlockBlobClient(string(id))
		if _, err := upload.UploadBuffer(p.t.Context(), []byte("<script>"), nil); err != nil {
			p.t.Error(err)
		}
	})
	_, err := p.Publish(p.t.Context(), "ada", id)
	wantError(p.t, err, blog.Unavailable, "", "")
	if r, _ := p.get(id); r.StatusCode != http.StatusNotFound {
		p.t.Errorf("status %d", r.StatusCode)
	}
	_, err = p.Publish(p.t.Context(), "ada", id) // what has replaced it
	wantError(p.t, err, blog.Invalid, blog.ReasonMismatch, "")
	p.wantLeft()
}

// testKey: a user delegation key is requested once, and again before it expires.
func testKey(a *azurite, p *place) {
	requested := func() (n int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, r := range a.requests {
			if r.URL.Query().Get("comp") == "userdelegationkey" {
				n++
			}
		}
		return n
	}
	before := requested()
	for i, after := range []time.Duration{0, 0, 4 * time.Hour, 2 * time.Hour, time.Hour} {
		p.clock.Advance(after)
		u := p.create("image/png", 10)
		want := 1 + i/3
		if got := requested() - before; got != want {
			p.t.Errorf("upload %d: %d requests for a key, want %d", i, got, want)
		}
		if !strings.Contains(u.URL, "&sp=c&") || !strings.Contains(u.URL, "spr=https&") {
			p.t.Error(u.URL)
		}
	}
}
