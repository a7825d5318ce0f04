package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// checkLog looks at the end of the newest write-ahead log before Pebble replays it. Pebble drops an incomplete or
// damaged record there, with everything after it in its block, and says nothing: after a loss of power that is a write
// that was not acknowledged. But it can also be damage to acknowledged writes. If a later record proves that, checkLog
// returns an error, as Pebble does for a proof in a later block. If nothing explains the record, it logs a warning.
// Damage elsewhere is left to Pebble, which refuses it.
func checkLog(files vfs.FS, dir string, log *slog.Logger) error {
	logs, err := wal.Scan(wal.Dir{FS: files, Dirname: dir})
	if err != nil || len(logs) == 0 {
		return err
	}
	newest := logs[len(logs)-1]
	at, err := endOfLog(newest)
	if !errors.Is(err, record.ErrUnexpectedEOF) {
		return nil
	}
	content, err := readFile(files, at.PhysicalFile)
	if err != nil {
		return err
	}
	t := newTail(content, int(at.Physical), uint32(newest.Num))
	switch {
	case t.acknowledged:
		return fmt.Errorf(
			"the write-ahead log %s is damaged at byte %d, where acknowledged writes were: restore a copy of "+
				"the data directory, or drop them and all later writes: truncate -s %d %[1]s",
			at.PhysicalFile, t.damage, at.Physical)
	case !t.reused || t.own:
		log.Warn("write-ahead log ends in an incomplete or damaged record, which is dropped with all that follows: "+
			"after a loss of power, writes that were not acknowledged; otherwise acknowledged writes are lost",
			"file", at.PhysicalFile, "offset", at.Physical, "dropped_bytes", len(content)-int(at.Physical),
			"intact_records_after", t.intact)
	}
	return nil
}

// endOfLog returns where the last record of a log ends, and why no record follows.
func endOfLog(l wal.LogicalLog) (at wal.Offset, err error) {
	r := l.OpenForRead()
	defer r.Close()
	for {
		var next io.Reader
		if next, at, err = r.NextRecord(); err == nil {
			_, err = io.Copy(io.Discard, next)
		}
		if err != nil {
			return at, err
		}
	}
}

func readFile(files vfs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// tail is what is known about a log after its last whole record.
type tail struct {
	damage       int  // offset of the first chunk that is not intact
	own          bool // a chunk of this log begins there
	intact       int  // records of this log that follow it
	acknowledged bool // one of them says that the damaged chunk was synced
	reused       bool // chunks of an older log follow: Pebble reuses files
}

// newTail examines a log from the end of its last whole record on.
func newTail(content []byte, from int, number uint32) (t tail) {
	for t.damage = from; ; {
		c, ok := chunkAt(content, t.damage)
		if !ok || !c.intact || c.number != number {
			t.own = ok && c.number == number
			break
		}
		t.damage = c.end
		if rest := logBlock - c.end%logBlock; rest < logHeader { // padding
			t.damage += rest
		}
	}
	for at := t.damage + 1; at < len(content); at++ {
		switch c, ok := chunkAt(content, at); {
		case !ok || !c.intact:
		case c.number == number:
			t.acknowledged = t.acknowledged || c.synced > uint64(t.damage)
			if c.first {
				t.intact++
			}
			at = c.end - 1
		case c.number < number:
			t.reused = true
		}
	}
	return t
}

// The format of a log: blocks of chunks. A chunk has a checksum, the length of its payload, its encoding and the number
// of its log; and, but in the first log of a new database, the offset up to which the log was synced when the chunk was
// written.
const (
	logBlock        = 32 << 10
	logHeader       = 4 + 2 + 1 + 4
	logSyncedHeader = logHeader + 8

	// The encodings: a whole record, or its first, a middle or its last chunk.
	logChunks       = 5
	logSyncedChunks = 9
	logEncodings    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type chunk struct {
	end    int
	number uint32
	synced uint64
	first  bool // begins a record
	intact bool // whole, and has its checksum
}

// chunkAt parses a chunk. ok reports whether its header is one.
func chunkAt(log []byte, at int) (c chunk, ok bool) {
	block := min(len(log), at/logBlock*logBlock+logBlock)
	if at+logHeader > block {
		return c, false
	}
	h := log[at:]
	encoding := int(h[6])
	c = chunk{end: at + logHeader + int(binary.LittleEndian.Uint16(h[4:])), number: binary.LittleEndian.Uint32(h[7:])}
	switch {
	case encoding >= logChunks && encoding < logSyncedChunks:
		encoding -= logChunks
	case encoding >= logSyncedChunks && encoding < logSyncedChunks+logEncodings && at+logSyncedHeader <= block:
		encoding -= logSyncedChunks
		c.end += logSyncedHeader - logHeader
		c.synced = binary.LittleEndian.Uint64(h[logHeader:])
	default:
		return c, false
	}
	c.first = encoding < 2
	if c.end <= block {
		sum := crc32.Checksum(log[at+6:c.end], castagnoli)
		c.intact = binary.LittleEndian.Uint32(h) == (sum>>15|sum<<17)+0xa282ead8
	}
	return c, true
}
