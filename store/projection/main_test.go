package projection_test

import (
	"testing"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is a storetest.World with helpers of these tests.
type world struct{ *storetest.World }

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{storetest.New(t)}
}

func newWorldWith(t testing.TB, o store.Options) *world {
	t.Helper()
	return &world{storetest.NewWith(t, o)}
}

func openWorld(t testing.TB, dir string) *world {
	t.Helper()
	return &world{storetest.Open(t, dir)}
}

// begin creates the entries of posts in timelines.
func (w *world) begin(posts ...*blog.Post) {
	w.T.Helper()
	if err := w.Views().ProjectTimelines(w.T.Context(), posts...); err != nil {
		w.T.Fatal(err)
	}
}
