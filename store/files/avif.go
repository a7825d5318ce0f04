package files

import (
	"encoding/binary"
	"errors"
	"io"
)

// AVIF pictures are boxes within boxes (ISO/IEC 14496-12): ftyp names the format, and meta/iprp/ipco has the
// properties (ISO/IEC 23008-12) of the picture, of its tiles and of its thumbnails. The largest of these is the
// picture.

// errAVIF is the error of boxes that are not a picture.
var errAVIF = errors.New("invalid AVIF")

// isAVIF reports whether bytes begin with a box ftyp of an AVIF picture.
func isAVIF(b []byte) bool {
	kind, brands, _, err := nextBox(b)
	for ; err == nil && kind == "ftyp" && len(brands) >= 4; brands = brands[4:] {
		if string(brands[:4]) == "avif" {
			return true
		}
	}
	return false
}

// avifDimensions returns the width and height of an AVIF picture that begins with b, as it is shown.
func avifDimensions(b []byte) (width, height int, err error) {
	meta, err := findBox(b, "meta")
	if err != nil {
		return 0, 0, err
	}
	if len(meta) < 4 {
		return 0, 0, errAVIF
	}
	properties, err := findBox(meta[4:], "iprp")
	if err == nil {
		properties, err = findBox(properties, "ipco")
	}
	turned := false
	for len(properties) > 0 && err == nil {
		var kind string
		var content []byte
		kind, content, properties, err = nextBox(properties)
		switch {
		case kind == "ispe" && len(content) >= 12:
			w, h := int(binary.BigEndian.Uint32(content[4:])), int(binary.BigEndian.Uint32(content[8:]))
			if uint64(w)*uint64(h) > uint64(width)*uint64(height) {
				width, height = w, h
			}
		case kind == "irot" && len(content) >= 1:
			turned = content[0]&1 != 0
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // of a box in another one
		err = errAVIF
	}
	if turned {
		width, height = height, width
	}
	return width, height, err
}

// findBox returns the content of the first box of a kind.
func findBox(b []byte, kind string) ([]byte, error) {
	for {
		k, content, rest, err := nextBox(b)
		if err != nil || k == kind {
			return content, err
		}
		b = rest
	}
}

// nextBox returns the first box of b and what follows it. The error is io.ErrUnexpectedEOF if b has not all of it.
func nextBox(b []byte) (kind string, content, rest []byte, err error) {
	if len(b) < 8 {
		return "", nil, nil, io.ErrUnexpectedEOF
	}
	size, header := uint64(binary.BigEndian.Uint32(b)), uint64(8)
	kind = string(b[4:8])
	switch size {
	case 0: // to the end
		return kind, b[header:], nil, nil
	case 1:
		if header = 16; len(b) < 16 {
			return "", nil, nil, io.ErrUnexpectedEOF
		}
		size = binary.BigEndian.Uint64(b[8:])
	}
	switch {
	case size < header:
		return "", nil, nil, errAVIF
	case size > uint64(len(b)):
		return "", nil, nil, io.ErrUnexpectedEOF
	}
	return kind, b[header:size], b[size:], nil
}
