package emulator

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/partitionkey"
)

// partition is a physical partition. It has its own sequence of LSNs.
type partition struct {
	partitionkey.Range
	splitting bool          // guarded by container.mu; see StartSplit
	revision  atomic.Uint64 // of container.revision; 0 before it splits

	mu   sync.Mutex
	lsn  uint64 // guarded by mu: last LSN assigned
	size *size  // guarded by mu: of its items; nil until sizeOfPartition

	writes  map[string][]time.Time // guarded by mu: recent changes, by item; nil without Options.ItemWriters
	logical map[string]size        // guarded by mu: logical partitions written, by prefix of the addresses; nil without Options.PartitionBytes

	budget budget

	applied atomic.Uint64 // last LSN visible to readers
	synced  atomic.Uint64 // last durable LSN; see durability
}

// checkSession returns 404/1002 if a session token is ahead of have, an LSN of p. It ignores the LSNs of
// regions: one region has all writes.
func checkSession(p *partition, have uint64, header string) error {
	for header != "" {
		var one string
		one, header, _ = strings.Cut(header, ",")
		id, rest, ok := strings.Cut(strings.TrimSpace(one), ":")
		if !ok {
			return apierror.BadRequest("The session token %q is invalid.", one)
		}
		if no, err := strconv.ParseUint(id, 10, 32); err != nil || uint32(no) != p.No && !p.Descends(uint32(no)) {
			continue
		}
		parts := strings.Split(rest, "#")
		lsn, err := strconv.ParseInt(parts[min(1, len(parts)-1)], 10, 64)
		if err != nil {
			return apierror.BadRequest("The session token %q is invalid.", one)
		}
		if lsn > int64(have) {
			return apierror.SessionNotAvailable()
		}
	}
	return nil
}
