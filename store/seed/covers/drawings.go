package covers

import (
	"math/rand/v2"
)

// The palette.
var (
	night   = rgb(0x17213f)
	navy    = rgb(0x22325c)
	cream   = rgb(0xf7eedd)
	paper   = rgb(0xfffbf2)
	sand    = rgb(0xe6d5b8)
	coral   = rgb(0xe25b3c)
	brick   = rgb(0xb93f2c)
	blush   = rgb(0xf6c8ae)
	mustard = rgb(0xf2b134)
	amber   = rgb(0xe08e2b)
	teal    = rgb(0x1f7a74)
	pine    = rgb(0x124e50)
	mint    = rgb(0xa9d6c6)
	sky     = rgb(0xc9e0ea)
	plum    = rgb(0x5a375d)
)

// drawings are those of the articles, in their order.
var drawings = []func(canvas, *rand.Rand){decisions, letter, run, states, juggling, budget, notebook, profile, tags,
	house, cups, cables}

// background shades the whole canvas.
func (c canvas) background(top, bottom ink) { c.shade(rectangle(0, 0, Width, Height), top, bottom) }

// decisions draws a path with turnings that were not taken.
func decisions(c canvas, r *rand.Rand) {
	c.background(teal, pine)
	c.fill(circle(point{1010, 315}, 420), faint(mint, 0.08))
	forks := []point{{190, 400}, {420, 300}, {640, 385}, {840, 290}}
	goal := point{1010, 315}
	for i, from := range forks {
		for _, up := range []float64{-1, 1} {
			to := from.plus(150+float64(r.IntN(50)), up*float64(120+r.IntN(60)))
			c.fill(line(9, curve(from, from.plus(80, 0), to.plus(-90, 0), to)...), faint(mint, 0.55))
			c.fill(circle(to, 17), mint)
			c.fill(circle(to, 9), mixed(teal, pine, to.y/Height))
		}
		if i > 0 {
			before := forks[i-1]
			c.fill(line(20, curve(before, before.plus(110, 0), from.plus(-110, 0), from)...), cream)
		}
	}
	c.fill(line(20, curve(point{-30, 330}, point{60, 330}, forks[0].plus(-90, 0), forks[0])...), cream)
	last := forks[len(forks)-1]
	c.fill(line(20, curve(last, last.plus(80, 0), goal.plus(-80, 0), goal)...), cream)
	for _, at := range forks {
		c.fill(circle(at, 30), cream)
		c.fill(circle(at, 16), coral)
	}
	c.fill(circle(goal, 92), mustard)
	c.fill(line(22, goal.plus(-36, 4), goal.plus(-10, 32), goal.plus(40, -28)), pine)
}

// letter draws a letter with an underlined mistake, in its envelope.
func letter(c canvas, r *rand.Rand) {
	c.background(coral, brick)
	for i := range 9 {
		x := float64(140 * i)
		c.fill(polygon(point{x, 0}, point{x + 70, 0}, point{x - 230, 630}, point{x - 300, 630}), faint(cream, 0.045))
	}
	center := point{600, 340}
	add := func(s shape, with ink) { c.fill(s.turned(center, -5).moved(0, -20), with) }
	add(rounded(312, 252, 600, 380, 18), faint(night, 0.22))
	add(rounded(300, 240, 600, 370, 18), sand)
	add(rounded(360, 70, 480, 420, 10), paper)
	for i, length := range []float64{300, 360, 130, 330} {
		y := []float64{125, 180, 235, 310}[i]
		add(line(16, point{405, y}, point{405 + length - float64(r.IntN(30)), y}), mixed(sand, navy, 0.25))
	}
	add(line(16, point{560, 235}, point{700, 235}), navy)
	var wave []point
	for i := range 12 {
		wave = append(wave, point{556 + 13.5*float64(i), 261 + float64(i%2)*14})
	}
	add(line(7, wave...), coral)
	add(polygon(point{300, 262}, point{600, 470}, point{300, 592}), cream)
	add(polygon(point{900, 262}, point{600, 470}, point{900, 592}), cream)
	add(polygon(point{302, 606}, point{580, 424}, point{620, 424}, point{898, 606}), mixed(cream, sand, 0.45))
	add(line(4, point{312, 600}, point{582, 426}, point{618, 426}, point{888, 600}), mixed(sand, navy, 0.18))
	seal := point{600, 455}
	add(circle(seal, 40), coral)
	add(line(9, seal.plus(-15, 8), seal.plus(0, -12), seal.plus(15, 8)), cream)
}

