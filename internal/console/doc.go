// Package console runs programs with commands: it parses flags, prints help, and writes to
// stderr the log, the progress of commands, and the error that ends the process. Commands write their
// results to stdout themselves.
package console
