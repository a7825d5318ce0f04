package article

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// articleReport returns a report with the article's figures times a factor.
func articleReport(posts int, factor float64) *Report {
	r := &Report{Users: posts / 25, Posts: posts, Runs: 1}
	for _, request := range requests {
		for i, version := range Versions() {
			f := request.figures[i]
			r.Cells = append(r.Cells, Cell{Request: request.id, What: request.what, Version: version,
				Measurement: Measurement{RU: f.ru * factor, P50: f.ms, P99: f.ms}, ArticleRU: f.ru, ArticleMS: f.ms})
		}
	}
	return r
}

// TestCheck tests the rule of --check.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		request, version string
		ru, beside       float64
		want             string
	}{
		"as in the article -> nil":              {"C3", V3, 10, 0, ""},
		"20 % over -> nil":                      {"Q3", V3, 12, 0, ""},
		"over 20 % -> error":                    {"Q3", V3, 12.1, 0, "Q3 costs 12.10 RU, in the article 10.00"},
		"more with other operations -> error":   {"Q3", V3, 10, 2.1, "Q3 costs 12.10 RU, in the article 10.00"},
		"more with a reserved name -> nil":      {"C1", V3, 10, 10, ""},
		"more with immediate views -> nil":      {"C2", V3, 10, 10, ""},
		"more without immediate views -> error": {"C2", V3, 12.1, 10, "C2 costs 12.10 RU"},
		"an indexed partition key -> nil":       {"C3", V3, 12.38, 0, ""},
		"more than its index -> error":          {"C3", V3, 12.5, 0, "C3 costs 12.12 RU, in the article 10.00"},
		"another version -> nil":                {"C3", V2, 100, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{
				Cells: []Cell{{Request: c.request, Version: c.version,
					Measurement: Measurement{RU: c.ru, BesideRU: c.beside}, ArticleRU: 10}}}
			if err := r.Check(); (err == nil) != (c.want == "") ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestDisorder tests the order of costs from version to version.
func TestDisorder(t *testing.T) {
	for name, c := range map[string]struct {
		ru    [3]float64
		wrong bool
	}{
		"each cheaper -> in order":        {[3]float64{3, 2, 1}, false},
		"V2 equal to V3 -> in order":      {[3]float64{3, 1, 1}, false},
		"V3 over V2 by noise -> in order": {[3]float64{3, 1, 1.05}, false},
		"V1 equal to V2 -> not in order":  {[3]float64{2, 2, 1}, true},
		"V3 over V2 -> not in order":      {[3]float64{3, 1, 2}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := articleReport(10, 1)
			at := 3 * 9 // Q6
			for i := range 3 {
				r.Cells[at+i].RU = c.ru[i]
			}
			if wrong := r.disorder(chargeOf, noise) != nil; wrong != c.wrong {
				t.Errorf("not in order: %t, want %t", wrong, c.wrong)
			}
			if err := r.Check(); c.wrong != (err != nil) && c.ru[2] != 1.05 ||
				err != nil && !strings.Contains(err.Error(), "Q6") {
				t.Errorf("--check: %v", err)
			}
		})
	}
}

// TestPercentile checks the nearest-rank method: of few measurements the 99th percentile is the longest.
func TestPercentile(t *testing.T) {
	up := func(n int) (took []time.Duration) {
		for i := range n {
			took = append(took, time.Duration(n-i)*time.Millisecond)
		}
		return took
	}
	for _, c := range []struct {
		n, p int
		want float64
	}{{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {30, 50, 15}, {30, 99, 30}, {99, 99, 99}, {100, 50, 50}, {100, 99, 99},
		{1000, 99, 990}} {
		if got := percentile(up(c.n), c.p); got != c.want {
			t.Errorf("%dth of %d: %v, want %v", c.p, c.n, got, c.want)
		}
	}
}

// TestLatencies tests the rule of --check and the output.
func TestLatencies(t *testing.T) {
	l := &Latencies{Posts: [2]int{100, 1000}, Runs: 7, Reads: []Latency{
		{Request: "Q1", What: "a user", RU: [2]float64{1, 1}, P50: [2]float64{0.1, 0.12}, P99: [2]float64{0.2, 2}},
		{Request: "Q2", What: "a post", RU: [2]float64{1, 1}, P50: [2]float64{0.1, 0.05}, P99: [2]float64{0.2, 0.2}},
	}}
	if err := l.Check(); err != nil {
		t.Errorf("1.2 times as long: %v", err)
	}
	l.Reads[1].P50[1] = 0.121
	if err := l.Check(); err == nil ||
		!strings.Contains(err.Error(), "1000 posts as with 100: Q2 takes 1.21 times as long") ||
		strings.Contains(err.Error(), "Q1") {
		t.Errorf("1.21 times as long: %v", err)
	}
	for f, want := range map[Format][]string{
		Text: {"| Q1      | a user | 1.000         | 1.000      | 1.00  | 0.100             | 0.120      | 1.20  " +
			"| 0.200             | 2.000      | 10.00 |", "7 runs", "cache is off"},
		Markdown: {"| Q2 | a post | 1.000 | 1.000 | 1.00 | 0.100 | 0.121 | 1.21 |", "7 runs"},
		JSON:     {`{"posts":[100,1000],"runs":7,"reads":[{"request":"Q1","what":"a user","ru":[1,1],`},
	} {
		var out bytes.Buffer
		err := l.Write(&out, f)
		for _, text := range want {
			if err != nil || !strings.Contains(out.String(), text) {
				t.Errorf("%s: %v: %s", f, err, &out)
			}
		}
	}
}

// TestGrowth tests the output of Growth.
func TestGrowth(t *testing.T) {
	small, large := articleReport(100, 1), articleReport(10_000, 1)
	large.Cells[3*9].RU *= 50
	g := &Growth{Reports: []*Report{small, articleReport(1000, 1), large}}
	for f, want := range map[Format]string{
		Text: "| Q6      | the newest 100 posts | V1 | 2063.54       | 2063.54        | 103177.00       | 50.00 |",
		Markdown: "| Q6 | the newest 100 posts | V1 | 2063.54 | 2063.54 | 103177.00 | 50.00 | 306.00 | 306.00 | " +
			"306.00 | 1.00 |",
		JSON: `{"reports":[{"users":4,"posts":100,`,
	} {
		var out bytes.Buffer
		if err := g.Write(&out, f); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v:\n%s", f, err, &out)
		}
		if f != JSON && strings.Contains(out.String(), "C3") {
			t.Errorf("%s shows writes", f)
		}
	}
}

// TestCharts decodes each chart in the format of its extension.
func TestCharts(t *testing.T) {
	dir := t.TempDir()
	r := articleReport(100, 1)
	if err := r.Chart(dir); err != nil {
		t.Fatal(err)
	}
	if err := (&Growth{Reports: []*Report{r, articleReport(1000, 2), articleReport(10_000, 3)}}).Chart(
		dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"article-ru":     {"V1", "V2", "V3", "C1", "Q6", "RU", "1000"},
		"article-growth": {"Q3 V1", "Q6 V3", "posts", "RU", "100", "1000", "10000"},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s.svg: %v", name, err)
			}
		}
		for _, text := range want {
			if !bytes.Contains(svg, []byte(">"+text+"<")) {
				t.Errorf("%s.svg does not say %s", name, text)
			}
		}
		image, err := os.Open(filepath.Join(dir, name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(image); err != nil {
			t.Errorf("%s.png: %v", name, err)
		}
		image.Close()
	}
}