// run draws a runner with a head torch, on hills in the night.
func run(c canvas, r *rand.Rand) {
	c.background(night, plum)
	for range 60 {
		at := point{float64(r.IntN(Width)), float64(r.IntN(330))}
		c.fill(circle(at, 1.2+2.2*r.Float64()), faint(cream, 0.35+0.6*r.Float64()))
	}
	moon := point{245, 165}
	for i := range 4 {
		c.fill(circle(moon, float64(190-32*i)), faint(mustard, 0.07))
	}
	crescent := append(arc(moon, 78, 26.8, 277.4), arc(moon.plus(34, -18), 64, 248, 56.2)...)
	c.fill(polygon(crescent...), mixed(cream, mustard, 0.3))
	hill := func(with ink, from, c1, c2, to point) {
		c.fill(polygon(append(curve(from, c1, c2, to), point{Width, Height}, point{0, Height})...), with)
	}
	hill(mixed(plum, night, 0.35), point{0, 420}, point{330, 250}, point{640, 560}, point{1200, 330})
	hill(mixed(plum, night, 0.62), point{0, 520}, point{420, 360}, point{760, 560}, point{1200, 420})
	head := point{628, 268}
	c.fill(polygon(head.plus(18, -6), point{1200, 190}, point{1200, 560}, head.plus(18, 10)), faint(mustard, 0.16))
	c.fill(polygon(head.plus(18, -4), point{1200, 270}, point{1200, 500}, head.plus(18, 8)), faint(mustard, 0.2))
	hill(night, point{0, 560}, point{380, 500}, point{760, 520}, point{1200, 500})
	limb := func(width float64, with ink, along ...point) { c.fill(line(width, along...), with) }
	hip, neck := point{560, 408}, point{606, 318}
	limb(25, mixed(coral, night, 0.35), neck.plus(-6, 10), point{545, 335}, point{512, 382})   // arm behind
	limb(31, mixed(teal, night, 0.45), hip, point{530, 478}, point{452, 462}, point{436, 488}) // leg behind
	limb(31, teal, hip, point{640, 440}, point{624, 514}, point{654, 518})                     // leg in front
	limb(54, coral, hip.plus(2, -6), neck.plus(-4, 14))                                        // body
	limb(13, cream, hip.plus(-8, -46), hip.plus(42, -34))                                      // reflecting stripe
	limb(25, mixed(coral, blush, 0.35), neck.plus(-2, 16), point{625, 384}, point{678, 362})   // arm in front
	c.fill(circle(head, 34), blush)
	limb(12, navy, head.plus(-32, -8), head.plus(30, -10))
	c.fill(circle(head.plus(31, -4), 11), mustard)
}

// states draws a grid of shapes, of which three have a color.
func states(c canvas, r *rand.Rand) {
	c.background(cream, mixed(cream, sand, 0.5))
	const columns, rows, side = 8, 4, 132
	left, top := (Width-columns*side)/2.0, (Height-rows*side)/2.0
	colored := map[int]ink{10: coral, 14: mustard, 21: teal}
	for i := range columns * rows {
		x, y := left+float64(i%columns*side), top+float64(i/columns*side)
		center := point{x + side/2, y + side/2}
		var s shape
		kind := r.IntN(4)
		if colored[i].A > 0 {
			kind = i / 7
		}
		switch kind {
		case 3:
			s = circle(center, 46)
		case 0:
			s = rounded(center.x-43, center.y-43, 86, 86, 8)
		case 1:
			s = polygon(center.plus(0, -48), center.plus(50, 42), center.plus(-50, 42))
		default:
			quarter := append(arc(center.plus(-42, 42), 86, -90, 0), center.plus(-42, 42))
			s = polygon(quarter...).turned(center, float64(90*r.IntN(4)))
		}
		if with, ok := colored[i]; ok {
			c.fill(rounded(x+5, y+5, side-10, side-10, 22), night)
			c.fill(s, with)
			continue
		}
		c.fill(s, mixed(sand, cream, 0.25))
		c.fill(line(4, append(s[0], s[0][0])...), mixed(sand, navy, 0.16))
	}
}

