// Package jobs does long work in slices, beside what must not wait for it. A job is an item of the
// leases container: the process that enqueues it may crash, and so may each that works on it. The
// position of the work is saved after each slice, and the next owner continues from it. What the
// work is, is left to the caller.
//
// Everything is safe for concurrent use. New does no I/O and starts nothing; Run works until its
// context ends.
package jobs
