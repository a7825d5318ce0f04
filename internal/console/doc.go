// Package console is what commands print to stderr: the log, their progress, and the error
// that ends the process. Results go to stdout and are not its business.
package console