// juggling draws three balls above two hands.
func juggling(c canvas, r *rand.Rand) {
	c.background(mixed(blush, cream, 0.45), blush)
	c.fill(circle(point{600, 700}, 590), faint(cream, 0.4))
	c.fill(circle(point{600, 700}, 450), faint(cream, 0.4))
	left, right := point{300, 480}, point{900, 480}
	way := curve(left.plus(20, -50), point{390, -20}, point{810, -20}, right.plus(-20, -50))
	for _, at := range way {
		c.fill(circle(at, 5), faint(plum, 0.35))
	}
	turn := r.IntN(4)
	for i, with := range []ink{teal, coral, mustard} {
		at := way[7+17*i]
		c.fill(circle(at.plus(8, 14), 70), faint(plum, 0.18))
		c.fill(circle(at, 70), with)
		from := float64(40*i + 25*turn)
		for _, part := range []float64{0, 180} {
			c.fill(polygon(append(arc(at, 70, from+part, from+part+70), at)...), mixed(with, cream, 0.55))
		}
		c.fill(circle(at, 16), with)
	}
	skin := mixed(blush, brick, 0.4)
	for i, hand := range []point{left, right} {
		c.fill(polygon(hand.plus(-56, 60), hand.plus(56, 60), hand.plus(84, 200), hand.plus(-84, 200)), navy)
		c.fill(rounded(hand.x-66, hand.y+64, 132, 34, 12), cream)
		c.fill(polygon(append(arc(hand, 84, 0, 180), hand.plus(-84, 0))...), skin)
		inward := float64(1 - 2*i)
		for j := range 4 {
			x := -inward * (68 - 30*float64(j))
			c.fill(line(27, hand.plus(x, 16), hand.plus(x*1.12, -26+6*float64(j))), skin)
		}
		c.fill(line(28, hand.plus(inward*56, 34), hand.plus(inward*96, -6)), skin)
	}
}

// budget draws a sheet of paper with a table, under a magnet on a refrigerator.
func budget(c canvas, r *rand.Rand) {
	c.background(mixed(mint, paper, 0.25), mint)
	c.fill(rectangle(0, 0, 148, Height), mixed(mint, teal, 0.22))
	c.fill(rectangle(140, 0, 8, Height), mixed(mint, teal, 0.5))
	c.fill(rounded(196, 96, 40, 438, 20), faint(pine, 0.25))
	c.shade(rounded(186, 86, 40, 438, 20), paper, sky)
	center := point{690, 330}
	add := func(s shape, with ink) { c.fill(s.turned(center, 3), with) }
	add(rounded(404, 72, 600, 540, 6), faint(pine, 0.25))
	add(rounded(390, 56, 600, 540, 6), paper)
	add(rounded(430, 150, 520, 60, 8), mint)
	for i := range 5 {
		x := 430 + 104*float64(i)
		add(line(12, point{x + 24, 180}, point{x + 72, 180}), pine)
		if i > 0 {
			add(line(3, point{x, 150}, point{x, 560}), sand)
		}
	}
	for row := range 5 {
		y := 246 + 68*float64(row)
		add(line(3, point{430, y + 34}, point{950, y + 34}), sand)
		add(circle(point{478, y}, 13), mixed(mint, teal, 0.35))
		for i := range 4 {
			x, length := 558+104*float64(i), float64(10+r.IntN(46))
			with := mixed(navy, sky, 0.3)
			if i == 3 {
				with = teal
				if row == 2 {
					with = coral
				}
				length = 40 + length/3
			}
			add(line(14, point{x, y}, point{x + length, y}), with)
		}
	}
	add(circle(point{696, 76}, 40), faint(pine, 0.3))
	add(circle(point{690, 68}, 40), coral)
	add(circle(point{678, 56}, 12), mixed(coral, cream, 0.55))
}

