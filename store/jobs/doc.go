// Package jobs runs long work in slices of a few units each, in the background. A job is an item of the
// leases container, so it survives crashes of the process that enqueues it and of each that works on it. Its
// position is saved after each slice, and the next owner continues from it. The caller provides the work.
//
// Everything is safe for concurrent use. New does no I/O and starts nothing; Run works on jobs until its
// context ends.
package jobs
