package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"byline/internal/servertest"
)

// picturesEnv is the environment variable with the output directory of the pictures. See
// .ci/pictures.
const picturesEnv = "BYLINE_TEST_PICTURES"

func picturesDir(t testing.TB) string {
	dir := os.Getenv(picturesEnv)
	if dir == "" {
		t.Skip(".ci/pictures makes them")
	}
	return dir
}

// TestPictureOfThePlayground writes playground.png: an executed query with its cost.
func TestPictureOfThePlayground(t *testing.T) {
	dir := picturesDir(t)
	s := start(t, "--data", t.TempDir())
	s.WaitReady()
	c := newCDN(t, s.Root)
	p := newPage(t, "chromium", s.Root)
	p.editor = graphiQL
	p.answer(c)
	p.do("size", chromedp.EmulateViewport(1200, 720))
	p.do("open", chromedp.Navigate(s.Root+"/"))
	p.tab("Feed")
	p.execute()
	p.shows(`"title": `)
	p.costs()
	p.click(`//button[@aria-label="Show Documentation Explorer"]`)
	p.click(`//a[text()="Query"]`)
	p.sees(p.text, "The newest 100 cost least.")
	p.save(filepath.Join(dir, "playground.png"))
}

const pictured = 60 * time.Second // of load

// TestPictureOfTheDashboard writes dashboard.png: some panels of the dashboard, drawn from the results of
// their expressions in a Prometheus that scrapes a server under load. Halfway, reads of the feed increase
// ninefold.
func TestPictureOfTheDashboard(t *testing.T) {
	dir := picturesDir(t)
	s := startThrottled(t)
	prometheus := startPrometheus(t, strings.TrimPrefix(s.Root, "http://"))
	began := time.Now()
	readAndWrite(t, s, began)
	ended := time.Now()

	panels := map[string]panel{}
	for _, p := range readDashboard(t).Panels {
		panels[p.Title] = p
	}
	var drawn []chart
	for _, title := range []string{"RU/s by access pattern", "RU/s by partition key range",
		"Predicted and actual RU/s", "Responses by type and code", "Latency of operations, p50 and p99",
		"Latency of requests, p50 and p99", "Cache hits by access pattern", "Memory"} {
		p, ok := panels[title]
		if !ok {
			t.Fatalf("there is no panel %q", title)
		}
		drawn = append(drawn, newChart(t, p, prometheus, began, ended))
	}
	data, err := json.Marshal(drawn)
	if err != nil {
		t.Fatal(err)
	}
	page := newPage(t, "chromium", s.Root)
	page.do("size", chromedp.EmulateViewport(1200, 900))
	page.do("open", chromedp.Navigate("file://"+servertest.Path("internal/e2e/testdata/panels.html")))
	page.eval(fmt.Sprintf(`(draw(%s, %v), "")`, data, pictured.Seconds()))
	page.save(filepath.Join(dir, "dashboard.png"))
}

