package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/account"
	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/emulator"
	"byline/store/jobs"
	"byline/store/projection"
)

func TestViews(t *testing.T) {
	testkit.Heavy(t)
	t.Parallel()
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")
	likedPost(t, s)
	s.Stop()
	views := func(want int, args ...string) string {
		var out, log output
		if status := run(t.Context(), append(append([]string{"views"}, args...), "--data", data), &out, &log,
			nil); status != want {
			t.Fatalf("%v: status %d: %s %s", args, status, out.String(), log.String())
		}
		return out.String()
	}
	views(0, "verify")
	if out := views(0, "status"); !strings.Contains(out, "projections-posts") ||
		!strings.Contains(out, "projections-users") || !strings.Contains(out, "usernames") {
		t.Errorf("status prints %s", out)
	} else {
		t.Log(out)
	}
	db, err := account.Flags{Data: data}.Open(t.Context(), slog.New(slog.DiscardHandler), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	feed, err := db.Client().NewContainer("blog", "feed")
	if err != nil {
		t.Fatal(err)
	}
	r, err := feed.NewQueryItemsPager("SELECT VALUE c.id FROM c", azcosmos.NewPartitionKeyString("post"),
		nil).NextPage(t.Context())
	if err != nil || len(r.Items) != 1 {
		t.Fatal(err, r.Items)
	}
	if _, err := feed.DeleteItem(t.Context(), azcosmos.NewPartitionKeyString("post"),
		strings.Trim(string(r.Items[0]), `"`), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out := views(1, "verify", "--settle", "0s"); !strings.Contains(out, "feed entry") ||
		!strings.Contains(out, "absent") {
		t.Errorf("verify prints %s", out)
	}
	var d projection.Difference
	if out := views(1, "verify", "--settle", "0s", "--json"); json.Unmarshal([]byte(out), &d) != nil ||
		d.Kind != projection.FeedEntry {
		t.Errorf("verify --json prints %s", out)
	}
	if out := views(0, "repair"); !strings.Contains(out, "feed entry") {
		t.Errorf("repair prints %s", out)
	}
	views(0, "verify", "--settle", "0s")

	// While no projection runs, change the title but not the revision that the projections have written.
	db, err = account.Flags{Data: data}.Open(t.Context(), slog.New(slog.DiscardHandler), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	corruptFeedTitle(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	views(1, "verify", "--settle", "0s")
	out := views(0, "rebuild", "--json")
	for line := range strings.Lines(out) {
		var l struct {
			Processor, Container  string
			Generation, ToRebuild int64
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Container == "" || l.ToRebuild != 0 ||
			l.Generation < 3 && l.Processor != "usernames" {
			t.Errorf("rebuild prints %s", out)
		}
	}
	views(0, "verify", "--settle", "0s")
	if out := views(0, "status", "--json"); strings.Count(out, "\n") != 3 ||
		!strings.Contains(out, `"behindChanges":0`) {
		t.Errorf("status --json prints %s", out)
	}
	if out := views(0, "repair", "--json"); out != "" {
		t.Errorf("repair --json of nothing prints %s", out)
	}
}

// TestViewsStatus_Jobs: status shows a job that was just enqueued, and one that an instance works on.
func TestViewsStatus_Jobs(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")
	likedPost(t, s)
	eventually(t, func() error { // the leases of all processors exist
		all, err := scrape(s.Root)
		if n, _ := total(all, "byline_projection_leases", nil); err == nil && n != 3 {
			err = fmt.Errorf("%v leases", n)
		}
		return err
	})
	s.Stop()
	status := func(args ...string) string {
		t.Helper()
		var out, log output
		if status := run(t.Context(), append([]string{"views", "status", "--data", data}, args...), &out, &log,
			nil); status != 0 {
			t.Fatalf("status %d: %s", status, &log)
		}
		return out.String()
	}
	if out := status(); strings.Contains(out, "SUBJECT") {
		t.Errorf("without jobs, status prints %s", out)
	}
	db, err := account.Flags{Data: data}.Open(t.Context(), slog.New(slog.DiscardHandler), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	leases, err := db.Container("blog", "leases")
	if err != nil {
		t.Fatal(err)
	}
	runner, err := jobs.New(leases, jobs.Options{Owner: "test"})
	if err == nil {
		err = runner.Enqueue(t.Context(), "deletePost", "some-post", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	created := time.Now().Add(-time.Hour)
	checkHourOld := func(printed, age string) {
		t.Helper()
		m := regexp.MustCompile(age).FindStringSubmatch(printed)
		if m == nil {
			t.Fatalf("%s is not in %s", age, printed)
		}
		if n, err := strconv.Atoi(m[1]); err != nil || n < 3600 || n > 1+int(time.Since(created).Seconds()) {
			t.Errorf("a job of an hour ago is %s s old", m[1])
		}
	}
	working, err := json.Marshal(jobs.Job{ID: "rename.some-user", Kind: "rename", Subject: "some-user", Generation: 2,
		Position: "somewhere", Wait: 3 * time.Second,
		Items: 1200, RequestCharge: 12345.678, Created: created, Owner: "an-instance", Renewals: 9})
	if err == nil {
		err = leases.Create(t.Context(), "rename.some-user", working)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(status(), "SUBJECT")
	for i, want := range []string{
		`\| rename +\| some-user +\| +1200 +\| saved +\| 12345.68 +\| +36\d\d +\| an-instance +\| +3 +\|`,
		`\| deletePost +\| some-post +\| +0 +\| beginning +\| 0.00 +\| +\d+ +\| none +\| +0 +\|`} {
		if rows := strings.Split(table, "\n"); len(rows) < 6 || !regexp.MustCompile(want).MatchString(rows[i+2]) {
			t.Errorf("%s is not row %d of\n%s", want, i, table)
		}
	}
	checkHourOld(table, `12345.68 \| +(\d+) \|`)
	lines := strings.Split(strings.TrimSpace(status("--json")), "\n")
	if len(lines) != 3+2 {
		t.Fatalf("--json prints %q", lines)
	}
	want := regexp.MustCompile(
		`^{"kind":"rename","subject":"some-user","items":1200,"positionSaved":true,"requestCharge":12345.68,"ageSeconds":36\d\d,"owner":"an-instance","waitSeconds":3}
{"kind":"deletePost","subject":"some-post","items":0,"positionSaved":false,"requestCharge":0,"ageSeconds":\d+,"owner":"","waitSeconds":0}$`)
	checkHourOld(lines[3], `"ageSeconds":(\d+)`)
	if got := strings.Join(lines[3:], "\n"); !want.MatchString(got) {
		t.Errorf("--json prints %s", got)
	}
}

// corruptFeedTitle changes the title of the only feed entry.
func corruptFeedTitle(t *testing.T, db *account.Account) {
	t.Helper()
	feed, err := db.Client().NewContainer("blog", "feed")
	if err != nil {
		t.Fatal(err)
	}
	r, err := feed.NewQueryItemsPager("SELECT VALUE c.id FROM c", azcosmos.NewPartitionKeyString("post"),
		nil).NextPage(t.Context())
	if err != nil || len(r.Items) != 1 {
		t.Fatal(err, r.Items)
	}
	var p azcosmos.PatchOperations
	p.AppendSet("/title", "not the title")
	if _, err := feed.PatchItem(t.Context(), azcosmos.NewPartitionKeyString("post"),
		strings.Trim(string(r.Items[0]), `"`), p, nil); err != nil {
		t.Fatal(err)
	}
}

// TestViews_MissingDirectory: the commands refuse a missing directory and do not create it.
func TestViews_MissingDirectory(t *testing.T) {
	data := filepath.Join(t.TempDir(), "typo")
	for _, command := range []string{"status", "verify", "repair", "rebuild"} {
		var out, log output
		status := run(t.Context(), []string{"views", command, "--data", data}, &out, &log, nil)
		if _, err := os.Stat(data); status != 1 ||
			!strings.Contains(log.String(), "typo: no such file or directory") || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: status %d, %v: %s%s", command, status, err, &out, &log)
		}
	}
}

// TestViewsRebuild_WhileServing rebuilds in one process while another serves, both on an emulator.
func TestViewsRebuild_WhileServing(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	addresses, ended := make(chan net.Addr, 1), make(chan int, 1)
	var log output
	go func() {
		ended <- run(ctx,
			[]string{"emulator", "--listen", "127.0.0.1:0", "--http", "--data", t.TempDir(), "--sync=false"},
			io.Discard, &log,
			func(a net.Addr) { addresses <- a })
	}()
	defer func() { stop(); <-ended }()
	var cosmos []string
	select {
	case a := <-addresses:
		cosmos = []string{"--cosmos-endpoint", "http://" + a.String()}
	case <-ended:
		t.Fatal(log.String())
	}
	s := start(t, cosmos...)
	defer s.Stop()
	id := likedPost(t, s)
	db, err := account.Flags{CosmosEndpoint: cosmos[1]}.Open(t.Context(), slog.New(slog.DiscardHandler),
		account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	corruptFeedTitle(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var out, lines output
	if status := run(t.Context(), append([]string{"views", "rebuild"}, cosmos...), &out, &lines, nil); status != 0 {
		t.Fatalf("status %d: %s", status, lines.String())
	}
	if !strings.Contains(lines.String(), "msg=rebuilt") || !strings.Contains(out.String(), "posts") {
		t.Errorf("prints %s and %s", out.String(), lines.String())
	}
	if title := at(t, s.Do("", q6, nil), "feed.edges.0.node.title"); title != "Notes" {
		t.Errorf("the feed shows %v", title)
	}
	s.Do("ada", likePost, map[string]any{"post": id})
}

// TestViewsRebuild_Interrupted: an interrupted rebuild reports that the instances resume it.
func TestViewsRebuild_Interrupted(t *testing.T) {
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	for range 20 {
		s.Do("ada", createPost, map[string]any{"title": "Notes", "content": "x"})
	}
	s.Stop()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out, log output
	status := run(ctx, []string{"views", "rebuild", "--data", data}, &out, onFirst{&log, interrupt}, nil)
	if status != 1 || !strings.Contains(log.String(), "byline: interrupted") || out.String() != "" {
		t.Fatalf("status %d: %s %s", status, out.String(), log.String())
	}
	t.Log(log.String())
	again := start(t, "--data", data, "--no-demo")
	defer again.Stop()
	if n := len(at(t, again.Do("", q6, nil), "feed.edges").([]any)); n != 20 {
		t.Errorf("%d posts in the feed", n)
	}
}

// onFirst is a writer that calls a function on the first line about a rebuild.
type onFirst struct {
	io.Writer
	call func()
}

func (o onFirst) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "rebuilding") {
		o.call()
	}
	return o.Writer.Write(b)
}

// TestViewsVerify_Throttled: background requests have low priority. While throttled they retry until they succeed;
// other errors fail at once.
func TestViewsVerify_Throttled(t *testing.T) {
	engine, err := emulator.Open(t.TempDir(), emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var faults faulttest.Injector
	handler := faults.Handler(engine)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") == "application/query+json" &&
			r.Header.Get("x-ms-cosmos-priority-level") != "Low" {
			t.Error("a background query does not have low priority")
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	c := account.Flags{CosmosEndpoint: server.URL}
	db, err := c.Open(t.Context(), slog.New(slog.DiscardHandler), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blog, err := c.Store(db, slog.New(slog.DiscardHandler), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(blog.Provision(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	byline := func(command ...string) (int, string) {
		var log output
		status := run(t.Context(), append(command, "--cosmos-endpoint", c.CosmosEndpoint), io.Discard, &log, nil)
		return status, log.String()
	}
	var refused atomic.Int32
	faults.Inject(func(o faulttest.Operation) faulttest.Response {
		if o.Kind == faulttest.Query && refused.Add(1) <= 20 {
			return faulttest.Response{Status: http.StatusTooManyRequests}
		}
		return faulttest.Response{}
	})
	if status, log := byline("views", "verify"); status != 0 || refused.Load() <= 20 {
		t.Errorf("throttled %d times: status %d: %s", refused.Load(), status, log)
	}
	faults.Inject(func(o faulttest.Operation) faulttest.Response {
		if o.Kind == faulttest.Query {
			return faulttest.Response{Status: http.StatusServiceUnavailable}
		}
		return faulttest.Response{}
	})
	if status, log := byline("views", "verify"); status != 1 || !strings.Contains(log, "UNAVAILABLE") {
		t.Errorf("unavailable: status %d: %s", status, log)
	}
}

// likedPost creates a post with a like, and waits until the projections have applied both: the lists of the instance
// have the like before. It returns the post's id.
func likedPost(t *testing.T, s *instance) any {
	t.Helper()
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	id := at(t, s.Do("ada", createPost, map[string]any{"title": "Notes", "content": "x"}), "createPost.post.id")
	s.Do("ada", likePost, map[string]any{"post": id})
	eventually(t, func() error {
		all, err := scrape(s.Root)
		ofPosts := func(labels map[string]string) bool { return labels["projection"] == "projections-posts" }
		// the like is in one page with its post
		if n, _ := total(all, "byline_projection_changes_total", ofPosts); err == nil && n < 2 {
			err = fmt.Errorf("%v changes", n)
		}
		return err
	})
	return id
}
