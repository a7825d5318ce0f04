package charge

import (
	"math"
	"testing"
)

// TestReadWrite_DocumentedSizes checks the published table of sizes.
func TestReadWrite_DocumentedSizes(t *testing.T) {
	reads := []float64{1, 1.04, 1.14, 1.33, 1.67, 2.19, 4.76, 9.95, 20.28, 40.95, 145.9, 291.8}
	writes := []float64{4.95, 6.29, 6.67, 7.04, 9.52, 11.23, 22.67, 48.19, 98.29, 184.57, 625, 1250}
	for i := range reads {
		size := 1024 << i
		if r, w := Read(size), Write(size); math.Abs(r-reads[i]) > 0.005 || math.Abs(w-writes[i]) > 0.005 {
			t.Errorf("%d KB: read %v, write %v, documented %v, %v", size/1024, r, w, reads[i], writes[i])
		}
	}
	last := 0.0
	for size := 1; size < 3<<20; size += 1000 {
		if w := Write(size); w < last {
			t.Fatalf("%d bytes cost %v RU, fewer bytes cost %v", size, w, last)
		} else {
			last = w
		}
	}
}
