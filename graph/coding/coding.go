// Package coding compresses the bodies of responses for clients that accept it. It is safe for concurrent use.
package coding

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Bodies are compressed if the client accepts it. Event streams and WebSockets are not: most events are shorter than
// minBytes, and a compressor for each of thousands of connections would take more memory than everything else.
// Pages of other sites cannot have a viewer's responses compressed together with a text of theirs (BREACH): browsers
// send no bearer token on their behalf.

// minBytes is the length in bytes from which a body is compressed.
const minBytes = 1 << 10

// Coding is a content coding (RFC 9110, section 8.4.1).
type Coding struct {
	Name       string
	Index      int       // below Count
	compressor sync.Pool // of compressor
}

// compressor is what the writers of gzip and zstd have in common.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

// zstdWindow is how far back zstd looks, in bytes. It is most of a compressor's memory, and pages are shorter.
const zstdWindow = 128 << 10

// Count is the number of codings.
const Count = 2

// codings are the codings of responses, the preferred one first.
var codings = [Count]*Coding{
	{Name: "zstd", Index: 0, compressor: sync.Pool{New: func() any {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are valid
		}
		return w
	}}},
	{Name: "gzip", Index: 1, compressor: sync.Pool{New: func() any {
		w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			panic(err) // the level is valid
		}
		return w
	}}},
}

// accepted returns the coding with the highest quality in an Accept-Encoding header, nil if the client accepts
// none of them. Every client accepts a body that is not compressed.
func accepted(header []string) *Coding {
	var best *Coding
	var quality float64
	for item := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, parameter, weighted := strings.Cut(item, ";")
		q := 1.0
		if weighted {
			value, _ := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
			q, _ = strconv.ParseFloat(value, 64) // 0 if it is malformed
		}
		for _, c := range codings {
			if !strings.EqualFold(strings.TrimSpace(name), c.Name) {
				continue
			}
			if q > quality || q == quality && best != nil && c.Index < best.Index {
				best, quality = c, q
			}
		}
	}
	return best
}

// For returns the coding for a body of so many bytes to a client, nil for none.
func For(acceptEncoding []string, bytes int) *Coding {
	if bytes < minBytes {
		return nil
	}
	return accepted(acceptEncoding)
}

// Compress returns a body, which may be in pieces, in the coding.
func (c *Coding) Compress(pieces ...[]byte) []byte {
	w := c.compressor.Get().(compressor)
	defer c.compressor.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	for _, p := range pieces {
		if _, err := w.Write(p); err != nil {
			panic(err) // a bytes.Buffer takes everything
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	w.Reset(nil) // does not retain out
	return out.Bytes()
}
