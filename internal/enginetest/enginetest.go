// Package enginetest gives tests embedded engines, and accounts on them.
package enginetest

import (
	"testing"

	"byline/internal/secrettest"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// Open returns an account on an engine in memory of its own, which is closed at the test's
// end. The engine's logger is set here.
func Open(t testing.TB, engine emulator.Options, o cosmos.Options) *cosmos.Account {
	t.Helper()
	engine.Logger = secrettest.Logger()
	e, err := emulator.Open("", engine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return Account(t, e, o)
}

// Account returns an account on an engine. Where it is, its key and, unless the options have
// another, its transport are set here.
func Account(t testing.TB, engine *emulator.Engine, o cosmos.Options) *cosmos.Account {
	t.Helper()
	o.Endpoint, o.Key = engine.Endpoint(), secrettest.Secret(emulator.WellKnownKey)
	if o.Transport == nil {
		o.Transport = engine
	}
	account, err := cosmos.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return account
}
