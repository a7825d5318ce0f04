package sql

import "fmt"

// Error says what is wrong with a query, and where: at the bytes Pos to End of
// its text. Parameters that do not fit are placed where the text names them.
type Error struct {
	Pos, End int
	Message  string // for the client; names the construct
}

// Error returns the message and the place.
func (e *Error) Error() string { return fmt.Sprintf("%s (at %d)", e.Message, e.Pos) }
