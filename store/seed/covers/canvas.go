package covers

import (
	"image"
	"image/color"
	"math"

	"golang.org/x/image/vector"
)

// point is a place on a canvas, in pixels from its top left corner.
type point struct{ x, y float64 }

// plus returns the point that is so far to the right and below.
func (p point) plus(x, y float64) point { return point{p.x + x, p.y + y} }

// toward returns the point at a part of the way to another point.
func (p point) toward(q point, part float64) point {
	return point{p.x + (q.x-p.x)*part, p.y + (q.y-p.y)*part}
}

// around returns the point at a distance, in a direction in degrees clockwise from the right.
func (p point) around(degrees, distance float64) point {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	return point{p.x + cos*distance, p.y + sin*distance}
}

// shape is an area: the union of polygons, all of them clockwise.
type shape [][]point

// polygon returns the area within corners.
func polygon(corners ...point) shape {
	area := 0.0
	for i, p := range corners {
		q := corners[(i+1)%len(corners)]
		area += p.x*q.y - q.x*p.y
	}
	if area < 0 {
		turned := make([]point, len(corners))
		for i, p := range corners {
			turned[len(corners)-1-i] = p
		}
		corners = turned
	}
	return shape{corners}
}

// rectangle returns the area of a rectangle.
func rectangle(x, y, width, height float64) shape {
	return polygon(point{x, y}, point{x + width, y}, point{x + width, y + height}, point{x, y + height})
}

// rounded returns a rectangle with round corners.
func rounded(x, y, width, height, radius float64) shape {
	var all []point
	for i, c := range []point{{x + width - radius, y + height - radius}, {x + radius, y + height - radius},
		{x + radius, y + radius}, {x + width - radius, y + radius}} {
		all = append(all, arc(c, radius, float64(90*i), float64(90*i+90))...)
	}
	return polygon(all...)
}

// circle returns the area of a circle.
func circle(center point, radius float64) shape { return polygon(arc(center, radius, 0, 360)...) }

// arc returns points on a circle, between two directions in degrees.
func arc(center point, radius, from, to float64) (all []point) {
	n := max(2, int(math.Abs(to-from)*math.Sqrt(radius)/35))
	for i := range n + 1 {
		all = append(all, center.around(from+(to-from)*float64(i)/float64(n), radius))
	}
	return all
}

// curve returns points on a cubic Bézier curve.
func curve(from, c1, c2, to point) (all []point) {
	const n = 48
	for i := range n + 1 {
		t := float64(i) / n
		a, b, c := from.toward(c1, t), c1.toward(c2, t), c2.toward(to, t)
		all = append(all, a.toward(b, t).toward(b.toward(c, t), t))
	}
	return all
}

// line returns the area of a line with round ends and corners.
func line(width float64, along ...point) (s shape) {
	for i, p := range along {
		s = append(s, circle(p, width/2)...)
		if i == 0 {
			continue
		}
		from := along[i-1]
		length := math.Hypot(p.x-from.x, p.y-from.y)
		if length == 0 {
			continue
		}
		x, y := (p.y-from.y)/length*width/2, (from.x-p.x)/length*width/2
		s = append(s, polygon(from.plus(x, y), p.plus(x, y), p.plus(-x, -y), from.plus(-x, -y))...)
	}
	return s
}

// turned returns a shape turned clockwise about a point.
func (s shape) turned(about point, degrees float64) shape {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	turned := make(shape, len(s))
	for i, corners := range s {
		for _, p := range corners {
			x, y := p.x-about.x, p.y-about.y
			turned[i] = append(turned[i], about.plus(x*cos-y*sin, x*sin+y*cos))
		}
	}
	return turned
}

// moved returns a shape moved to the right and down.
func (s shape) moved(x, y float64) shape {
	moved := make(shape, len(s))
	for i, corners := range s {
		for _, p := range corners {
			moved[i] = append(moved[i], p.plus(x, y))
		}
	}
	return moved
}

// bounds returns the pixels that a shape touches.
func (s shape) bounds() image.Rectangle {
	low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, corners := range s {
		for _, p := range corners {
			low, high = point{min(low.x, p.x), min(low.y, p.y)}, point{max(high.x, p.x), max(high.y, p.y)}
		}
	}
	return image.Rect(int(math.Floor(low.x)), int(math.Floor(low.y)), int(math.Ceil(high.x)), int(math.Ceil(high.y)))
}

// ink is a color in sRGB, with straight alpha.
type ink = color.NRGBA

// rgb returns an opaque color.
func rgb(hex uint32) ink { return ink{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255} }

// mixed returns a color between two.
func mixed(a, b ink, part float64) ink {
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (float64(b)-float64(a))*part)) }
	return ink{R: mix(a.R, b.R), G: mix(a.G, b.G), B: mix(a.B, b.B), A: mix(a.A, b.A)}
}

// faint returns a color with an opacity from 0 to 1.
func faint(c ink, opacity float64) ink {
	c.A = uint8(math.Round(255 * opacity))
	return c
}

// canvas is a picture that is being drawn.
type canvas struct{ *image.RGBA }

// fill draws a shape in one color.
func (c canvas) fill(s shape, with ink) { c.shade(s, with, with) }

// shade draws a shape in a gradient, from its top to its bottom.
func (c canvas) shade(s shape, top, bottom ink) {
	all := s.bounds()
	b := all.Intersect(c.Bounds())
	if b.Empty() {
		return
	}
	r := vector.NewRasterizer(b.Dx(), b.Dy())
	for _, corners := range s {
		for i, p := range corners {
			x, y := float32(p.x-float64(b.Min.X)), float32(p.y-float64(b.Min.Y))
			if i == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
	}
	covered := image.NewAlpha(image.Rect(0, 0, b.Dx(), b.Dy()))
	r.Draw(covered, covered.Bounds(), image.Opaque, image.Point{})
	for y := range b.Dy() {
		with := mixed(top, bottom, float64(b.Min.Y+y-all.Min.Y)/float64(max(1, all.Dy()-1)))
		row := c.Pix[c.PixOffset(b.Min.X, b.Min.Y+y):]
		for x, part := range covered.Pix[y*covered.Stride:][:b.Dx()] {
			alpha := uint32(part) * uint32(with.A) / 255
			switch pixel := row[4*x : 4*x+4 : 4*x+4]; alpha {
			case 0:
			case 255:
				pixel[0], pixel[1], pixel[2], pixel[3] = with.R, with.G, with.B, 255
			default:
				pixel[0] = over(pixel[0], with.R, alpha)
				pixel[1] = over(pixel[1], with.G, alpha)
				pixel[2] = over(pixel[2], with.B, alpha)
			}
		}
	}
}

// over returns a part of a pixel below another, whose alpha is at most 255.
func over(below, above uint8, alpha uint32) uint8 {
	return uint8((uint32(above)*alpha + uint32(below)*(255-alpha) + 127) / 255)
}
