// Package servertest runs byline for tests: in the test's own process (Run, Start), or as a
// process of its own (StartProcess), which is the test binary. TestMain of a package that
// uses StartProcess must run the byline program if IsProgram returns true. Servers stop when the test
// that started them ends.
package servertest
