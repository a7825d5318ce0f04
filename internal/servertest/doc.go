// Package servertest runs byline for tests: in the test's own process (Run, Start), or as a
// process of its own (StartProcess), which is the test binary. For that, TestMain of a package
// that uses StartProcess has to be the byline program if IsProgram. What a test starts is
// stopped when it ends.
package servertest
