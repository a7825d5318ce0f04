package session

import (
	"fmt"
	"strings"
	"testing"
)

func TestTokens_Learn(t *testing.T) {
	for name, tt := range map[string]struct {
		headers string // one after the other
		want    string
	}{
		"first":                              {"0:-1#5", "0:-1#5"},
		"newer":                              {"0:-1#5 0:-1#6", "0:-1#6"},
		"older":                              {"0:-1#6 0:-1#5", "0:-1#6"},
		"another range":                      {"2:-1#6 0:-1#5", "0:-1#5,2:-1#6"},
		"several at once":                    {"2:-1#6,0:-1#5 0:-1#4,2:-1#7", "0:-1#5,2:-1#7"},
		"regions":                            {"0:1#5#4=8#5=7 0:1#6#4=7#5=9", "0:1#6#4=8#5=9"},
		"regions in another order":           {"0:1#5#5=7#4=8", "0:1#5#4=8#5=7"},
		"one region fewer":                   {"0:1#5#4=8#5=7 0:1#6#4=9", "0:1#6#4=9#5=7"},
		"the account's regions have changed": {"0:1#5#4=8#5=7 0:2#4#4=9#6=1", "0:2#5#4=9#6=1"},
		"a response from before that":        {"0:2#4#4=9#6=1 0:1#5#4=8#5=7", "0:2#5#4=9#6=1"},
		"a region without an LSN":            {"0:0#257#35=-1#7=-1 0:0#258#35=4#7=-1", "0:0#258#7=-1#35=4"},
		"an LSN below -1":                    {"0:0#257#35=-2 0:-2#-2 0:-1#5", "0:-1#5"},
		"malformed parts are ignored":        {"nonsense 0:x 0:1 x:1#1 0:1#x 0:1#1#2 0:-1#5", "0:-1#5"},
	} {
		t.Run(name, func(t *testing.T) {
			var have tokens
			for header := range strings.SplitSeq(tt.headers, " ") {
				have.learn(1, header, 8)
			}
			if got := have.header(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Ranges are dropped in the order of their last changes.
func TestTokens_Limit(t *testing.T) {
	var have tokens
	for id := range 10 {
		have.learn(1, fmt.Sprintf("%d:-1#1", id), 4)
		have.learn(1, fmt.Sprintf("0:-1#%d", id+1), 4)
	}
	if got, want := have.header(), "0:-1#10,7:-1#1,8:-1#1,9:-1#1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The sum of tokens has the newer progress of each range.
func TestTokens_Add(t *testing.T) {
	var a, b, other tokens
	a.learn(1, "0:-1#5,1:1#3#4=8", 8)
	b.learn(0, "0:-1#4,1:1#4#4=7,2:-1#1", 8)
	other.learn(2, "0:-1#99", 8)
	both := a.forRange(nil, keyRanges{})
	both.add(&b)
	if got, want := both.header(), "0:-1#5,1:1#4#4=8,2:-1#1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := a.header() + " " + b.header(); got != "0:-1#5,1:1#3#4=8 0:-1#4,1:1#4#4=7,2:-1#1" {
		t.Errorf("changed: %s", got)
	}
	if a.add(&other); a.header() != "0:-1#5,1:1#3#4=8" {
		t.Errorf("after adding those of another container: got %s", a.header())
	}
}

// A request sends the token of its range, including those of the parents, and the tokens of unknown ranges.
func TestTokens_ForRange(t *testing.T) {
	var have tokens
	have.learn(1, "0:-1#5,1:-1#7,2:-1#8,3:-1#1,9:-1#1", 8)
	keys := keyRanges{}.with(keyRange{id: 1, max: "80", parents: []uint64{0}},
		keyRange{id: 2, min: "80", max: "C0", parents: []uint64{0}},
		keyRange{id: 4, min: "C0", max: "FF", parents: []uint64{0, 3}})
	for key, want := range map[string]string{"00": "1:-1#7,9:-1#1", "7F": "1:-1#7,9:-1#1", "80": "2:-1#8,9:-1#1",
		"C1": "4:-1#5,9:-1#1", "FF": "0:-1#5,1:-1#7,2:-1#8,3:-1#1,9:-1#1"} {
		if got := have.forRange(keys.forKey(key), keys).header(); got != want {
			t.Errorf("key %s: got %s, want %s", key, got, want)
		}
	}
}

// A header that would be too long has only the ranges that changed last.
func TestTokens_HeaderLimit(t *testing.T) {
	var have tokens
	for id := range 256 {
		have.learn(1,
			fmt.Sprintf("%d:1234567#1234567890#1=-1#2=1234567890#3=1234567890#4=1234567890#5=1234567890", id), 256)
	}
	have.learn(1, "7:1234567#1234567891", 256)
	got := have.header()
	if len(got) > maxTokens || len(got) < maxTokens-200 || !strings.Contains(got, "7:1234567#1234567891#") ||
		!strings.Contains(got, ",255:") || strings.Contains(got, ",8:") {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}
