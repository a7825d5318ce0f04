// Package cli has the commands of the byline program, one file for each, and runs them: Run parses
// the arguments and the environment and returns the exit status. A command is a struct with its
// flags and a Run method, which blocks until the command is done or its context ends.
package cli
