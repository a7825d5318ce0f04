package covers

import (
	"bytes"
	"image"
	"image/png"
	"math/rand/v2"
)

// The size of the pictures in pixels is that of link previews.
const (
	Width  = 1200
	Height = 630
)

// Count is how many pictures there are: one for each article.
var Count = len(drawings)

// Draw returns the n-th picture, from 0 to Count-1, as PNG. Its details depend on a seed.
func Draw(n int, seed uint64) ([]byte, error) {
	c := canvas{image.NewRGBA(image.Rect(0, 0, Width, Height))}
	drawings[n](c, rand.New(rand.NewPCG(seed, uint64(n))))
	var b bytes.Buffer
	err := png.Encode(&b, c.RGBA) // an opaque picture has no alpha channel
	return b.Bytes(), err
}
