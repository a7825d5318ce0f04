package cosmos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestTokensLearn(t *testing.T) {
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
		"a region less":                      {"0:1#5#4=8#5=7 0:1#6#4=9", "0:1#6#4=9#5=7"},
		"the account's regions have changed": {"0:1#5#4=8#5=7 0:2#4#4=9#6=1", "0:2#5#4=9#6=1"},
		"an answer from before that":         {"0:2#4#4=9#6=1 0:1#5#4=8#5=7", "0:2#5#4=9#6=1"},
		"a region without an LSN":            {"0:0#257#35=-1#7=-1 0:0#258#35=4#7=-1", "0:0#258#7=-1#35=4"},
		"an LSN below -1":                    {"0:0#257#35=-2 0:-2#-2 0:-1#5", "0:-1#5"},
		"nonsense is left out":               {"nonsense 0:x 0:1 x:1#1 0:1#x 0:1#1#2 0:-1#5", "0:-1#5"},
	} {
		t.Run(name, func(t *testing.T) {
			var have tokens
			for header := range strings.SplitSeq(tt.headers, " ") {
				have.learn(1, header, 8)
			}
			if got := have.header(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// Ranges are forgotten in the order in which they last moved.
func TestTokensAreBounded(t *testing.T) {
	var have tokens
	for id := range 10 {
		have.learn(1, fmt.Sprintf("%d:-1#1", id), 4)
		have.learn(1, fmt.Sprintf("0:-1#%d", id+1), 4)
	}
	if got, want := have.header(), "0:-1#10,7:-1#1,8:-1#1,9:-1#1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What asks for both asks for the newer of each, and neither is changed by it.
func TestTokensWith(t *testing.T) {
	var a, b, other tokens
	a.learn(1, "0:-1#5,1:1#3#4=8", 8)
	b.learn(0, "0:-1#4,1:1#4#4=7,2:-1#1", 8)
	other.learn(2, "0:-1#99", 8)
	if got, want := a.with(&b).header(), "0:-1#5,1:1#4#4=8,2:-1#1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := a.header() + " " + b.header(); got != "0:-1#5,1:1#3#4=8 0:-1#4,1:1#4#4=7,2:-1#1" {
		t.Errorf("changed: %s", got)
	}
	if got := a.with(&other).header(); got != a.header() {
		t.Errorf("with those of another container: %s", got)
	}
}

// An answer tells how far a range has come if it rests on what is there.
func TestSessionsLearn(t *testing.T) {
	for status, learns := range map[int]bool{200: true, 201: true, 204: true, 207: true, 304: true, 404: true, 409: true, 412: true,
		400: false, 401: false, 408: false, 410: false, 429: false, 449: false, 500: false, 503: false} {
		var s sessions
		s.learn(&http.Response{StatusCode: status, Header: http.Header{sessionHeader: {"0:-1#7"}}}, "c", nil)
		if got := s.known.of("c") != nil; got != learns {
			t.Errorf("of %d: %t", status, got)
		}
	}
}

// A range that may have come out of a split of the one that was read asks by its LSN.
func TestSessionAdmitsAfterASplit(t *testing.T) {
	s, posts := &Session{}, pathOf("blog", "posts")
	s.known.learn(posts, 1, "2:-1#7", sessionRanges)
	for token, want := range map[string]bool{"0:-1#7": true, "0:-1#6": false, "1:-1#6": false, "3:-1#1": true} {
		if got := s.admits(posts, token); got != want {
			t.Errorf("%s: %t", token, got)
		}
	}
}

// Instances that write the host of an account in other letters take each other's tokens.
func TestSessionRealm(t *testing.T) {
	realm := sessionRealm("https://Blog.example:443/", "blog")
	for host, want := range map[string]bool{"https://blog.EXAMPLE:443": true, "https://other.example:443/": false} {
		if got := sessionRealm(host, "blog") == realm; got != want {
			t.Errorf("%s: %t", host, got)
		}
	}
	if sessionRealm("https://blog.example:443/", "other") == realm {
		t.Error("another database takes them, too")
	}
}
