package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// logged opens a database on files and returns its log.
func logged(t *testing.T, files vfs.FS) (db *pebble.DB, log *bytes.Buffer, err error) {
	t.Helper()
	log = new(bytes.Buffer)
	db, lock, err := Open("", files, slog.New(slog.NewTextHandler(log, nil)), func(err error) { t.Error(err) })
	if err == nil {
		t.Cleanup(func() { lock.Close() })
	}
	return db, log, err
}

// key returns the key of the nth synced write.
func key(n int) []byte { return fmt.Appendf(nil, "synced%02d", n) }

// The logs of the tests: the first of a database, a later one, and one in the file of an older log.
const (
	firstLog = iota
	laterLog
	reusedLog
)

// written returns files with ten synced writes, on which the database stays open.
func written(t *testing.T, kind int) *vfs.MemFS {
	t.Helper()
	files := vfs.NewCrashableMem()
	db, _, err := logged(t, files)
	if err == nil && kind != firstLog {
		if err = db.Close(); err == nil {
			db, _, err = logged(t, files)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for i := range 2 * (kind / reusedLog) { // the second flush begins a log in the file of the first
		filler := bytes.Repeat([]byte{byte(i)}, 64<<10)
		if err := errors.Join(db.Set(fmt.Appendf(nil, "filler%d", i), filler, pebble.Sync), db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		if err := db.Set(key(i), bytes.Repeat([]byte{'v'}, 100), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// newestLog returns the newest log of files, its content and the offsets of its records, the last of which is its end.
func newestLog(t *testing.T, files vfs.FS) (name string, content []byte, offsets []int, end error) {
	t.Helper()
	logs, err := wal.Scan(wal.Dir{FS: files, Dirname: "data"})
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	r := logs[len(logs)-1].OpenForRead()
	defer r.Close()
	for {
		_, at, err := r.NextRecord()
		if name = at.PhysicalFile; err != nil {
			content, readErr := readFile(files, name)
			if readErr != nil {
				t.Fatal(readErr)
			}
			return name, content, append(offsets, int(at.Physical)), err
		}
		offsets = append(offsets, int(at.Physical))
	}
}

func overwrite(t *testing.T, files vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := files.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(bytes.Clone(content)) // which the race detector's build overwrites
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLogTail: a warning says what is dropped of a write-ahead log, unless a kill explains it. Damage to what certainly
// was acknowledged is refused.
func TestLogTail(t *testing.T) {
	flip := func(at int) func([]byte, []int) []byte {
		return func(content []byte, offsets []int) []byte { content[offsets[at]-1] ^= 0x40; return content }
	}
	zero := func(content []byte, offsets []int) []byte { clear(content[offsets[8]:offsets[10]]); return content }
	encoding := func(content []byte, offsets []int) []byte { content[offsets[3]+6] ^= 0x40; return content }
	type outcome struct {
		rows   int  // that are left
		warns  int  // intact records that are dropped, too, or -1 without a warning
		refuse bool // to open
	}
	disks := []*vfs.MemFS{written(t, firstLog), written(t, laterLog), written(t, reusedLog)}
	for name, one := range map[string]struct {
		log    int
		damage func(content []byte, offsets []int) []byte
		want   outcome
	}{
		"killed, first log":   {firstLog, nil, outcome{10, -1, false}},
		"killed, later log":   {laterLog, nil, outcome{10, -1, false}},
		"killed, reused log":  {reusedLog, nil, outcome{10, -1, false}},
		"damaged, first log":  {firstLog, flip(10), outcome{9, 0, false}},
		"damaged, later log":  {laterLog, flip(10), outcome{9, 0, false}},
		"damaged, reused log": {reusedLog, flip(10), outcome{9, 0, false}},
		"cut off": {laterLog, func(c []byte, at []int) []byte {
			return c[:at[10]-1]
		}, outcome{9, 0, false}},
		"cut off in its header": {laterLog, func(c []byte, at []int) []byte {
			return c[:at[9]+3]
		}, outcome{9, 0, false}},
		"zeroed":              {laterLog, zero, outcome{8, 0, false}},
		"last but one":        {laterLog, flip(9), outcome{8, -1, true}},
		"earlier, first log":  {firstLog, flip(4), outcome{3, 6, false}},
		"earlier, later log":  {laterLog, flip(4), outcome{3, -1, true}},
		"earlier, reused log": {reusedLog, flip(4), outcome{3, -1, true}},
		"earlier, its header": {laterLog, encoding, outcome{3, -1, true}},
	} {
		t.Run(name, func(t *testing.T) {
			files := disks[one.log].CrashClone(vfs.CrashCloneCfg{})
			file, content, offsets, end := newestLog(t, files)
			if len(offsets) != 11 || (end == io.EOF) == (one.log == reusedLog) {
				t.Fatalf("the log of %d records ends with %v", len(offsets)-1, end)
			}
			if one.damage != nil {
				content = one.damage(content, offsets)
				overwrite(t, files, file, content)
			}
			size := len(content)
			db, log, err := logged(t, files)
			if one.want.refuse {
				cut := fmt.Sprintf("truncate -s %d %s", offsets[one.want.rows], file)
				if err == nil || !strings.Contains(err.Error(), cut) {
					t.Fatalf("got %v, want an error that ends in %q", err, cut)
				}
				overwrite(t, files, file, content[:offsets[one.want.rows]])
				db, log, err = logged(t, files)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for i := range 10 {
				_, closer, err := db.Get(key(i))
				if err == nil {
					closer.Close()
				}
				if (err == nil) != (i < one.want.rows) {
					t.Errorf("write %d: %v, want %d writes", i, err, one.want.rows)
				}
			}
			want := "" // nothing is logged
			if one.want.warns >= 0 {
				at := offsets[one.want.rows]
				want = fmt.Sprintf("file=%s offset=%d dropped_bytes=%d intact_records_after=%d", file, at, size-at,
					one.want.warns)
			}
			got := log.String()
			lines, warnings := strings.Count(got, "\n"), strings.Count(got, "level=WARN")
			if lines != warnings || (lines > 0) != (want != "") || !strings.Contains(got, want) {
				t.Errorf("the log is %q, want %q", got, want)
			}
		})
	}
}

// TestLogTail_Closed: a closed log ends in a mark, also in a reused file.
func TestLogTail_Closed(t *testing.T) {
	files := vfs.NewMem()
	for range 3 {
		db, log, err := logged(t, files)
		if err != nil || log.Len() > 0 {
			t.Fatal(err, log)
		}
		if err := errors.Join(db.Set(key(0), nil, pebble.Sync), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