// notebook draws an open notebook and a fountain pen.
func notebook(c canvas, r *rand.Rand) {
	c.background(mixed(plum, coral, 0.12), mixed(plum, night, 0.4))
	c.fill(rounded(150, 92, 900, 490, 20), faint(night, 0.35))
	c.fill(rounded(130, 70, 920, 490, 20), brick)
	for i := range 3 {
		d := float64(6 * i)
		c.fill(rounded(150+d, 58, 880-2*d, 482-d, 10), mixed(sand, cream, float64(i)/3))
	}
	c.fill(rounded(168, 52, 422, 470, 8), paper)
	c.fill(rounded(590, 52, 422, 470, 8), mixed(paper, cream, 0.55))
	c.shade(rectangle(574, 52, 32, 470), faint(sand, 0.5), faint(sand, 0.9))
	for i := range 8 {
		y := 112 + 50*float64(i)
		c.fill(rectangle(630, y, 344, 3), sky)
		if i > 5 {
			c.fill(rectangle(206, y, 346, 3), sky)
		}
	}
	box := func(x, y, w, h float64, with ink) {
		c.fill(rounded(x, y, w, h, 10), with)
		c.fill(rounded(x+7, y+7, w-14, h-14, 6), paper)
	}
	box(214, 104, 130, 82, teal)
	box(404, 104, 130, 82, coral)
	box(309, 262, 140, 86, mustard)
	arrow := func(from, to point, degrees float64) {
		c.fill(line(6, from, to), navy)
		c.fill(line(6, to.around(degrees+150, 20), to, to.around(degrees-150, 20)), navy)
	}
	arrow(point{352, 145}, point{394, 145}, 0)
	arrow(point{279, 196}, point{336, 250}, 42)
	arrow(point{469, 196}, point{416, 250}, 138)
	written := func(y, to float64) {
		along := []point{{636, y}}
		for x := 636.0; x < to; x += 26 + float64(r.IntN(14)) {
			from := along[len(along)-1]
			next := point{x + 26, y - float64(r.IntN(8))}
			along = append(along, curve(from, from.plus(12, -24-float64(r.IntN(10))), next.plus(-14, 18), next)...)
		}
		c.fill(line(5, along...), navy)
	}
	written(106, 930)
	written(156, 900)
	written(206, 940)
	written(256, 760)
	tip := point{806, 258}
	pen := func(s shape, with ink) { c.fill(s.turned(tip, 38), with) }
	at := func(x, y float64) point { return tip.plus(x, y) }
	c.fill(shape(rounded(tip.x+70, tip.y-14, 420, 62, 30)).turned(tip, 38), faint(night, 0.25))
	pen(polygon(at(0, 0), at(84, -27), at(118, -24), at(118, 24), at(84, 27)), mustard)
	pen(line(3.5, at(6, 0), at(72, 0)), brick)
	pen(circle(at(76, 0), 7), brick)
	pen(polygon(at(112, -26), at(190, -36), at(190, 36), at(112, 26)), night)
	pen(rounded(tip.x+180, tip.y-37, 420, 74, 30), navy)
	pen(rounded(tip.x+196, tip.y-24, 380, 14, 7), mixed(navy, sky, 0.35))
	pen(rectangle(tip.x+318, tip.y-37, 20, 74), mustard)
}

// profile draws a flame graph with one wide bar.
func profile(c canvas, r *rand.Rand) {
	c.background(night, navy)
	for i := range 7 {
		c.fill(rectangle(0, 76+84*float64(i), Width, 2), faint(sky, 0.08))
	}
	warm := []ink{coral, amber, mixed(coral, blush, 0.5), brick, mixed(amber, blush, 0.45)}
	const height, gap = 84.0, 6.0
	type bar struct{ x, width float64 }
	row := []bar{{60, 1080}}
	for level := range 6 {
		y := Height - 36 - height*float64(level+1)
		var next []bar
		for i, b := range row {
			with := warm[(level+i*2+r.IntN(2))%len(warm)]
			if level == 4 && i == 1 {
				with = mustard
				c.fill(rounded(b.x-8, y-8, b.width-gap+16, height-gap+16, 18), faint(mustard, 0.35))
			}
			c.fill(rounded(b.x, y, b.width-gap, height-gap, 10), with)
		}
		switch level {
		case 0:
			next = []bar{{60, 760}, {860, 240}}
		case 1:
			next = []bar{{60, 150}, {210, 610}, {860, 180}}
		case 2:
			next = []bar{{60, 90}, {210, 610}, {890, 110}}
		case 3:
			next = []bar{{78, 56}, {230, 500}, {740, 70}}
		case 4:
			next = []bar{{300, 60}, {420, 40}, {600, 84}}
		}
		row = next
	}
}

