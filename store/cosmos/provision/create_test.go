package provision

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"byline/store/cosmos"
	"byline/store/internal/cosmostest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// TestCreate_MultipleWrites: an account with multi-region writes is refused.
func TestCreate_MultipleWrites(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	g.MultipleWrites = true
	err := Create(t.Context(), open(t, g, cosmos.Options{}),
		DatabaseSpec{Name: g.Database, Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}}})
	if !errors.Is(err, cosmos.ErrMultiRegionWrites) {
		t.Errorf("got %v, want %v", err, cosmos.ErrMultiRegionWrites)
	}
}

// TestCreate_UnknownRegion: a region that the account does not have is a warning, as it may be missing temporarily.
func TestCreate_UnknownRegion(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	var logs bytes.Buffer
	a := open(t, g,
		cosmos.Options{Regions: []string{"East US", "North Pole", "westus"},
			Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	if err := Create(t.Context(), a,
		DatabaseSpec{Name: g.Database,
			Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(logs.String(), "level=WARN"); n != 1 ||
		!strings.Contains(logs.String(), "the preferred region North Pole, only in West US, East US") {
		t.Errorf("%d warnings:\n%s", n, &logs)
	}
}

// TestCreate_Eventual: a default consistency with which sessions do not work is a warning.
func TestCreate_Eventual(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	g.Consistency = "Eventual"
	var logs bytes.Buffer
	a := open(t, g, cosmos.Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	if err := Create(t.Context(), a, DatabaseSpec{Name: g.Database}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logs.String(), "level=WARN") ||
		!strings.Contains(logs.String(), "default consistency is Eventual") {
		t.Errorf("logs: %s", &logs)
	}
}

// TestCreate_NoFullText: without the capability, or the right to create containers, only the container for full texts
// is missing, and Create says so each time, as does Compare.
func TestCreate_NoFullText(t *testing.T) {
	for name, refusal := range map[string]refusal{
		"no capability":  {status: http.StatusBadRequest, message: "The account lacks the capability."},
		"Entra identity": {status: http.StatusForbidden, substatus: "5300", message: "Request blocked by Auth."},
	} {
		t.Run(name, func(t *testing.T) {
			g := cosmostest.OpenRegions(t)
			var log bytes.Buffer
			refusal.to = g
			a := open(t, g, cosmos.Options{Transport: &refusal, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			spec := DatabaseSpec{Name: g.Database, Containers: append(slices.Clone(compared),
				ContainerSpec{Name: "search", PartitionKey: "/decade", FullText: []string{"/text"}})}
			for n := range 2 {
				if err := Create(t.Context(), a, spec); err != nil {
					t.Fatal(err)
				}
				if got := strings.Count(log.String(), "EnableNoSQLFullTextSearch"); got != n+1 {
					t.Errorf("got %d warnings, want %d: %s", got, n+1, &log)
				}
			}
			wantDifferences(t, a, spec, "container: container search: it does not exist, so there is no full-text "+
				"search: the account needs the capability EnableNoSQLFullTextSearch")
		})
	}
}

// refusal is a transport that refuses to create containers with a full-text policy.
type refusal struct {
	status             int
	substatus, message string
	to                 policy.Transporter
}

func (r *refusal) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/colls") {
		return r.to.Do(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(body, []byte(`"fullTextPolicy"`)) {
		req.Body = io.NopCloser(bytes.NewReader(body))
		return r.to.Do(req)
	}
	return &http.Response{StatusCode: r.status, Status: http.StatusText(r.status), Request: req,
		Header: http.Header{"X-Ms-Substatus": {r.substatus}},
		Body:   io.NopCloser(strings.NewReader(`{"code":"Refused","message":"` + r.message + `"}`))}, nil
}

// TestCreate_DatabaseWithoutThroughput: a warning says what new containers in an existing database get.
func TestCreate_DatabaseWithoutThroughput(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	var log bytes.Buffer
	a := open(t, g, cosmos.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := Create(t.Context(), a, DatabaseSpec{Name: g.Database, Containers: compared[:1]}); err != nil {
		t.Fatal(err)
	}
	if err := Create(t.Context(), a,
		DatabaseSpec{Name: g.Database, MaxThroughput: 1000, Containers: compared}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "no throughput that its containers share"); n != 1 {
		t.Errorf("got %d warnings, want 1: %s", n, &log)
	}
}
