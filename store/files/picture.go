package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"

	"golang.org/x/image/webp"

	"byline/store/blog"
)

// maxPixels is the most pixels of a picture: beyond it, a small file may take gigabytes of a reader's memory.
const maxPixels = 50_000_000

// The bytes that are read of a picture: at first, and at most, if its dimensions follow long metadata.
const (
	head     = 64 << 10
	longHead = 1 << 20
)

// readPicture reads the head of a picture with an id. size and read are those of an inspection. The error is Invalid if
// the bytes are not what the id says, or not a picture that can be published.
func readPicture(id blog.FileID, size int64, read func(n int64) ([]byte, error)) (Picture, error) {
	if size != id.Size() {
		return Picture{}, blog.Invalidf("", "", blog.ReasonMismatch, "has %d bytes, and the upload was for %d", size,
			id.Size())
	}
	b, err := read(head)
	if err != nil {
		return Picture{}, err
	}
	if typeOf(b) != id.Type() {
		return Picture{}, blog.Invalidf("", "", blog.ReasonMismatch, "is not of the type %s", id.Type())
	}
	width, height, invalid := dimensions(id.Type(), b)
	if errors.Is(invalid, io.ErrUnexpectedEOF) && size > head {
		if b, err = read(longHead); err != nil {
			return Picture{}, err
		}
		width, height, invalid = dimensions(id.Type(), b)
	}
	switch {
	case invalid != nil:
		return Picture{}, &blog.Error{Code: blog.Invalid, Reason: blog.ReasonFormat, Message: "is not a valid picture",
			Err: invalid}
	case width < 1 || height < 1 || width > maxPixels/height:
		return Picture{}, blog.Invalidf("", "", blog.ReasonRange, "has %d x %d pixels, and can have %d", width, height,
			maxPixels)
	}
	return Picture{int32(width), int32(height)}, nil
}

// typeOf returns the content type that bytes begin like.
func typeOf(b []byte) string {
	if isAVIF(b) {
		return "image/avif"
	}
	return http.DetectContentType(b)
}

// dimensions returns the width and height in pixels of a picture that begins with b, as it is shown. The error is
// io.ErrUnexpectedEOF if more of the picture is needed.
func dimensions(contentType string, b []byte) (width, height int, err error) {
	var c image.Config
	switch r := bytes.NewReader(b); contentType {
	case "image/png":
		c, err = png.DecodeConfig(r)
	case "image/gif":
		if c, err = gif.DecodeConfig(r); err == nil {
			err = checkFrame(b, c.Width, c.Height)
		}
	case "image/webp":
		c, err = webp.DecodeConfig(r)
	case "image/avif":
		return avifDimensions(b)
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(r)
		if orientation(b) >= 5 {
			return c.Height, c.Width, err
		}
	}
	return c.Width, c.Height, err
}

// checkFrame returns an error if the first frame of a GIF (GIF89a, section 20) is larger than its screen, to whose size
// decoders keep and browsers do not. It is io.ErrUnexpectedEOF if more of the picture is needed.
func checkFrame(b []byte, width, height int) error {
	const (
		extension, separator = 0x21, 0x2C
		screen, frame        = 13, 10 // bytes of the header with the screen, and of a frame's descriptor
	)
	table := func(flags byte) int { // bytes of a color table
		if flags&0x80 == 0 {
			return 0
		}
		return 3 << (1 + flags&7)
	}
	for at := screen + table(b[10]); at < len(b); {
		switch b[at] {
		case extension:
			for at += 2; at < len(b) && b[at] != 0; {
				at += 1 + int(b[at])
			}
			at++
		case separator:
			if at+frame > len(b) {
				return io.ErrUnexpectedEOF
			}
			d := b[at+1:]
			right := int(binary.LittleEndian.Uint16(d)) + int(binary.LittleEndian.Uint16(d[4:]))
			bottom := int(binary.LittleEndian.Uint16(d[2:])) + int(binary.LittleEndian.Uint16(d[6:]))
			if right > width || bottom > height {
				return errors.New("a frame is larger than the screen")
			}
			return nil
		default:
			return errors.New("no frame")
		}
	}
	return io.ErrUnexpectedEOF
}

// orientation returns the orientation of a JPEG by its Exif data (CIPA DC-008, section 4.6.5.1.6): 1 to 8, of which
// those from 5 are turned by a quarter; 0 without one. It is what cameras write instead of turning the picture.
func orientation(b []byte) uint16 {
	const (
		startOfScan = 0xDA
		app1        = 0xE1
		tag         = 0x0112
	)
	for b = b[2:]; len(b) >= 4 && b[0] == 0xFF && b[1] != startOfScan; {
		if b[1] == 0xFF { // a fill byte
			b = b[1:]
			continue
		}
		kind, size := b[1], 2+int(binary.BigEndian.Uint16(b[2:]))
		if size < 4 || size > len(b) {
			break
		}
		tiff, ok := bytes.CutPrefix(b[4:size], []byte("Exif\x00\x00"))
		b = b[size:]
		if kind != app1 || !ok || len(tiff) < 8 {
			continue
		}
		var order binary.ByteOrder = binary.BigEndian
		if tiff[0] == 'I' {
			order = binary.LittleEndian
		}
		directory := uint64(order.Uint32(tiff[4:]))
		if directory+2 > uint64(len(tiff)) {
			return 0
		}
		entries := tiff[directory+2:]
		for range order.Uint16(tiff[directory:]) {
			if len(entries) < 12 {
				return 0
			}
			if order.Uint16(entries) == tag {
				return order.Uint16(entries[8:])
			}
			entries = entries[12:]
		}
		return 0
	}
	return 0
}