// tags draws name tags that hang from a line.
func tags(c canvas, r *rand.Rand) {
	c.background(sky, mixed(sky, paper, 0.6))
	c.fill(circle(point{960, 150}, 260), faint(paper, 0.4))
	cord := curve(point{-20, 70}, point{400, 150}, point{800, 150}, point{1220, 60})
	c.fill(line(7, cord...), navy)
	for i, with := range []ink{teal, coral, mustard, navy} {
		at := cord[[]int{6, 18, 30, 41}[i]]
		hole := at.plus(0, 80+float64(r.IntN(50)))
		lean := float64(r.IntN(13) - 6)
		add := func(s shape, with ink) { c.fill(s.turned(at, lean), with) }
		x, y := hole.x-100, hole.y-44
		tag := polygon(point{x + 52, y}, point{x + 148, y}, point{x + 200, y + 62}, point{x + 200, y + 300},
			point{x, y + 300}, point{x, y + 62})
		add(tag.moved(10, 12), faint(navy, 0.15))
		add(tag, with)
		add(circle(hole.plus(0, 4), 20), mixed(with, paper, 0.6))
		add(circle(hole.plus(0, 4), 11), navy)
		add(line(5, at, hole.plus(0, 2)), navy)
		add(rounded(x+26, y+102, 148, 168, 12), paper)
		for j := range 3 {
			length := float64(50 + r.IntN(56))
			if j == 0 {
				length = 104
			}
			strong := mixed(sand, navy, 0.2)
			if j == 0 {
				strong = with
			}
			row := y + 140 + 46*float64(j)
			add(line(15, point{x + 48, row}, point{x + 48 + length, row}), strong)
		}
	}
}

// house draws an old house with a signal that reaches its rooms.
func house(c canvas, r *rand.Rand) {
	c.background(mixed(plum, coral, 0.3), mixed(coral, mustard, 0.45))
	router := point{512, 462}
	c.fill(rectangle(0, 556, Width, 74), mixed(plum, night, 0.55))
	c.fill(rectangle(716, 92, 62, 130), brick)
	c.fill(rectangle(708, 82, 78, 20), mixed(brick, night, 0.35))
	c.fill(polygon(point{300, 268}, point{600, 70}, point{900, 268}), mixed(brick, night, 0.25))
	c.fill(rectangle(336, 262, 528, 300), cream)
	rooms := []struct {
		x, y, w, h float64
		with       ink
	}{{354, 280, 238, 124, mixed(blush, mustard, 0.25)}, {608, 280, 238, 124, mixed(sky, teal, 0.3)},
		{354, 420, 238, 138, mustard}, {608, 420, 238, 138, mixed(blush, coral, 0.25)}}
	for _, room := range rooms {
		c.fill(rectangle(room.x, room.y, room.w, room.h), room.with)
	}
	for i := range 6 {
		radius := 64 + 86*float64(i)
		c.fill(line(14, arc(router.plus(0, -10), radius, 200, 340)...), faint(paper, 0.85-0.13*float64(i)))
	}
	c.fill(rounded(654, 312, 60, 62, 6), paper) // window
	c.fill(rounded(740, 312, 60, 62, 6), paper)
	c.fill(rounded(764, 460, 54, 98, 6), brick) // door
	c.fill(circle(point{776, 512}, 5), mustard)
	c.fill(rounded(392, 520, 164, 12, 4), brick) // table
	c.fill(rectangle(404, 530, 10, 28), brick)
	c.fill(rectangle(534, 530, 10, 28), brick)
	c.fill(rounded(router.x-52, router.y+26, 104, 32, 8), night)
	c.fill(line(8, router.plus(-34, 30), router.plus(-44, -22)), night)
	c.fill(line(8, router.plus(34, 30), router.plus(44, -22)), night)
	for i := range 3 {
		c.fill(circle(router.plus(-24+22*float64(i), 42), 5), []ink{mint, mustard, mint}[i])
	}
	for _, tree := range []point{{140, 556}, {1050, 556}} {
		size := 60 + float64(r.IntN(30))
		c.fill(rectangle(tree.x-8, tree.y-70, 16, 72), mixed(plum, night, 0.55))
		c.fill(circle(tree.plus(0, -70-size), size), mixed(plum, night, 0.2))
	}
}

