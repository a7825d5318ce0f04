package changefeed

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestContinuation_Within(t *testing.T) {
	c, err := parseContinuation(`{"version":1,"resourceId":"r","continuation":[` +
		`{"minInclusive":"","maxExclusive":"10","continuationToken":"\"9\""},{"minInclusive":"10","maxExclusive":"20","continuationToken":"\"11\""},` +
		`{"minInclusive":"20","maxExclusive":"30","continuationToken":"\"7\""},{"minInclusive":"30","maxExclusive":"FF"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ min, max, want string }{
		"one of the ranges -> its position":                 {"10", "20", `,"continuationToken":"\"11\""`},
		"part of a range -> its position":                   {"12", "14", `,"continuationToken":"\"11\""`},
		"merged -> numerically lowest, first or not":        {"", "20", `,"continuationToken":"\"9\""`},
		"merged -> lowest, last":                            {"", "30", `,"continuationToken":"\"7\""`},
		"merged with one at the beginning -> the beginning": {"", "FF", ``},
		"trailing zeros of a bound -> same range":           {"1000", "2000", `,"continuationToken":"\"11\""`},
	} {
		t.Run(name, func(t *testing.T) {
			want := `{"version":1,"resourceId":"r","continuation":[{"minInclusive":"` + x.min + `","maxExclusive":"` +
				x.max + `"` + x.want + `}]}`
			if got := c.within(azcosmos.FeedRange{MinInclusive: x.min, MaxExclusive: x.max}).String(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestUncovered(t *testing.T) {
	r := func(min, max string) azcosmos.FeedRange {
		return azcosmos.FeedRange{MinInclusive: min, MaxExclusive: max}
	}
	for name, x := range map[string]struct {
		others []azcosmos.FeedRange
		want   int
	}{
		"no others -> whole":        {nil, 1},
		"covered by its parts":      {[]azcosmos.FeedRange{r("20", "FF"), r("", "20")}, 0},
		"gap in the middle and end": {[]azcosmos.FeedRange{r("", "10"), r("20", "30")}, 2},
		"covered, and a part again": {[]azcosmos.FeedRange{r("", "FF"), r("10", "20")}, 0},
		"overlapping others":        {[]azcosmos.FeedRange{r("", "30"), r("10", "20"), r("30", "FF")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if left := uncovered(r("", "FF"), x.others); len(left) != x.want {
				t.Errorf("got %v, want %d parts", left, x.want)
			}
		})
	}
}
