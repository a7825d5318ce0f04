// Skipped compares the tests that were skipped with tests.txt. It reads what go test -v has printed, of all layers: a
// test that was skipped in one and passed in another is only listed.
//
//	go run ./.ci/skipped <printed
package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

//go:embed tests.txt
var list string

func main() {
	skipped, passed, err := results(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, test := range slices.Sorted(maps.Keys(skipped)) {
		if passed[test] {
			fmt.Printf("%s: not with the race detector\n", test)
		}
	}
	maps.DeleteFunc(skipped, func(test string, _ bool) bool { return passed[test] })
	wrong := false
	for test, script := range expected(list) {
		fmt.Printf("%s: %s\n", test, script)
		if !skipped[test] {
			fmt.Printf("%s was not skipped\n", test)
			wrong = true
		}
		delete(skipped, test)
	}
	for test := range skipped {
		fmt.Printf("%s was skipped, and is not in .ci/skipped/tests.txt\n", test)
		wrong = true
	}
	if wrong {
		os.Exit(1)
	}
}

// expected returns the script of each test of a list.
func expected(list string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) == 2 {
			all[fields[0]] = fields[1]
		}
	}
	return all
}

// results returns the tests that were skipped and those that passed, as package.Test. The name of the package follows
// its tests.
func results(printed io.Reader) (skipped, passed map[string]bool, err error) {
	skipped, passed = map[string]bool{}, map[string]bool{}
	of := map[string]map[string]bool{"SKIP:": skipped, "PASS:": passed}
	type result struct{ kind, test string }
	var tests []result // of the package that is being read
	lines := bufio.NewScanner(printed)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		switch fields := strings.Fields(lines.Text()); {
		case len(fields) >= 3 && fields[0] == "---" && of[fields[1]] != nil && strings.HasPrefix(lines.Text(), "---"):
			tests = append(tests, result{fields[1], fields[2]})
		case len(fields) >= 2 && fields[0] == "ok":
			for _, r := range tests {
				of[r.kind][fields[1]+"."+r.test] = true
			}
			tests = nil
		}
	}
	return skipped, passed, lines.Err()
}
