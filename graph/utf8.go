package graph

import (
	"errors"
	"io"
	"unicode/utf8"
)

var errNotUTF8 = errors.New("not valid UTF-8")

// utf8Reader passes on what it reads as long as that is valid UTF-8. The JSON decoder
// would put replacement characters where it is not, and what somebody sent would not
// be what is stored.
type utf8Reader struct {
	r       io.Reader
	partial []byte // the beginning of a character, already passed on
}

// Read implements io.Reader.
func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	text := p[:n]
	for len(u.partial) > 0 && len(text) > 0 { // byte by byte until the character is whole
		u.partial, text = append(u.partial, text[0]), text[1:]
		if !utf8.FullRune(u.partial) {
			continue
		}
		if !utf8.Valid(u.partial) {
			return 0, errNotUTF8
		}
		u.partial = u.partial[:0]
	}
	// At most the last three bytes are the beginning of a character.
	for i := max(len(text)-utf8.UTFMax+1, 0); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			u.partial = append(u.partial[:0], text[i:]...)
			text = text[:i]
		}
	}
	if !utf8.Valid(text) || err == io.EOF && len(u.partial) > 0 {
		return 0, errNotUTF8
	}
	return n, err
}
