package session

import (
	"fmt"
	"testing"
)

// A cached item is new enough for a session if the partition's range had reached the session's token.
func TestState_Admits(t *testing.T) {
	const partition = "ada"
	var state State
	key := effectiveKey(partition)
	ranges := func(mine keyRange) keyRanges {
		mine.min, mine.max = key[:4], key[:4]+"FF"
		return keyRanges{}.with(keyRange{id: 1, min: "", max: key[:4]}, mine,
			keyRange{id: 9, min: key[:4] + "FF", max: "FF"})
	}
	whole, split := ranges(keyRange{id: 5}), ranges(keyRange{id: 7, parents: []uint64{0, 5}})
	for name, tt := range map[string]struct {
		keys    keyRanges
		session string
		read    string
		want    bool
	}{
		"at the token":                        {whole, "5:-1#7", "5:-1#7", true},
		"behind":                              {whole, "5:-1#7", "5:-1#6", false},
		"behind another range":                {whole, "1:-1#99,5:-1#7,9:-1#99", "5:-1#7", true},
		"behind a range that may be a child":  {whole, "12:-1#99", "5:-1#7", false},
		"at a range that may be a child":      {whole, "12:-1#7", "5:-1#7", true},
		"unknown progress":                    {whole, "5:-1#7", "", false},
		"unknown progress, other range":       {whole, "9:-1#99", "", true},
		"child, session from before":          {split, "5:-1#7", "7:-1#8", true},
		"parent, session from after":          {split, "7:-1#8", "5:-1#7", false},
		"parent, both from before":            {split, "5:-1#7", "5:-1#7", true},
		"parent, behind":                      {split, "5:-1#7", "5:-1#6", false},
		"grandparent, at the token":           {split, "5:-1#7", "0:-1#7", true},
		"new child, session from before":      {whole, "5:-1#7", "12:-1#8", true},
		"ranges unknown":                      {keyRanges{}, "2:-1#7", "3:-1#1", true},
		"ranges unknown, behind a higher one": {keyRanges{}, "2:-1#7", "1:-1#6", false},
		"ranges unknown, at a higher one":     {keyRanges{}, "2:-1#7", "0:-1#7", true},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := resume("")
			s.known.learn(posts, 1, tt.session, sessionRanges)
			state.update(posts, func(t *tokens) { t.keys = tt.keys })
			if got := state.Admits(s, posts, partition, PositionOf(tt.read)); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
	if s, _ := resume(""); !state.Admits(nil, posts, partition, Position{}) ||
		!state.Admits(s, posts, partition, Position{}) {
		t.Error("a nil or an empty session does not admit a read")
	}
}

// The position of a read with responses of several ranges is that of its partition's range, if it is known.
func TestState_Oldest(t *testing.T) {
	var state State
	var all []Position
	respond := func(token string) { all = append(all, PositionOf(token)) }
	progress := func() string {
		at := state.Oldest(posts, "ada", all)
		return fmt.Sprintf("%t %s", at.known, at.appendTo(nil))
	}
	respond("1:-1#7")
	if got, want := progress(), "true 1:-1#7"; got != want {
		t.Errorf("one response: got %s, want %s", got, want)
	}
	respond("2:-1#7")
	respond("2:-1#8")
	if got, want := progress(), "false 0:0#0"; got != want {
		t.Errorf("unknown ranges: got %s, want %s", got, want)
	}
	state.update(posts, func(t *tokens) { t.keys = t.keys.with(keyRange{id: 2, max: "FF"}) })
	if got, want := progress(), "true 2:-1#7"; got != want {
		t.Errorf("known ranges: got %s, want %s", got, want)
	}
}
