package main

import (
	"strings"
	"testing"
)

func TestResults(t *testing.T) {
	skipped, passed, err := results(strings.NewReader(`=== RUN   TestA
--- SKIP: TestA (0.00s)
    --- SKIP: TestC/sub (0.00s)
--- PASS: TestB (0.10s)
ok  	byline/one	1.2s
--- SKIP: TestB (0.00s)
ok  	byline/two	1.2s
`))
	if err != nil || len(skipped) != 2 || !skipped["byline/one.TestA"] || !skipped["byline/two.TestB"] ||
		len(passed) != 1 || !passed["byline/one.TestB"] {
		t.Error(skipped, passed, err)
	}
}

func TestExpected(t *testing.T) {
	all := expected(list)
	if len(all) < 5 || all["byline/internal/e2e.TestProxies"] != ".ci/proxies" {
		t.Error(all)
	}
}
