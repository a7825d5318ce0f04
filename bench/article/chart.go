package article

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// colors are the colors of the versions.
var colors = []color.Color{
	color.RGBA{R: 0xc4, G: 0x4e, B: 0x52, A: 0xff}, color.RGBA{R: 0xdd, G: 0xa1, B: 0x4a, A: 0xff},
	color.RGBA{R: 0x2f, G: 0x6f, B: 0x9f, A: 0xff},
}

// Chart writes RU by request and version, on a log scale, to article-ru.svg and
// article-ru.png in a directory.
func (r *Report) Chart(dir string) error {
	p := newPlot(fmt.Sprintf("Request charge by version (%d authors, %d posts)", r.Users, r.Posts))
	p.Y.Label.Text = "RU"
	p.Y.Tick.Marker = decades{}
	const width = 14
	for i, version := range Versions() {
		values := make(plotter.Values, len(requests))
		for n := range values {
			values[n] = height(r.Cells[len(Versions())*n+i].RU)
		}
		bars, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle.Width, bars.Offset = colors[i], 0, vg.Points(float64(i-1)*width)
		p.Add(bars)
		p.Legend.Add(label(version), bars)
	}
	var names []string
	for _, request := range requests {
		names = append(names, request.id)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(requests))-0.4
	p.Y.Max = height(10_000) // room for the legend
	return save(p, dir, "article-ru")
}

// floor is the bottom of the bars in RU, so that 1 RU is visible.
const floor = 0.5

// height returns the height of a bar; the log scale of plot does not support bars.
func height(ru float64) float64 { return math.Log10(max(ru, floor) / floor) }

// decades has a labelled tick at each power of ten, in RU.
type decades struct{}

// Ticks names the powers of ten.
func (decades) Ticks(_, highest float64) []plot.Tick {
	var ticks []plot.Tick
	for ru := 1.0; height(ru) <= highest; ru *= 10 {
		ticks = append(ticks, plot.Tick{Value: height(ru), Label: fmt.Sprint(ru)})
		for n := 2.0; n < 10; n++ {
			ticks = append(ticks, plot.Tick{Value: height(n * ru)})
		}
	}
	return ticks
}

// Chart writes the RU of Q3 and Q6 by size and version, on log scales, to
// article-growth.svg and article-growth.png in a directory.
func (g *Growth) Chart(dir string) error {
	p := newPlot("Request charge as the data grows")
	p.X.Label.Text, p.Y.Label.Text = "posts", "RU"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	var sizes plot.ConstantTicks
	for _, r := range g.Reports {
		sizes = append(sizes, plot.Tick{Value: float64(r.Posts), Label: fmt.Sprint(r.Posts)})
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = sizes, plot.LogTicks{Prec: -1}
	p.Y.Min, p.Y.Max = 1, 100_000 // room for the legend
	for i, version := range Versions() {
		for n, request := range []string{"Q3", "Q6"} {
			var points plotter.XYs
			for _, r := range g.Reports {
				points = append(points, plotter.XY{X: float64(r.Posts), Y: r.cell(request, version).RU})
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return err
			}
			line.Color, line.Width, dots.Color = colors[i], vg.Points(2), colors[i]
			dots.Shape = draw.CircleGlyph{}
			if n == 1 {
				line.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
			}
			p.Add(line, dots)
			p.Legend.Add(request+" "+label(version), line, dots)
		}
	}
	return save(p, dir, "article-growth")
}

func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding = vg.Points(8)
	p.BackgroundColor = color.White
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(2)
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	p.Add(grid)
	return p
}

func save(p *plot.Plot, dir, name string) error {
	for _, ending := range []string{".svg", ".png"} {
		if err := p.Save(8*vg.Inch, 4*vg.Inch, filepath.Join(dir, name+ending)); err != nil {
			return fmt.Errorf("chart: %w", err)
		}
	}
	return nil
}
