package server

import (
	"testing"

	"byline/internal/testkit"
	"byline/store/emulator"
)

func TestMain(m *testing.M) {
	testkit.Secret(emulator.WellKnownKey)
	testkit.Exit(m.Run())
}
