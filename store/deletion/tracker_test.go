package deletion

import (
	"testing"

	"byline/store/blog"
)

// A user may be created and deleted again while forget finds that the first deletion has ended.
func TestTracker_RemoveKeepsLaterDeletion(t *testing.T) {
	const first, second, between blog.Date = "2026-01-01T00:01:00.000Z", "2026-01-01T00:03:00.000Z",
		"2026-01-01T00:02:00.000Z"
	d := New(Options{})
	d.add("ada", first)
	d.add("grace", first)
	ended := d.users()
	d.add("ada", second)
	d.remove(ended)
	if !d.Hides("ada", between) {
		t.Error("the later deletion is forgotten")
	}
	if d.HiddenUntil("grace") != "" {
		t.Error("the ended deletion is not forgotten")
	}
	if d.remove(d.users()); d.any.Load() {
		t.Error("not all are forgotten")
	}
}
