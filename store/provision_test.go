package store_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// existing is an account whose database has containers before Byline sees it.
type existing struct {
	*cosmostest.Account
	t    *testing.T
	logs bytes.Buffer
}

func newExisting(t *testing.T, containers ...azcosmos.ContainerProperties) *existing {
	t.Helper()
	e := &existing{Account: cosmostest.Open(t, emulator.Options{}), t: t}
	client := e.Client(t, nil)
	if _, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: e.Database}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := client.NewDatabase(e.Database)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		if _, err := db.CreateContainer(t.Context(), c, nil); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// provision provisions the blog, through a transport if one is given.
func (e *existing) provision(through policy.Transporter) error {
	e.t.Helper()
	if through == nil {
		through = e.Transport
	}
	account, err := cosmos.Open(cosmos.Options{Endpoint: e.Endpoint, Key: e.Key, Credential: e.Credential, Transport: through,
		Logger: slog.New(slog.NewTextHandler(&e.logs, nil))})
	if err != nil {
		e.t.Fatal(err)
	}
	defer account.Close()
	s, err := store.New(account, store.Options{Database: e.Database})
	if err != nil {
		e.t.Fatal(err)
	}
	return s.Provision(e.t.Context())
}

// container returns a container's properties; included are its indexed paths, and composite the
// columns of its composite index.
func container(id, key string, ttl *int32, included, composite []string) azcosmos.ContainerProperties {
	p := &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent, ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}}}
	for _, path := range included {
		if path == "/*" {
			p.ExcludedPaths = nil
		}
		p.IncludedPaths = append(p.IncludedPaths, azcosmos.IncludedPath{Path: path})
	}
	var columns []azcosmos.CompositeIndex
	for _, path := range composite {
		columns = append(columns, azcosmos.CompositeIndex{Path: path, Order: azcosmos.CompositeIndexDescending})
	}
	if columns != nil {
		p.CompositeIndexes = [][]azcosmos.CompositeIndex{columns}
	}
	return azcosmos.ContainerProperties{ID: id, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{key}, Version: 2},
		DefaultTimeToLive: ttl, IndexingPolicy: p}
}

var (
	ttlOn     = new(int32(-1))
	ttlOfHour = new(int32(3600))
	sorted    = []string{"/type", "/creationDate", "/id"}
)

// wantParts fails the test unless text has all parts.
func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// TestProvision_ContainersThatBreak: one error has all that would break later, and nothing is created.
func TestProvision_ContainersThatBreak(t *testing.T) {
	leases := container("leases", "/id", nil, nil, nil)
	leases.IndexingPolicy = &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}
	e := newExisting(t,
		container("users", "/userId", nil, []string{"/*"}, nil), // as the portal creates it
		container("feed", "/id", ttlOfHour, []string{"/type/?"}, sorted[1:]),
		leases)
	var writes writes
	err := e.provision(writes.through(e.Transport))
	storetest.WantCode(t, err, blog.Conflict, "database")
	wantParts(t, err.Error(),
		"container users: time to live is off",
		"container users: the composite index /type, /creationDate, /id is missing",
		"container feed: it is partitioned by /id, not by /type",
		"container feed: the default time to live is 3600 s",
		`container leases: the indexing mode is "none"`,
		"use another database")
	if len(writes.seen) > 0 {
		t.Errorf("containers were created: %q", writes.seen)
	}
}

// TestProvision_ContainersThatCost: what an older version or an administrator has created is used, with
// warnings.
func TestProvision_ContainersThatCost(t *testing.T) {
	e := newExisting(t,
		container("users", "/userId", ttlOn, []string{"/*"}, sorted),
		container("posts", "/postId", ttlOn, []string{"/type/?", "/userId/?"}, sorted), // of an older version
		container("feed", "/type", ttlOn, []string{"/type/?"}, sorted[1:]),
		container("leases", "/id", nil, nil, nil))
	var writes writes
	if err := e.provision(writes.through(e.Transport)); err != nil {
		t.Fatal(err)
	}
	wantParts(t, e.logs.String(), "container=users difference=\"/* is indexed", "container=posts difference=\"/postId is not indexed")
	if n := strings.Count(e.logs.String(), "\n"); n != 2 {
		t.Errorf("%d warnings, not 2:\n%s", n, &e.logs)
	}
	if len(writes.seen) > 0 { // which an Entra identity may not
		t.Errorf("the control plane was asked to write: %q", writes.seen)
	}
}

// TestProvision_OwnContainers: what Provision creates is as it should be.
func TestProvision_OwnContainers(t *testing.T) {
	e := newExisting(t)
	for range 2 {
		if err := e.provision(nil); err != nil {
			t.Fatal(err)
		}
	}
	if e.logs.Len() > 0 {
		t.Errorf("warnings:\n%s", &e.logs)
	}
}

// TestProvision_EntraIdentity: the error says what is missing and why this identity does not create it.
func TestProvision_EntraIdentity(t *testing.T) {
	e := newExisting(t,
		container("users", "/userId", ttlOn, []string{"/userId/?", "/type/?"}, sorted),
		container("feed", "/type", ttlOn, []string{"/type/?"}, sorted[1:]))
	writes := writes{refuse: true}
	err := e.provision(writes.through(e.Transport))
	storetest.WantCode(t, err, blog.Unavailable, "database")
	wantParts(t, err.Error(), "lacks the containers posts, leases, and an Entra identity may not create them: run \"byline provision --cosmos-endpoint "+e.Endpoint,
		"--cosmos-database "+e.Database+`" with the account's key in COSMOS_KEY`)
}

// TestProvision_MultiRegionWrites: conditional writes and leases would hold within a region only.
func TestProvision_MultiRegionWrites(t *testing.T) {
	cosmostest.NeedsEngine(t, "it changes the account's properties")
	e := newExisting(t)
	var writes writes
	through := writes.through(e.Transport)
	err := e.provision(transport(func(r *http.Request) (*http.Response, error) {
		resp, err := through.Do(r)
		if err != nil || strings.Trim(r.URL.Path, "/") != "" {
			return resp, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(bytes.Replace(body, []byte(`"enableMultipleWriteLocations":false`), []byte(`"enableMultipleWriteLocations":true`), 1)))
		resp.ContentLength = -1
		return resp, err
	}))
	storetest.WantCode(t, err, blog.Conflict, "")
	wantParts(t, err.Error(), "multi-region writes", "single write region")
	if len(writes.seen) > 0 {
		t.Errorf("something was created: %q", writes.seen)
	}
}

// writes are the requests that create or change databases and containers.
type writes struct {
	refuse bool // as Cosmos DB refuses Entra identities
	seen   []string
}

func (w *writes) through(to policy.Transporter) policy.Transporter {
	return transport(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/docs") {
			return to.Do(r)
		}
		w.seen = append(w.seen, r.Method+" "+r.URL.Path)
		if !w.refuse {
			return to.Do(r)
		}
		return &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden", Header: http.Header{"X-Ms-Substatus": {"5300"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"code":"Forbidden","message":"Request blocked by Auth: the given request cannot be authorized by AAD token in data plane."}`))}, nil
	})
}

// transport is a policy.Transporter.
type transport func(*http.Request) (*http.Response, error)

func (f transport) Do(r *http.Request) (*http.Response, error) { return f(r) }
