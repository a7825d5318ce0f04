package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMutantsOf(t *testing.T) {
	for source, want := range map[string][]string{
		`func f(a, b bool) bool { return a && !b }`: {"&& -> ||", "!b -> b"},
		`func f(n int) { if n < 7 { g(n) } }`: {
			"n < 7 -> !(n < 7)", "< -> <=", "7 -> 8", "removed g(n)",
		},
		`func f(n int) { if n == 7 { n++ } }`: {
			"== -> !=", "7 -> 8", "removed n++",
		},
		`func f() (int, error) { return 0, err }`: {"err -> nil", "0 -> 1"},
		`func f() error { return nil }`:           nil,
		`func f() error { return func() string { return s }() }`: {
			"func() string { return s }() -> nil",
		},
		`func f(n int) { for n > 0 { n -= 1; continue } }`: {
			"n > 0 -> !(n > 0)", "> -> >=", "0 -> 1", "removed n -= 1", "1 -> 2", "continue -> break",
		},
		`func f(n int) { switch { case n >= 1, ok(n): defer g() } }`: {
			"removed defer g()", "n >= 1 -> !(n >= 1)", "ok(n) -> !(ok(n))", ">= -> >", "1 -> 2",
		},
		`func f(c chan bool) { x := [4]byte{}; go g(x); c <- true }`: {
			"removed go g(x)", "removed c <- true", "true -> false",
		},
		`func f(n int) { select { default: n = n + 1 } }`: {
			"removed n = n + 1", "+ -> -", "1 -> 2",
		},
	} {
		file := filepath.Join(t.TempDir(), "f.go")
		text := []byte("package p\n" + source)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		mutants, err := mutantsOf(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range mutants {
			got = append(got, m.change)
			if slices.Equal(m.apply(text), text) {
				t.Errorf("%s: %s changes nothing", source, m.change)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
}

func TestFailure(t *testing.T) {
	for output, want := range map[string]struct {
		test string
		hung bool
	}{
		"ok\nPASS\n": {"", false},
		"x\n--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0s)\n--- FAIL: TestC (0s)\n": {"TestA", false},
		"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA/b (1m0s)\n":      {"TestA/b", true},
		"panic: test timed out after 1m0s\n\ngoroutine 1":                               {"", true},
	} {
		if test, hung := failure([]byte(output)); test != want.test || hung != want.hung {
			t.Errorf("%q: %q, hung %t, want %q, %t", output, test, hung, want.test, want.hung)
		}
	}
}
