package server

import (
	"testing"

	"byline/internal/secrettest"
	"byline/store/emulator"
)

func TestMain(m *testing.M) {
	secrettest.Secret(emulator.WellKnownKey)
	secrettest.Exit(m.Run())
}
