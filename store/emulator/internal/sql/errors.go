package sql

import "fmt"

// Error is an error in a query, at [Pos, End) of its text in UTF-16 code units, as clients count.
// An error of a parameter is where the text names it.
type Error struct {
	Pos, End int
	Message  string // for the client; names the construct
}

// Error returns the message and the position.
func (e *Error) Error() string { return fmt.Sprintf("%s (at %d)", e.Message, e.Pos) }

// inUnits converts the position from bytes of text to code units.
func (e *Error) inUnits(text string) *Error {
	return &Error{Pos: length([]byte(text[:e.Pos])), End: length([]byte(text[:e.End])), Message: e.Message}
}

// inUnits converts the positions for errors of Bind and evaluation to code units.
func (q *Query) inUnits(text string) {
	if q.end = length([]byte(text)); q.end == len(text) {
		return
	}
	at, n := 0, 0
	for i := range q.params { // in the order of the text
		p := &q.params[i]
		n += length([]byte(text[at:p.pos]))
		at = p.pos
		p.pos, p.end = n, n+p.end-p.pos // names are ASCII
	}
}
