// Package fulltext analyses texts for full-text search: it splits a text into words (Unicode UAX #29), lowers their
// case and, in English, drops stop words and stems the others (Snowball's Porter2).
//
// What the hosted service does is documented no further than that. The list of stop words is Lucene's, and a word has
// at most MaxTerm bytes. A stop word keeps its position, so that "state of the art" does not match "state art", and
// does not count as a word of the text. Other languages than English have neither stop words nor stemming.
//
// An Analyzer is immutable and safe for concurrent use. The package does no I/O and starts no goroutines.
package fulltext
