package article

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Growth is the same requests on data sets of growing size.
type Growth struct {
	Reports []*Report `json:"reports"`
}

// cell returns the cell of a request.
func (r *Report) cell(request, version string) Cell {
	for _, c := range r.Cells {
		if c.Request == request && c.Version == version {
			return c
		}
	}
	return Cell{}
}

// Write writes the RU and the median latency of each read, by size.
func (g *Growth) Write(w io.Writer, f Format) error {
	if f == JSON {
		return json.NewEncoder(w).Encode(g)
	}
	header := []any{"request", "", ""}
	for _, r := range g.Reports {
		header = append(header, fmt.Sprintf("RU, %d posts", r.Posts))
	}
	header = append(header, "times")
	for _, r := range g.Reports {
		header = append(header, fmt.Sprintf("p50 ms, %d posts", r.Posts))
	}
	header = append(header, "times")
	t := newTable(header...)
	for _, request := range requests {
		if !request.readOnly() {
			continue
		}
		for _, version := range Versions() {
			row := table.Row{"", "", label(version)}
			if version == V1 {
				row = table.Row{request.id, request.what, label(version)}
				if request.id != "Q1" && f == Text {
					t.AppendSeparator()
				}
			}
			median := func(c Cell) float64 { return c.P50 }
			for _, of := range []func(Cell) float64{chargeOf, median} {
				var values []float64
				for _, r := range g.Reports {
					values = append(values, of(r.cell(request.id, version)))
					row = append(row, fmt.Sprintf("%.2f", values[len(values)-1]))
				}
				row = append(row, fmt.Sprintf("%.2f", values[len(values)-1]/values[0]))
			}
			t.AppendRow(row)
		}
	}
	_, err := fmt.Fprintln(w, render(t, f))
	return err
}
