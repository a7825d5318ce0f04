package layout

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func container() *Container {
	return &Container{No: 7, RID: ContainerRIDBytes(3, 7), SelfLink: "dbs/AAAAAw==/colls/x/"}
}

// record returns an item as a write builds it.
func record(client string) Record {
	r := Record{LSN: 1<<32 + 5, Op: 2, RID: 9<<BirthShift | 4, Timestamp: 1_700_000_000, TTL: -1}
	r.Finish(container(), []byte(client), nil)
	return r
}

// A record is read as it was written, in a buffer of the reader's or a new one.
func TestRecord_RoundTrip(t *testing.T) {
	want := record(`{"id":"a","n":[1,{"b":2}]}`)
	stored := want.Append(nil)
	own := make([]byte, 0, 4)
	for name, buf := range map[string]*[]byte{"new": nil, "too small": &own, "used before": {1, 2, 3}} {
		got, err := container().ReadRecord(stored, buf)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
	var doc struct {
		ID    string
		ETag  string `json:"_etag"`
		Self  string `json:"_self"`
		RID   string `json:"_rid"`
		TS    int64  `json:"_ts"`
		Links string `json:"_attachments"`
	}
	if err := json.Unmarshal(want.Doc, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.ID != "a" || doc.ETag != want.ETag(7) || doc.TS != 1_700_000_000 || doc.Links != "attachments/" ||
		doc.Self != "dbs/AAAAAw==/colls/x/docs/"+doc.RID+"/" {
		t.Errorf("got %+v", doc)
	}
	if etag := `"` + FormatETag(7, want.LSN, want.Op, want.Timestamp) + `"`; etag != want.ETag(7) {
		t.Errorf("the ETag is %s, and %s in the document", etag, want.ETag(7))
	}
}

func TestReadHeader_Corrupt(t *testing.T) {
	whole := record(`{"id":"a"}`)
	stored := whole.Append(nil)
	another := append([]byte{recordVersion + 1}, stored[1:]...)
	for name, b := range map[string][]byte{"empty": nil, "cut": stored[:HeaderBytes+1], "another version": another} {
		if r, err := ReadHeader(b); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, err := ReadHeader(stored[:HeaderBytes+2]); err != nil {
		t.Errorf("the shortest: %v", err)
	}
}

// The change feed carries small items; of a large one only the address.
func TestFeedValue(t *testing.T) {
	address := []byte("address")
	fits := MaxInlineRecord - HeaderBytes - 1 // of the client's JSON without its closing brace
	for length, inline := range map[int]bool{20: true, fits: true, fits + 1: false, 5000: false} {
		client := `{"id":"` + strings.Repeat("x", length-len(`{"id":""`)) + `"}`
		r := record(client)
		got, stored := SplitFeedValue(AppendFeedValue(nil, address, &r))
		if !bytes.Equal(got, address) || (len(stored) > 0) != inline || inline && !bytes.Equal(stored, r.Append(nil)) {
			t.Errorf("%d bytes: address %q, %d bytes of the record, want it: %t", length, got, len(stored), inline)
		}
	}
}

// Keys sort by what they are made of: a range of the change feed by LSN and operation.
func TestFeedKeys(t *testing.T) {
	var keys [][]byte
	for _, at := range []struct {
		lsn uint64
		op  uint16
	}{{0, 0}, {1, 0}, {1, 1}, {1, 256}, {2, 0}, {255, 65535}, {256, 0}, {1 << 40, 3}} {
		key := AppendFeedKey(nil, 1, 2, at.lsn, at.op)
		if lsn, op := FeedPosition(key); lsn != at.lsn || op != at.op {
			t.Errorf("got %d, %d, want %d, %d", lsn, op, at.lsn, at.op)
		}
		keys = append(keys, key)
	}
	if !slices.IsSortedFunc(keys, bytes.Compare) {
		t.Error("the keys do not sort by LSN and operation")
	}
	end := PrefixEnd(AppendFeedPrefix(nil, 1, 2))
	if bytes.Compare(keys[len(keys)-1], end) >= 0 || bytes.Compare(AppendFeedPrefix(nil, 1, 3), end) < 0 {
		t.Error("the keys of a range are not between its prefix and its end")
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "a\x00": "a\x01", "ab": "ac"} {
		if got := PrefixEnd([]byte(prefix)); string(got) != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
	for _, prefix := range []string{"", "\xff", "\xff\xff"} {
		if got := PrefixEnd([]byte(prefix)); got != nil {
			t.Errorf("%q: %q, want no end", prefix, got)
		}
	}
}

func TestTTL(t *testing.T) {
	const written = 1_700_000_000
	for name, tt := range map[string]struct {
		container TTL
		item      int32
		want      int64 // seconds after it was written; 0: never
	}{
		"disabled":                 {TTL{}, 10, 0},
		"of the container":         {TTL{true, 60}, 0, 60},
		"of the item":              {TTL{true, 60}, 10, 10},
		"never, of the item":       {TTL{true, 60}, -1, 0},
		"never, of the container":  {TTL{true, -1}, 0, 0},
		"of the item, never else":  {TTL{true, -1}, 10, 10},
		"disabled with a duration": {TTL{false, 60}, 0, 0},
	} {
		r := &Record{Timestamp: written, TTL: tt.item}
		at, ok := tt.container.Expiry(r)
		if ok != (tt.want > 0) || ok && at != written+tt.want {
			t.Errorf("%s: %d, %t, want %d", name, at, ok, written+tt.want)
		}
		for after, want := range map[int64]bool{tt.want - 1: false, tt.want: ok} {
			expired := tt.container.Expired(r, func() time.Time {
				if !ok {
					t.Errorf("%s: the clock is read although the item cannot expire", name)
				}
				return time.Unix(written+after, 0)
			})
			if expired != want {
				t.Errorf("%s: expired after %d s: %t, want %t", name, after, expired, want)
			}
		}
	}
}

// Resource ids of items differ, whichever partition made them, and have no slash: they are parts of paths.
func TestItemRID(t *testing.T) {
	seen := map[string]bool{}
	for _, birth := range []uint64{0, 1, MaxRanges - 1} {
		for _, n := range []uint64{0, 1, 1<<40 - 1} {
			rid := string(appendItemRID(nil, ContainerRIDBytes(1, 2), birth<<BirthShift|n))
			if seen[rid] || strings.ContainsAny(rid, "/?#") {
				t.Errorf("%d, %d: %s", birth, n, rid)
			}
			seen[rid] = true
		}
	}
}

// A buffer that is too large for the pool is given away, a small one is copied.
func TestScratch_Take(t *testing.T) {
	s := GetScratch()
	defer s.Release()
	small := append(make([]byte, 0, 16), "small"...)
	if got := s.Take(small); string(got) != "small" || &got[0] == &small[0] {
		t.Error("a small buffer is not copied")
	}
	large := make([]byte, ScratchKept+1)
	if got := s.Take(large); &got[0] != &large[0] || s.Value != nil {
		t.Error("a large buffer is not given away")
	}
}
