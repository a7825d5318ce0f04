// Package enginetest gives tests embedded engines, by clients of their own.
package enginetest

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/secrettest"
	"byline/store/emulator"
)

// Client returns a client of an engine in memory, which is closed at the test's end. The
// engine's logger and the client's transport are set here.
func Client(t testing.TB, engine emulator.Options, client azcore.ClientOptions) *azcosmos.Client {
	t.Helper()
	engine.Logger = secrettest.Logger()
	e, err := emulator.Open("", engine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	key, err := azcosmos.NewKeyCredential(secrettest.Secret(emulator.WellKnownKey))
	if err != nil {
		t.Fatal(err)
	}
	client.Transport = e
	c, err := azcosmos.NewClientWithKey(e.Endpoint(), key, &azcosmos.ClientOptions{ClientOptions: client})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
