package enginetest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"byline/internal/testkit"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// Open returns an account on a new engine in memory, which is closed when the test ends. It sets the
// engine's logger.
func Open(t testing.TB, engine emulator.Options, o cosmos.Options) *cosmos.Account {
	t.Helper()
	engine.Logger = testkit.Logger()
	e, err := emulator.Open("", engine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return Account(t, e, o)
}

// Account returns an account on an engine. It sets the endpoint, the key and, unless the options have
// one, the transport. Responses are Undated.
func Account(t testing.TB, engine *emulator.Engine, o cosmos.Options) *cosmos.Account {
	t.Helper()
	o.Endpoint, o.Key = engine.Endpoint(), testkit.Secret(emulator.WellKnownKey)
	if o.Transport == nil {
		o.Transport = engine
	}
	o.Transport = Undated(o.Transport)
	account, err := cosmos.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return account
}

// RegionalToken returns the session token of an engine as an account with three regions has it, of which two report no
// LSN. "" stays "".
func RegionalToken(token string) string {
	if token == "" {
		return ""
	}
	partition, lsn, ok := strings.Cut(token, ":-1#")
	if !ok {
		panic("not a session token of an engine: " + token)
	}
	return fmt.Sprintf("%s:0#%s#1=%[2]s#2=-1#3=-1", partition, lsn)
}

// Undated removes the Date of responses, by which accounts correct their clocks: in tests, stores and engines
// have different clocks.
func Undated(t policy.Transporter) policy.Transporter { return undated{t} }

type undated struct{ policy.Transporter }

func (u undated) Do(r *http.Request) (*http.Response, error) {
	resp, err := u.Transporter.Do(r)
	if err == nil {
		resp.Header.Del("Date")
	}
	return resp, err
}
