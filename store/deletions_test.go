package store

import (
	"testing"

	"byline/store/blog"
)

// A user may be created and deleted again while forgetDeletions finds that the first deletion has ended.
func TestDeletions_RemoveKeepsLaterDeletion(t *testing.T) {
	const first, second, between blog.Date = "2026-01-01T00:01:00.000Z", "2026-01-01T00:03:00.000Z", "2026-01-01T00:02:00.000Z"
	var d deletions
	d.add("ada", first)
	d.add("grace", first)
	ended := d.users()
	d.add("ada", second)
	d.remove(ended)
	if !d.hides("ada", between) {
		t.Error("the later deletion is forgotten")
	}
	if d.hiddenUntil("grace") != "" {
		t.Error("the ended deletion is not forgotten")
	}
	if d.remove(d.users()); d.any.Load() {
		t.Error("not all are forgotten")
	}
}
