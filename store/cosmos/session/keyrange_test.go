package session

import (
	"fmt"
	"strings"
	"testing"
)

// The vectors are those of azcosmos, in internal/epk/testdata, without the two highest bits.
func TestEffectiveKey(t *testing.T) {
	for partition, want := range map[string]string{
		"":                        "32E9366E637A71B4E710384B2F4970A0",
		"asdf":                    "208BF1D598F5B63AD5520F04FE58C5E8",
		strings.Repeat("a", 99):   "3C02F609961C32AAC2B912B940D1209A",
		strings.Repeat("a", 100):  "0DBD7D229437BB665DE6417747994D57",
		strings.Repeat("a", 101):  "08042541D30C8BF90D7092B1519AE0BC",
		strings.Repeat("a", 2048): "33E0AE996F53F2CD5DD5574ACAB3BF19",
	} {
		if got := effectiveKey(partition); got != want {
			t.Errorf("%q: got %s, want %s", partition, got, want)
		}
	}
}

// A split replaces the parent, and a merge the children.
func TestKeyRanges(t *testing.T) {
	ids := func(k keyRanges) (all []uint64) {
		for _, key := range []string{"", "3F", "40", "7F", "80", "FE"} {
			if r := k.forKey(key); r != nil {
				all = append(all, r.id)
			}
		}
		return all
	}
	rid, ranges,
		err := parseKeyRanges(
		[]byte(`{"_rid":"abc=","PartitionKeyRanges":[{"id":"1","minInclusive":"80","maxExclusive":"FF"},{"id":"0","minInclusive":"","maxExclusive":"80","parents":[]}],"_count":2}`))
	if rid != "abc=" || err != nil {
		t.Fatal(rid, err)
	}
	k := keyRanges{}.with(ranges...)
	if got := fmt.Sprint(ids(k)); got != "[0 0 0 0 1 1]" {
		t.Error(got)
	}
	split := k.with(keyRange{id: 2, max: "40", parents: []uint64{0}},
		keyRange{id: 3, min: "40", max: "80", parents: []uint64{0}})
	if got := fmt.Sprint(ids(split), split.known[0], k.known[2]); got != "[2 2 3 3 1 1] true false" {
		t.Error(got)
	}
	// the parent once more, offline
	if got := fmt.Sprint(ids(split.with(keyRange{id: 0, max: "80"}))); got != "[2 2 3 3 1 1]" {
		t.Error(got)
	}
	if got := fmt.Sprint(ids(split.with(keyRange{id: 4, max: "FF"}))); got != "[4 4 4 4 4 4]" {
		t.Error(got)
	}
	if k.forKey("FF") != nil || (keyRanges{}).forKey("00") != nil || k.find(5) != nil || k.find(1).min != "80" {
		t.Error("found a range that does not exist")
	}
	for _, bad := range []string{`x`, `{"PartitionKeyRanges":[{"id":"x"}]}`,
		`{"PartitionKeyRanges":[{"id":"1","parents":["x"]}]}`} {
		if _, _, err := parseKeyRanges([]byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// The known ranges are dropped if another range than the key's served a request.
func TestKeyRanges_OutdatedDropped(t *testing.T) {
	at := TargetOf("c", `["ada"]`, "")
	for token, want := range map[string]int{"5:-1#7": 1, "6:-1#7": 0} {
		var s State
		s.update("c", func(t *tokens) { t.keys = t.keys.with(keyRange{id: 5, max: "FF"}) })
		s.Learn(at, nil, token, "")
		if got := len(s.keys("c").sorted); got != want {
			t.Errorf("%s: got %d known ranges, want %d", token, got, want)
		}
	}
}
