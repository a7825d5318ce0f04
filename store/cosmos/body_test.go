package cosmos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/changefeed"
	"byline/store/cosmos/itemcache"
	"byline/store/cosmos/session"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// TestPages_MatchAzcosmos: change feed pages of several physical partitions, some without changes, are the
// same as those that azcosmos reads, and so are the items of ReadMany.
func TestPages_MatchAzcosmos(t *testing.T) {
	on := cosmostest.Open(t, emulator.Options{Partitions: 4})
	account, err := Open(options(on))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	on.CreateContainer(t, "posts", "/postId")
	raw, err := account.Container(on.Database, "posts")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := on.Client(t, nil).NewContainer(on.Database, "posts")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // some partitions have no item
		item := fmt.Appendf(nil, `{"id":"%d","postId":"p%[1]d","text":"\u00e9 \"]"}`, i)
		if _, err := plain.CreateItem(t.Context(), partitionKey(fmt.Sprint("p", i)), item, nil); err != nil {
			t.Fatal(err)
		}
	}
	type page struct {
		items        []string
		continuation string
	}
	read := func(c changefeed.Container) (pages []page) {
		o := &azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}, MaxItemCount: 2}
		for len(pages) < 20 {
			r, err := c.ReadChangeFeed(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			p := page{continuation: r.ContinuationToken}
			for _, item := range r.Items {
				p.items = append(p.items, string(item))
			}
			pages = append(pages, p)
			o = &azcosmos.ChangeFeedOptions{Continuation: &r.ContinuationToken, MaxItemCount: 2}
		}
		return pages
	}
	count := func(pages []page) (n int) {
		for _, p := range pages {
			n += len(p.items)
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); count(read(plain)) < 5 || count(read(raw.ChangeFeed())) < 5; {
		if on.Engine != nil || time.Now().After(deadline) { // on an endpoint, replicas may be behind
			t.Fatal("changes are missing")
		}
	}
	want, got := read(plain), read(raw.ChangeFeed())
	for i := range want {
		if !slices.Equal(got[i].items, want[i].items) || got[i].continuation != want[i].continuation {
			t.Errorf("page %d: got %+v, want %+v", i, got[i], want[i])
		}
	}

	var keys []Key
	var identities []azcosmos.ItemIdentity
	for i := range 300 {
		k := Key{fmt.Sprint("p", i), fmt.Sprint(i)}
		for _, k := range []Key{k, {k.Partition, "missing"}} {
			keys, identities = append(keys, k),
				append(identities, azcosmos.ItemIdentity{ID: k.ID, PartitionKey: partitionKey(k.Partition)})
		}
		if _, err := plain.UpsertItem(t.Context(), partitionKey(k.Partition),
			fmt.Appendf(nil, `{"id":"%d","postId":"p%[1]d","text":%q}`, i, strings.Repeat("]}", i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	many, err := plain.ReadManyItems(t.Context(), identities, nil)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); on.Engine == nil && len(many.Items) < 300 &&
		time.Now().Before(deadline); {
		if many, err = plain.ReadManyItems(t.Context(), identities, nil); err != nil {
			t.Fatal(err)
		}
	}
	items, err := raw.ReadMany(t.Context(), keys)
	slices.SortFunc(many.Items, bytes.Compare)
	slices.SortFunc(items, bytes.Compare)
	if err != nil || len(items) != 300 || !slices.EqualFunc(items, many.Items, bytes.Equal) {
		t.Errorf("ReadMany: got %d items, not the %d that azcosmos reads: %v", len(items), len(many.Items), err)
	}
}

func TestReadBody(t *testing.T) {
	for name, tt := range map[string]struct {
		body   string
		length int64
		err    error
	}{
		"length known":                {`{"a":1}`, 7, nil},
		"chunked":                     {`{"a":1}`, -1, nil},
		"empty":                       {"", 0, nil},
		"truncated -> unexpected EOF": {`{"a"`, 7, io.ErrUnexpectedEOF},
		"missing although length > 0": {"", 7, io.EOF},
	} {
		got, err := readBody(&http.Response{Body: io.NopCloser(strings.NewReader(tt.body)), ContentLength: tt.length},
			unlimited{})
		if !errors.Is(err, tt.err) || err == nil && string(got) != tt.body {
			t.Errorf("%s: got %q, %v, want %q, %v", name, got, err, tt.body, tt.err)
		}
	}
}

func TestContainerPath(t *testing.T) {
	for path, want := range map[string]string{
		"/dbs/blog/colls/posts/docs":          "/dbs/blog/colls/posts",
		"/dbs/blog/colls/posts/docs/a%2Fb":    "/dbs/blog/colls/posts",
		"/dbs/docs/colls/docs/docs/docs":      "/dbs/docs/colls/docs",
		"/dbs/docs2/colls/docs2/docs":         "/dbs/docs2/colls/docs2",
		"/account/dbs/blog/colls/posts/docs/": "/dbs/blog/colls/posts",
		"/dbs/blog/colls/posts":               "",
		"/dbs/blog/colls/docs":                "",
		"/dbs/blog/colls/posts/pkranges":      "",
		"/dbs/blog/colls/posts/docs2":         "",
		"/dbs/docs":                           "",
		"/dbs/":                               "",
		"/":                                   "",
		"":                                    "",
	} {
		if got := containerPath(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// TestBodyPolicy_ContentLength: policies before bodyPolicy see the length of a response, also of a chunked
// one.
func TestBodyPolicy_ContentLength(t *testing.T) {
	var length int64
	look := policyFunc(func(req *policy.Request) (*http.Response, error) {
		resp, err := req.Next()
		if err == nil {
			length = resp.ContentLength
		}
		return resp, err
	})
	chunked := policyFunc(func(req *policy.Request) (*http.Response, error) {
		resp, err := req.Next()
		if err == nil {
			resp.ContentLength = -1
		}
		return resp, err
	})
	on := cosmostest.Open(t, emulator.Options{})
	client := on.Client(t, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		PerCallPolicies: []policy.Policy{look}, PerRetryPolicies: []policy.Policy{bodyPolicy{}, chunked}}})
	s := &shared{requests: client, cache: itemcache.New(0, &session.State{}), log: slog.New(slog.DiscardHandler)}
	account := &Account{s, client}
	on.CreateContainer(t, "feed", "/type")
	feed, err := account.Container(on.Database, "feed")
	if err == nil {
		for _, err = range feed.QueryBodies(t.Context(), Query{Text: "SELECT * FROM c", Partition: "post"}) {
		}
	}
	if err != nil || length <= 0 {
		t.Errorf("got a ContentLength of %d, error %v", length, err)
	}
}

// TestParsePage: a page may have its properties in any order, but must be complete.
func TestParsePage(t *testing.T) {
	for page, want := range map[string]string{
		`{"_rid":"r","Documents":[{"id":"1"},{"id":"2"}],"_count":2}`:                 `"r" {"id":"1"} {"id":"2"}`,
		" { \"Documents\" : [ {\"id\" : \"]\"} ] , \"_count\" : 1,\n\"_rid\":\"r\"} ": `"r" {"id" : "]"}`,
		`{"_rid":"r","Documents":[],"_count":0}`:                                      `"r"`,
		`{"_rid":"r","Documents":[{"id":"1"},{"id":"2"`:                               "",
		`{"_rid":"r","Documents":[{"id":"1"}`:                                         "",
		`{"_rid":"r","_count":1,"Documents":[{"id":"1"}],"more":[{}]}`:                `"r" {"id":"1"}`,
		`{"_count":2,"_rid":"r","Documents":[{"id":"1"},{"id":"2"`:                    "",
		`{"_rid":"r","Documents":[{"id":"1"}],"_count":1`:                             "",
		`{"_rid":"r","Documents":[{"id":"1"}],"_count":1} and more`:                   "",
		`{"_rid":"r","Documents":{"a":{"id":"1"}},"_count":1}`:                        "",
		`{"_rid":"r"}`:                "",
		`{"Documents":[],"_count":0}`: "",
		`[{"_rid":"r","_count":0}]`:   "",
		`null`:                        "",
		``:                            "",
	} {
		rid, items, ok := parsePage([]byte(page))
		got := strings.TrimSpace(fmt.Sprintf("%s %s", rid, bytes.Join(items, []byte(" "))))
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, %t, want %q", page, got, ok, want)
		}
	}
}

// TestParseResults: a batch has one result for each operation.
func TestParseResults(t *testing.T) {
	got, failed, err := parseResults([]byte(` [{"statusCode":200,"resourceBody":{"id":"]"}}, {"statusCode":204} ]`), 2)
	if len(got) != 2 || string(got[0]) != `{"id":"]"}` || got[1] != nil || failed || err != nil {
		t.Errorf("got %q, failed %t, %v", got, failed, err)
	}
	for _, body := range []string{``, `[]`, `{}`, `[{"statusCode":200}]`, `[{},{},{}]`, `{"a":{},"b":{}}`,
		`[{},{"resourceBody":{"id":"1"`, `[{},{}`} {
		if got, _, err := parseResults([]byte(body), 2); err == nil {
			t.Errorf("%s: got %q, want an error", body, got)
		}
	}
	for _, body := range []string{`[{"statusCode":200},{"statusCode":409}]`, `[{"statusCode":424},{"statusCode":201}]`,
		`[{"statusCode":1},{"statusCode":201}]`} {
		if _, failed, err := parseResults([]byte(body), 2); !failed || err != nil {
			t.Errorf("%s: got failed %t, %v, want true", body, failed, err)
		}
	}
}

// TestBatch_Status: a failed batch has the status of its operation, or 207 if that depends on the state of its item.
func TestBatch_Status(t *testing.T) {
	for body, want := range map[string]Error{
		`[{"statusCode":201},{"statusCode":201}]`:                                                   {Status: http.StatusOK},
		`[{"statusCode":424},{"statusCode":409}]`:                                                   {Status: http.StatusMultiStatus},
		`[{"statusCode":412},{"statusCode":424}]`:                                                   {Status: http.StatusMultiStatus},
		`[{"statusCode":424},{"statusCode":403,"subStatusCode":1014}]`:                              {Status: http.StatusForbidden, Substatus: "1014"},
		`[{"statusCode":429,"subStatusCode":3200,"retryAfterMilliseconds":1.5},{"statusCode":424}]`: {Status: http.StatusTooManyRequests, Substatus: "3200", RetryAfter: 1500 * time.Microsecond},
		`[{"statusCode":429,"retryAfterMilliseconds":-40},{"statusCode":424}]`:                      {Status: http.StatusTooManyRequests, Substatus: "0"},
	} {
		x := rawBodies{operations: 2}
		got, err := x.batch(&http.Response{StatusCode: http.StatusOK, Header: http.Header{}}, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		} else if e := (Error{Status: got.StatusCode, Substatus: got.Header.Get(substatusHeader),
			RetryAfter: retryAfter(got)}); e != want {
			t.Errorf("%s: got %+v, want %+v", body, e, want)
		}
	}
	x := rawBodies{operations: 2}
	if got, err := x.batch(&http.Response{StatusCode: http.StatusMultiStatus, Header: http.Header{}},
		[]byte(`[{"statusCode":424},{"statusCode":424}]`)); err == nil {
		t.Errorf("got %+v, want an error: no operation has failed", got)
	}
}
