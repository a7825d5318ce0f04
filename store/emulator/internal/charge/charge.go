// Package charge estimates request charges. They are exact for the small writes that were recorded against the
// hosted service, follow Microsoft's table above 1 KB, and for queries fit a few recordings.
package charge

import "strconv"

// table has the documented charges of a point read, and of a write without index terms, by
// item size ("Request Units in Azure Cosmos DB", request unit considerations). A write of 1 KB is
// the recorded 104/21, which the documentation rounds to 4.95.
var table = []struct{ kb, read, write float64 }{
	{1, 1.00, 104.0 / 21}, {2, 1.04, 6.29}, {4, 1.14, 6.67}, {8, 1.33, 7.04},
	{16, 1.67, 9.52}, {32, 2.19, 11.23}, {64, 4.76, 22.67}, {128, 9.95, 48.19},
	{256, 20.28, 98.29}, {512, 40.95, 184.57}, {1024, 145.9, 625}, {2048, 291.8, 1250},
}

const (
	// term is the charge of one index term: 4/21, from recorded creates of items with 3, 4
	// and 5 properties (6.286, 6.667, 7.048).
	term = 4.0 / 21
	// termsPerLeaf is the number of index terms of an indexed value, termsPerItem those of every
	// item besides (its _ts); from the same recordings.
	termsPerLeaf = 2
	termsPerItem = 1

	// posting is the charge of a posting in a full-text index that a write changes: a guess, as Microsoft publishes
	// none.
	posting = term / 10

	// patchBase and patchOp fit the two recorded patches: 10.601 for one operation,
	// 11.42 for three.
	patchBase = 0.287
	patchOp   = 0.0285

	// Recorded charges of requests that change nothing, by the reason.
	NotFound      = 1.0
	NotModified   = 1.0
	Conflict      = 1.48
	BatchConflict = 1.571
	Precondition  = 1.238
	BadRequest    = 1.24
	Throttled     = 0.38
	Metadata      = 1.0

	// Recorded: 2.25 for SELECT 1, 2.26 for one item, 2.99 for a COUNT over 500 items, 17.16 for
	// 1,000 rows of 0.25 KB. The charge of a further range seek is a guess.
	QueryBase  = 2.25
	queryEntry = 0.001453
	queryRow   = 0.013457
	queryRowKB = 0.25
	querySeek  = 0.2
)

// Read returns the charge of a point read by the size of the item.
func Read(bytes int) float64 { r, _ := sizeCharge(bytes); return r }

// Write returns the charge of a write without index terms.
func Write(bytes int) float64 { _, w := sizeCharge(bytes); return w }

func sizeCharge(bytes int) (read, write float64) {
	kb := float64(bytes) / 1024
	t := table
	if kb <= t[0].kb {
		return t[0].read, t[0].write
	}
	for i := 1; i < len(t); i++ {
		if kb <= t[i].kb {
			f := (kb - t[i-1].kb) / (t[i].kb - t[i-1].kb)
			return t[i-1].read + f*(t[i].read-t[i-1].read), t[i-1].write + f*(t[i].write-t[i-1].write)
		}
	}
	last := t[len(t)-1]
	return last.read * kb / last.kb, last.write * kb / last.kb
}

// Create returns the charge of a create, and of a delete of the same item.
func Create(bytes, leaves, composites int) float64 {
	return Write(bytes) + term*float64(termsPerLeaf*leaves+termsPerItem+composites)
}

// Replace returns the charge of a replace that changes this many leaves and moves this many
// composite index entries.
func Replace(oldBytes, newBytes, changed, composites int) float64 {
	return Write(oldBytes) + Write(newBytes) +
		term*float64(termsPerLeaf*(changed+1)+termsPerLeaf*composites)
}

// Patch returns the charge of a patch.
func Patch(oldBytes, newBytes, changed, composites, ops int) float64 {
	return Write(oldBytes) + Write(newBytes) +
		term*float64(termsPerLeaf*(changed+composites)) +
		patchBase + patchOp*float64(ops)
}

// Postings returns what a write that changes postings in full-text indexes costs besides.
func Postings(changed int) float64 { return posting * float64(changed) }

// Query returns the charge of a page in one physical partition: the base with the first seek,
// further seeks, index entries and postings read, and rows by number or by the bytes loaded for them.
func Query(entries, seeks, rows, bytes int) float64 {
	seeks = max(0, seeks-1)
	perRow := queryRow * float64(rows)
	if scaled := queryRow * float64(bytes) / (queryRowKB * 1024); scaled > perRow {
		perRow = scaled
	}
	return QueryBase + queryEntry*float64(entries) + querySeek*float64(seeks) + perRow
}

// Format formats a charge with at most two decimals, as the service does.
func Format(ru float64) string {
	b := strconv.AppendFloat(make([]byte, 0, 16), ru, 'f', 2, 64)
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	if b[len(b)-1] == '.' {
		b = b[:len(b)-1]
	}
	return string(b)
}
