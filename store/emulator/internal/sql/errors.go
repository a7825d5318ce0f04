package sql

import "fmt"

// Error says what is wrong with a query, and where: at Pos to End of its text, in UTF-16 code
// units, as clients count. Parameters that do not fit are placed where the text names them.
type Error struct {
	Pos, End int
	Message  string // for the client; names the construct
}

// Error returns the message and the place.
func (e *Error) Error() string { return fmt.Sprintf("%s (at %d)", e.Message, e.Pos) }

// inUnits returns the error with its place, which is in bytes of text, in code units.
func (e *Error) inUnits(text string) *Error {
	return &Error{Pos: length([]byte(text[:e.Pos])), End: length([]byte(text[:e.End])), Message: e.Message}
}

// inUnits turns the places that errors of Bind and of a run have into code units.
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