// cups draws the same cup eight times, each time better.
func cups(c canvas, r *rand.Rand) {
	ground := mixed(mint, cream, 0.55)
	c.background(mixed(ground, paper, 0.4), ground)
	for i := range 8 {
		x, y := 120+250*float64(i%4), 80+262*float64(i/4)
		c.fill(rounded(x, y, 210, 214, 4), faint(pine, 0.14))
		c.fill(rounded(x-8, y-8, 210, 214, 4), paper)
		shake := 22 * (1 - float64(i)/7)
		wobble := func(along []point) []point {
			all := make([]point, len(along))
			for j, p := range along {
				all[j] = p.plus((r.Float64()-0.5)*shake, (r.Float64()-0.5)*shake)
			}
			return all
		}
		center := point{x + 84, y + 92}
		side := []point{center.plus(-58, -46), center.plus(-54, 0), center.plus(-40, 44), center.plus(-22, 56),
			center.plus(22, 56), center.plus(40, 44), center.plus(54, 0), center.plus(58, -46)}
		body := wobble(append(append([]point{}, side...), side[0]))
		body[len(body)-1] = body[0]
		handle := wobble(arc(center.plus(54, -4), 32, -80, 80))
		saucer := wobble([]point{center.plus(-72, 70), center.plus(-24, 74), center.plus(24, 74), center.plus(72, 70)})
		pencil := mixed(navy, paper, 0.45-0.06*float64(i))
		if i == 7 {
			c.fill(polygon(side...), coral)
			c.fill(polygon(center.plus(-58, -46), center.plus(-54, 0), center.plus(-40, 44), center.plus(-22, 56),
				center.plus(-14, -46)), mixed(coral, cream, 0.3))
		}
		c.fill(line(7, body...), pencil)
		c.fill(line(7, handle...), pencil)
		c.fill(line(7, saucer...), pencil)
		if i > 3 {
			for j := range 2 {
				from := center.plus(-18+36*float64(j), -62)
				steam := curve(from, from.plus(14, -10), from.plus(-14, -18), from.plus(2, -28))
				c.fill(line(5, steam...), mixed(teal, paper, 0.35))
			}
		}
	}
}

// cables draws cables that cross, with labels at both ends.
func cables(c canvas, r *rand.Rand) {
	c.background(mustard, amber)
	inks := []ink{night, coral, paper, teal, plum}
	order := r.Perm(len(inks))
	for order[0] == 0 || order[4] == 4 || order[2] == 2 {
		order = r.Perm(len(inks))
	}
	height := func(i int) float64 { return 85 + 115*float64(i) }
	for i, with := range inks {
		from, to := point{-20, height(i)}, point{1220, height(order[i])}
		crossing := curve(point{300, from.y}, point{610, from.y}, point{590, to.y}, point{900, to.y})
		way := append(append([]point{from}, crossing...), to)
		shadow := line(30, way...).moved(5, 9)
		c.fill(shadow, faint(brick, 0.22))
		c.fill(line(30, way...), with)
		c.fill(line(6, (line(1, way...).moved(0, -7))[0]...), with)
	}
	for i, with := range inks {
		for _, end := range []struct{ x, y float64 }{{150, height(i)}, {930, height(order[i])}} {
			c.fill(rounded(end.x+6, end.y-28, 126, 74, 8), faint(brick, 0.3))
			c.fill(rounded(end.x, end.y-36, 126, 74, 8), cream)
			c.fill(rounded(end.x, end.y-36, 26, 74, 8), with)
			c.fill(rectangle(end.x+14, end.y-36, 14, 74), cream)
			c.fill(line(10, point{end.x + 46, end.y - 11}, point{end.x + 104, end.y - 11}), navy)
			c.fill(line(10, point{end.x + 46, end.y + 13}, point{end.x + 46 + float64(24+5*i), end.y + 13}),
				mixed(sand, navy, 0.25))
		}
	}
}