// startThrottled starts a server on an engine with two partitions a container, each with 1,000 RU/s.
func startThrottled(t *testing.T) *process {
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended, log := make(chan net.Addr, 1), make(chan int, 1), &output{}
	go func() {
		ended <- run(ctx,
			[]string{"emulator", "--listen", "127.0.0.1:0", "--http", "--data", t.TempDir(), "--rus", "1000",
				"--partitions", "2"},
			io.Discard, log, func(a net.Addr) { listening <- a })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return startProcess(t, "--cosmos-endpoint", "http://"+(<-listening).String()+"/")
}

// readAndWrite sends the load of readers and writers. Halfway, reads of the feed increase.
func readAndWrite(t *testing.T, s *process, began time.Time) {
	var posts, users []any
	for n := range 20 {
		name := fmt.Sprintf("user%d", n)
		users = append(users, at(t, s.Do(name, createUser, map[string]any{"name": name}), "createUser.user.id"))
		for range 6 {
			posts = append(posts,
				at(t, s.Do(name, createPost,
					map[string]any{"title": "A post", "content": strings.Repeat("Words. ", 190)}),
					"createPost.post.id"))
		}
	}
	var clients sync.WaitGroup
	defer clients.Wait()
	every := func(pause time.Duration, from time.Duration, next func() (user, query string, variables map[string]any)) {
		clients.Go(func() {
			<-time.After(time.Until(began.Add(from)))
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for time.Since(began) < pictured {
				user, query, variables := next()
				_, _ = s.Post(user, query, variables) // refusals are part of the picture
				<-tick.C
			}
		})
	}
	of := func(query string, ids []any) func() (string, string, map[string]any) {
		return func() (string, string, map[string]any) {
			return "", query, map[string]any{"id": ids[rand.N(len(ids))]}
		}
	}
	const ms = time.Millisecond
	every(10*ms, 0, of(q2, posts))
	every(20*ms, 0, of(q3, users))
	every(20*ms, 0, of(q4, posts))
	every(40*ms, 0, of(q5, posts))
	every(300*ms, 0, func() (string, string, map[string]any) { return "", `{ nonsense }`, nil })
	write := func(query string) func() (string, string, map[string]any) {
		return func() (string, string, map[string]any) {
			return fmt.Sprintf("user%d", rand.N(20)), query,
				map[string]any{"post": posts[rand.N(len(posts))], "content": "Well said.", "title": "Another"}
		}
	}
	every(100*ms, 0, write(createComment))
	every(100*ms, 0, write(likePost))
	every(500*ms, 0, write(createPost))
	every(20*ms, 0, func() (string, string, map[string]any) { return "", q6, nil })
	for range 8 {
		every(10*ms, pictured/2, func() (string, string, map[string]any) { return "", q6, nil })
	}
}

// startPrometheus starts a Prometheus that scrapes the server every second.
func startPrometheus(t *testing.T, target string) (root string) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config,
		[]byte("scrape_configs: [{job_name: byline, scrape_interval: 1s, scrape_timeout: 1s, static_configs: "+
			"[{targets: ['"+target+"'], labels: {instance: byline-1}}]}]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	log := &output{}
	cmd := exec.Command(path, "--config.file="+config, "--storage.tsdb.path="+dir, "--web.listen-address=127.0.0.1:0")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	eventually(t, func() error {
		m := address.FindStringSubmatch(log.String())
		if m == nil {
			return fmt.Errorf("Prometheus does not listen: %s", log)
		}
		root = "http://" + m[1]
		return nil
	})
	return root
}

// querySeries is a series in the result of a range query.
type querySeries struct {
	Metric map[string]string
	Values [][2]any // seconds, and a number as text
}

func queryRange(t *testing.T, root, expr string, began, ended time.Time) []querySeries {
	t.Helper()
	expr = strings.NewReplacer("$__rate_interval", "5s", "$instance", ".*").Replace(expr)
	r, err := http.Get(root + "/api/v1/query_range?" + url.Values{"query": {expr}, "step": {"1"},
		"start": {strconv.FormatInt(began.Unix(), 10)}, "end": {strconv.FormatInt(ended.Unix(), 10)}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var out struct {
		Status, Error string
		Data          struct{ Result []querySeries }
	}
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil || out.Status != "success" {
		t.Fatalf("%s: %v %s", expr, err, out.Error)
	}
	return out.Data.Result
}

// units has the labels of Grafana's units, and what their values are multiplied by.
var units = map[string]struct {
	label string
	scale float64
}{
	"suffix: RU/s": {"RU/s", 1}, "reqps": {"requests/s", 1}, "s": {"ms", 1000}, "percentunit": {"%", 100},
	"bytes": {"MiB", 1.0 / (1 << 20)},
}

// chart is what testdata/panels.html draws of a panel.
type chart struct {
	Title string `json:"title"`
	Unit  string `json:"unit"`
	Lines []line `json:"lines"`
}

type line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"` // seconds since the beginning, and the value
}

func newChart(t *testing.T, p panel, root string, began, ended time.Time) chart {
	t.Helper()
	unit := units[p.FieldConfig.Defaults.Unit]
	c := chart{Title: p.Title, Unit: unit.label}
	for _, target := range p.Targets {
		for _, series := range queryRange(t, root, target.Expr, began, ended) {
			l := line{Name: p.rename(regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(target.LegendFormat,
				func(label string) string { return series.Metric[strings.Trim(label, "{}")] }))}
			for _, v := range series.Values {
				value, err := strconv.ParseFloat(v[1].(string), 64)
				at := v[0].(float64) - float64(began.Unix())
				if err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) && at <= pictured.Seconds() {
					l.Points = append(l.Points, [2]float64{at, value * unit.scale})
				}
			}
			if len(l.Points) > 0 {
				c.Lines = append(c.Lines, l)
			}
		}
	}
	if len(c.Lines) == 0 {
		t.Errorf("%s: nothing to draw", p.Title)
	}
	return c
}
