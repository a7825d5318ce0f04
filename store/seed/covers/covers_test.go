package covers

import (
	"bytes"
	"fmt"
	"image/png"
	"testing"
)

// The pictures are small files that differ from each other, and those of equal seeds are equal.
func TestDraw(t *testing.T) {
	seen := map[string]string{}
	for n := range Count {
		for _, seed := range []uint64{1815, 1815, 1906} {
			raw, err := Draw(n, seed)
			if err != nil {
				t.Fatal(err)
			}
			of := fmt.Sprint("picture ", n, ", seed ", seed)
			if other, ok := seen[string(raw)]; ok && other != of {
				t.Errorf("%s is %s", of, other)
			}
			seen[string(raw)] = of
			if len(raw) > 60_000 {
				t.Errorf("%s: %d bytes", of, len(raw))
			}
			c, err := png.DecodeConfig(bytes.NewReader(raw))
			if err != nil || c.Width != Width || c.Height != Height {
				t.Errorf("%s: %dx%d, %v", of, c.Width, c.Height, err)
			}
		}
	}
	if len(seen) != 2*Count {
		t.Errorf("%d pictures of %d drawings and two seeds", len(seen), Count)
	}
}
