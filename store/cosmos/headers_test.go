package cosmos

import (
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// recorder is a transport that keeps the headers of the last request.
type recorder struct {
	policy.Transporter
	last http.Header
}

func (r *recorder) Do(req *http.Request) (*http.Response, error) {
	r.last = req.Header
	return r.Transporter.Do(req)
}

// TestSetHeaders: queries may scan, reads and writes have no such header, and times are HTTP dates.
func TestSetHeaders(t *testing.T) {
	on := cosmostest.Open(t, emulator.Options{})
	o := options(on)
	sent := &recorder{Transporter: o.Transport}
	o.Transport = sent
	a, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	on.CreateContainer(t, "posts", "/postId")
	posts, err := a.Container(on.Database, "posts")
	if err != nil {
		t.Fatal(err)
	}
	if err := posts.Create(t.Context(), "a", []byte(`{"id":"a","postId":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if got := sent.last.Get(headerEnableScan); got != "" {
		t.Errorf("a create has %s: %s", headerEnableScan, got)
	}
	for _, err := range posts.Query(t.Context(),
		Query{Text: "SELECT * FROM c WHERE c.deleted = true", Partition: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := sent.last.Get(headerEnableScan); got != "True" {
		t.Errorf("a query has %s: %q, want True", headerEnableScan, got)
	}
	ranges, err := posts.client.ReadFeedRanges(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := posts.client.ReadChangeFeed(t.Context(),
		&azcosmos.ChangeFeedOptions{StartFrom: &start, FeedRange: &ranges[0]}); err != nil {
		t.Fatal(err)
	}
	if got, want := sent.last.Get(headerModifiedSince), start.Format(http.TimeFormat); got != want {
		t.Errorf("the change feed has %s: %q, want %q", headerModifiedSince, got, want)
	}
}
