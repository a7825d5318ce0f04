package projection_test

import (
	"testing"

	"byline/internal/testmain"
	"byline/store"
	"byline/store/internal/storetest"
)

func TestMain(m *testing.M) { testmain.Run(m) }

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
