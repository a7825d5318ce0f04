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
	"byline/store/cosmos/provision"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// existing is an account with a database and containers that Byline did not create.
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

// provision provisions the blog, through another transport unless that is nil.
func (e *existing) provision(through policy.Transporter) error {
	e.t.Helper()
	if through == nil {
		through = e.Transport
	}
	account, err := cosmos.Open(cosmos.Options{Endpoint: e.Endpoint, Key: e.Key, Credential: e.Credential,
		Transport: through,
		Logger:    slog.New(slog.NewTextHandler(&e.logs, nil))})
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

// container returns the properties of a container. included has its indexed paths, composite the columns of
// its composite index.
func container(id, key string, ttl *int32, included, composite []string) azcosmos.ContainerProperties {
	p := &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
		ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}}}
	for _, path := range included {
		if path == "/*" {
			p.ExcludedPaths = nil
		}
		p.IncludedPaths = append(p.IncludedPaths, azcosmos.IncludedPath{Path: path})
	}
	columns := compositeIndex(composite)
	if columns != nil {
		p.CompositeIndexes = [][]azcosmos.CompositeIndex{columns}
	}
	if id == "feed" {
		p.CompositeIndexes = append(p.CompositeIndexes, compositeIndex([]string{"/type", "/posts", "/id"}))
	}
	return azcosmos.ContainerProperties{ID: id,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{key}, Version: 2},
		DefaultTimeToLive:      ttl, IndexingPolicy: p}
}

func compositeIndex(paths []string) (columns []azcosmos.CompositeIndex) {
	for _, path := range paths {
		columns = append(columns, azcosmos.CompositeIndex{Path: path, Order: azcosmos.CompositeIndexDescending})
	}
	return columns
}

var (
	ttlOn     = new(int32(-1))
	ttlOfHour = new(int32(3600))
	sorted    = []string{"/type", "/creationDate", "/id"}
	ofUsers   = append([]string{"/userId"}, sorted...)
	ofPosts   = append([]string{"/postId"}, sorted...)
	ofSearch  = []string{"/decade", "/creationDate", "/id"}
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

// One error lists all differences that would break requests, and nothing is created.
func TestProvision_IncompatibleContainers(t *testing.T) {
	leases := container("leases", "/id", nil, nil, nil)
	leases.IndexingPolicy = &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}
	e := newExisting(t,
		container("users", "/userId", nil, []string{"/*"}, nil), // the portal's default
		container("feed", "/id", ttlOfHour, []string{"/type/?"}, sorted),
		leases)
	var writes writes
	err := e.provision(writes.through(e.Transport))
	storetest.WantCode(t, err, blog.Conflict, "database")
	wantParts(t, err.Error(),
		"container users: time to live is off",
		"container users: the composite index /userId, /type, /creationDate, /id is missing",
		"container feed: it is partitioned by /id, not by /type",
		"container feed: the default time to live is 3600 s",
		`container leases: the indexing mode is "none"`,
		"use another database")
	if len(writes.seen) > 0 {
		t.Errorf("containers were created: %q", writes.seen)
	}
}

// Containers of an older version or an administrator that only cost more are used, with warnings.
func TestProvision_InefficientContainers(t *testing.T) {
	e := newExisting(t,
		container("users", "/userId", ttlOn, []string{"/*"}, ofUsers),
		// an older version's
		container("posts", "/postId", ttlOn, []string{"/type/?", "/userId/?", "/filesOf/?"}, ofPosts),
		container("feed", "/type", ttlOn, []string{"/type/?"}, sorted),
		container("leases", "/id", nil, nil, nil),
		container("search", "/decade", ttlOn, []string{"/decade/?", "/userId/?", "/tags/[]/?"}, ofSearch))
	var writes writes
	if err := e.provision(writes.through(e.Transport)); err != nil {
		t.Fatal(err)
	}
	wantParts(t, e.logs.String(), "container=users difference=\"/* is indexed",
		"container=posts difference=\"/postId is not indexed",
		"container=feed difference=\"/authorId is not indexed", "container=leases difference=\"/kind is not indexed",
		"container=search difference=\"the full-text index of /text is missing",
		"container=search difference=\"the full-text policy lacks /text in en-US")
	if n := strings.Count(e.logs.String(), "\n"); n != 6 {
		t.Errorf("got %d warnings, want 6:\n%s", n, &e.logs)
	}
	if len(writes.seen) > 0 { // an Entra identity may not do them
		t.Errorf("got control plane writes: %q", writes.seen)
	}
}

