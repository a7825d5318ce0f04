package cosmostest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store/emulator"
)

// Environment variables of the conformance mode.
const (
	// EndpointVariable is the endpoint of the account on which tests run instead of an embedded engine.
	EndpointVariable = "BYLINE_TEST_ENDPOINT"

	// KeyVariable is the key of that account. Without one, DefaultAzureCredential is used. On Azure, only
	// the key may create databases, as tests do.
	KeyVariable = "COSMOS_KEY"
)

// Account is the account of one test. Its fields configure cosmos.Options and azcosmos.
type Account struct {
	Endpoint   string
	Key        string                 // "" with a Credential
	Credential azcore.TokenCredential // nil with a Key
	Transport  policy.Transporter     // sends requests to the account; never nil

	// Database is the name of a database that does not exist yet. If the test creates it, it is deleted when
	// the test ends.
	Database string

	// Engine is the embedded engine; nil on an endpoint.
	Engine *emulator.Engine

	faults *faulttest.Injector // of Transport
}

// Inject injects faults into the requests of Transport: see faulttest.Injector.
func (a *Account) Inject(decide func(faulttest.Operation) faulttest.Response) {
	a.faults.Inject(decide)
}

// OnEndpoint reports whether tests run on the endpoint of EndpointVariable.
func OnEndpoint() bool { return os.Getenv(EndpointVariable) != "" }

// NeedsEngine skips a test on an endpoint. why completes the sentence "needs the embedded engine: ".
func NeedsEngine(t testing.TB, why string) {
	t.Helper()
	if OnEndpoint() {
		t.Skipf("needs the embedded engine: %s (%s is set)", why, EndpointVariable)
	}
}

// Run runs a test on synctest's fake clock, or on an endpoint in real time. The test must open its
// Account itself.
func Run(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if OnEndpoint() {
		test(t)
		return
	}
	synctest.Test(t, test)
}

// Open returns an account: a new engine with the options o, or the endpoint, which ignores o. It
// sets the engine's logger and closes the engine when the test ends.
func Open(t testing.TB, o emulator.Options) *Account {
	t.Helper()
	if OnEndpoint() {
		return openEndpoint(t)
	}
	o.Logger = testkit.Logger()
	engine, err := emulator.Open("", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	key := o.Key
	if key == "" {
		key = emulator.WellKnownKey
	}
	faults := &faulttest.Injector{To: engine}
	return &Account{Endpoint: engine.Endpoint(), Key: testkit.Secret(key), Transport: faults, Database: "blog",
		Engine: engine, faults: faults}
}

func openEndpoint(t testing.TB) *Account {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	t.Cleanup(transport.CloseIdleConnections)
	charged := &charge{to: &http.Client{Transport: transport}}
	faults := &faulttest.Injector{To: charged}
	t.Cleanup(func() { t.Logf("charged %.0f RU", float64(charged.hundredths.Load())/100) })
	a := &Account{
		Endpoint:  os.Getenv(EndpointVariable),
		Key:       testkit.Secret(os.Getenv(KeyVariable)),
		Transport: faults,
		Database:  "byline-test-" + strings.ToLower(rand.Text()),
		faults:    faults,
	}
	if a.Key == "" {
		credential, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			t.Fatal(err)
		}
		a.Credential = credential
	}
	if a.Key == emulator.WellKnownKey && loopback(a.Endpoint) {
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the self-signed certificate of an emulator
	}
	t.Cleanup(func() { a.deleteDatabase(t) })
	return a
}

// charge sums the request charges of responses.
type charge struct {
	to         policy.Transporter
	hundredths atomic.Int64 // of an RU
}

func (c *charge) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.to.Do(r)
	if err == nil {
		ru, _ := strconv.ParseFloat(resp.Header.Get("x-ms-request-charge"), 64)
		c.hundredths.Add(int64(math.Round(100 * ru)))
	}
	return resp, err
}

// loopback reports whether an endpoint is on this machine.
func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// Client returns an azcosmos client of the account, which is closed when the test ends. It sets the
// transport unless o has one; o may be nil.
func (a *Account) Client(t testing.TB, o *azcosmos.ClientOptions) *azcosmos.Client {
	t.Helper()
	client, err := a.client(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// CreateContainer creates a container, and Database if it is missing.
func (a *Account) CreateContainer(t testing.TB, name, partitionKey string) {
	t.Helper()
	client := a.Client(t, nil)
	_, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: a.Database}, nil)
	if r := (*azcore.ResponseError)(nil); err != nil && (!errors.As(err, &r) || r.StatusCode != http.StatusConflict) {
		t.Fatal(err)
	}
	db, err := client.NewDatabase(a.Database)
	if err == nil {
		_, err = db.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: name,
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{partitionKey}, Version: 2}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (a *Account) client(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
	var options azcosmos.ClientOptions
	if o != nil {
		options = *o
	}
	if options.Transport == nil {
		options.Transport = a.Transport
	}
	if a.Key == "" {
		return azcosmos.NewClient(a.Endpoint, a.Credential, &options)
	}
	key, err := azcosmos.NewKeyCredential(a.Key)
	if err != nil {
		return nil, err
	}
	return azcosmos.NewClientWithKey(a.Endpoint, key, &options)
}

// deleteDatabase deletes the database if the test has created it.
func (a *Account) deleteDatabase(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := a.client(nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	db, err := client.NewDatabase(a.Database)
	if err == nil {
		_, err = db.Delete(ctx, nil)
	}
	var respErr *azcore.ResponseError
	if err != nil && (!errors.As(err, &respErr) || respErr.StatusCode != http.StatusNotFound) {
		t.Errorf("delete database %s: %v", a.Database, err)
	}
}
