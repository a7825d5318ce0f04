package provision

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
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