// Containers with the composite indexes of an older version are refused; with both, they are used with warnings.
func TestProvision_OlderCompositeIndexes(t *testing.T) {
	posts := container("posts", "/postId", ttlOn, []string{"/postId/?", "/type/?", "/userId/?"}, sorted)
	e := newExisting(t, posts)
	err := e.provision(nil)
	storetest.WantCode(t, err, blog.Conflict, "database")
	wantParts(t, err.Error(), "container posts: the composite index /postId, /type, /creationDate, /id is missing",
		"Change the containers as docs/configuration.md has them")

	posts.IndexingPolicy.CompositeIndexes = append(posts.IndexingPolicy.CompositeIndexes, compositeIndex(ofPosts))
	e = newExisting(t, posts)
	if err := e.provision(nil); err != nil {
		t.Fatal(err)
	}
	wantParts(t, e.logs.String(),
		"container=posts difference=\"the composite index /type, /creationDate, /id is not used")
}

// Provision accepts the containers that it creates without warnings, except the one that they share no throughput.
func TestProvision_OwnContainers(t *testing.T) {
	e := newExisting(t)
	for range 2 {
		if err := e.provision(nil); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(e.logs.String(), "level=WARN") != 1 ||
		!strings.Contains(e.logs.String(), "no throughput that its containers share") ||
		strings.Count(e.logs.String(),
			`msg="containers created" database=`+e.Database+` containers="users posts feed leases search"`) != 1 {
		t.Errorf("warnings, or not one line about the creation:\n%s", &e.logs)
	}
}

// The error of an Entra identity names the missing containers and how to create them.
func TestProvision_EntraIdentity(t *testing.T) {
	e := newExisting(t,
		container("users", "/userId", ttlOn, []string{"/userId/?", "/type/?"}, ofUsers),
		container("feed", "/type", ttlOn, []string{"/type/?"}, sorted))
	writes := writes{refuse: true}
	err := e.provision(writes.through(e.Transport))
	storetest.WantCode(t, err, blog.Unavailable, "database")
	wantParts(t, err.Error(),
		"lacks the containers posts, leases, search, and an Entra identity may not create them: run \"byline provision "+
			"--cosmos-endpoint "+e.Endpoint,
		"--cosmos-database "+e.Database+`" with the account's key in COSMOS_KEY`)
}

// Provision rejects multi-region writes, as conditional writes and leases would hold only within a region.
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
		resp.Body = io.NopCloser(
			bytes.NewReader(bytes.Replace(body, []byte(`"enableMultipleWriteLocations":false`),
				[]byte(`"enableMultipleWriteLocations":true`), 1)))
		resp.ContentLength = -1
		return resp, err
	}))
	storetest.WantCode(t, err, blog.Conflict, "")
	wantParts(t, err.Error(), "multi-region writes", "single write region")
	if len(writes.seen) > 0 {
		t.Errorf("got control plane writes: %q", writes.seen)
	}
}

// writes records the requests that create or change databases and containers.
type writes struct {
	refuse bool // respond like Cosmos DB to Entra identities
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
		return &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden",
			Header: http.Header{"X-Ms-Substatus": {"5300"}}, Request: r,
			Body: io.NopCloser(
				strings.NewReader(
					`{"code":"Forbidden","message":"Request blocked by Auth: the given request cannot be authorized by AAD token in data plane."}`))}, nil
	})
}

// transport is a policy.Transporter.
type transport func(*http.Request) (*http.Response, error)

func (f transport) Do(r *http.Request) (*http.Response, error) { return f(r) }

// The containers of a new database share the least autoscale throughput, and have none of their own.
func TestProvision_Throughput(t *testing.T) {
	on := cosmostest.Open(t, emulator.Options{})
	account, err := cosmos.Open(cosmos.Options{Endpoint: on.Endpoint, Key: on.Key, Credential: on.Credential,
		Transport: on.Transport})
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	s, err := store.New(account, store.Options{Database: on.Database})
	if err == nil {
		err = s.Provision(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	differences, err := provision.Compare(t.Context(), account, store.DatabaseSpec(on.Database, 1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if d.Property == "throughput" {
			t.Error(d)
		}
	}
}
