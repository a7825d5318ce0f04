package article

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Report is the article's table, measured.
type Report struct {
	Users int    `json:"users"`
	Posts int    `json:"posts"`
	Runs  int    `json:"runs"`  // of each request on each model
	Cells []Cell `json:"cells"` // in the article's order, the versions of a request together
}

// Format is how a report is written.
type Format string

// The formats.
const (
	Text     Format = "text"
	Markdown Format = "markdown"
	JSON     Format = "json"
)

// Write writes the report.
func (r *Report) Write(w io.Writer, f Format) error {
	if f == JSON {
		return json.NewEncoder(w).Encode(r)
	}
	t := newTable("request", "V1", "V2", "V3")
	for i := 0; i < len(r.Cells); i += len(Versions()) {
		if i > 0 && f == Text {
			t.AppendSeparator()
		}
		row := table.Row{r.Cells[i].Request + "\n" + r.Cells[i].What}
		for _, c := range r.Cells[i : i+len(Versions())] {
			ru := fmt.Sprintf("%s RU (%s, x %.2f)", amount(c.RU), amount(c.ArticleRU), c.RU/c.ArticleRU)
			if all := c.RU + c.BesideRU; c.BesideRU > 0 {
				ru += fmt.Sprintf("; %s in all (x %.2f)", amount(all), all/c.ArticleRU)
			}
			row = append(row, fmt.Sprintf("%s\n%.2f, %.2f ms (%v)", ru, c.P50, c.P99, c.ArticleMS))
		}
		t.AppendRow(row)
	}
	end := "\n"
	if f == Markdown {
		end = "\n\n"
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s\n", render(t, f), strings.Join(r.notes(), end))
	return err
}

func newTable(header ...any) table.Writer {
	t := table.NewWriter()
	t.AppendHeader(header)
	t.Style().Format.Header = text.FormatDefault
	return t
}

func render(t table.Writer, f Format) string {
	if f == Markdown {
		return t.RenderMarkdown()
	}
	return t.Render()
}

func amount(ru float64) string { return fmt.Sprintf("%.2f", ru) }

// notes returns explanations of the table.
func (r *Report) notes() []string {
	longest := ""
	if r.Runs < 100 {
		longest = fmt.Sprintf(", which of %d runs is the longest", r.Runs)
	}
	notes := []string{
		"In each cell: the mean charge (the article's, and the ratio); the latency's 50th and 99th percentile" +
			longest + " (the article's).",
		fmt.Sprintf("%d authors, %d posts; %d runs of each request on each version, in turn.", r.Users, r.Posts,
			r.Runs),
	}
	var beside []string
	for _, c := range r.Cells {
		if c.BesideRU > 0 {
			beside = append(beside, fmt.Sprintf("%s %s", c.Request, amount(c.BesideRU)))
		}
	}
	if beside != nil {
		notes = append(notes,
			"In all: with what Byline does besides, for unique usernames and views that are written at once: "+
				strings.Join(beside, ", ")+" RU more. The latency includes it.")
	}
	notes = append(notes,
		"C3 and C4 are transactional batches, charged as the sum of their operations, where the article has stored "+
			"procedures, which azcosmos cannot call.")
	median := func(c Cell) float64 { return c.P50 }
	for _, measure := range []struct {
		name  string
		of    func(Cell) float64
		noise float64
	}{
		{"RU", chargeOf, 1},
		{fmt.Sprintf("ms (p50; V3 by %.0f %% at most)", 100*(noise-1)), median, noise},
	} {
		if wrong := r.disorder(measure.of, measure.noise); wrong == nil {
			notes = append(notes,
				fmt.Sprintf("V1 > V2 >= V3 in %[2]s: %[1]s.", strings.Join(ordered, ", "), measure.name))
		} else {
			notes = append(notes,
				fmt.Sprintf("Not V1 > V2 >= V3 in %[2]s: %[1]s.", strings.Join(wrong, ", "), measure.name))
		}
	}
	return notes
}

// ordered are the requests that the article makes cheaper from version to version.
var ordered = []string{"Q2", "Q3", "Q4", "Q5", "Q6"}

// noise is the highest ratio at which two latencies count as equal.
const noise = 1.1

func chargeOf(c Cell) float64 { return c.RU }

// disorder returns the ordered requests that do not cost less from version to version. V3 may cost up to
// noise times as much as V2.
func (r *Report) disorder(of func(Cell) float64, noise float64) []string {
	var wrong []string
	for i, c := range r.Cells {
		if c.Version != V1 || !slices.Contains(ordered, c.Request) {
			continue
		}
		if v1, v2, v3 := of(c), of(r.Cells[i+1]), of(r.Cells[i+2]); v1 <= v2 || v2*noise < v3 {
			wrong = append(wrong, c.Request)
		}
	}
	return wrong
}

// tolerance is the share by which V3 may cost more than in the article.
const tolerance = 0.2

// keyIndex is the charge of indexing the partition key of a created item: two index terms, which the
// article's items do not have.
const keyIndex = 2 * 4.0 / 21

// Check returns an error that names the requests that cost over 20 % more RU on V3 than in
// the article, and those that do not cost less from version to version. All operations of a request count,
// except those that the article does not have: reserving a username (C1), writing a new post's views at once
// (C2), and indexing the partition key of a created comment or like (C3, C4).
func (r *Report) Check() error {
	var wrong []string
	for _, c := range r.Cells {
		ru := c.RU
		if c.Request != "C1" && c.Request != "C2" {
			ru += c.BesideRU
		}
		if c.Request == "C3" || c.Request == "C4" {
			ru -= keyIndex
		}
		if c.Version == V3 && ru > (1+tolerance)*c.ArticleRU {
			wrong = append(wrong,
				fmt.Sprintf("%s costs %s RU, in the article %s", c.Request, amount(ru), amount(c.ArticleRU)))
		}
	}
	if wrong != nil {
		wrong = []string{fmt.Sprintf("over %.0f%% more than in the article: %s", 100*tolerance,
			strings.Join(wrong, "; "))}
	}
	if disorder := r.disorder(chargeOf, 1); disorder != nil {
		wrong = append(wrong, "not V1 > V2 >= V3 in RU: "+strings.Join(disorder, ", "))
	}
	if wrong == nil {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}
