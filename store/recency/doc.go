// Package recency has what a process keeps in memory for home feeds: an Index of the newest posts of the blog, which a
// scan filters by the authors whom a viewer follows, and Follows, the changes of follows that the views may lack and
// the viewers who wait for posts. It does no I/O: its store passes it what it reads and what the change feeds report.
// All types are safe for concurrent use.
package recency
