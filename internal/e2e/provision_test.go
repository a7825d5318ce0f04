package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/oidctest"
	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store/emulator"
)

// entraAccount is an account in which Entra identities may only use items, for programs that sign in
// with a managed identity.
type entraAccount struct {
	t           *testing.T
	engine      *emulator.Engine
	endpoint    string
	environment []string
	provider    *oidctest.Provider // set by deploy
}

func newEntraAccount(t *testing.T) *entraAccount {
	t.Helper()
	engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	account := httptest.NewUnstartedServer(dataPlaneOnly(engine))
	account.Config.ErrorLog = log.New(io.Discard, "", 0) // discards errors of connections that a program has closed
	account.StartTLS()
	t.Cleanup(account.Close)
	token, err := engine.Credential().GetToken(t.Context(), policy.TokenRequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Secret(token.Token)
	// As Azure Container Apps gives a program the token of its identity.
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"access_token": token.Token,
			"expires_on": fmt.Sprint(token.ExpiresOn.Unix()),
			"resource":   r.URL.Query().Get("resource"), "token_type": "Bearer"})
	}))
	t.Cleanup(identity.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: account.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &entraAccount{t: t, engine: engine, endpoint: account.URL,
		environment: []string{"COSMOS_ENDPOINT=" + account.URL, "COSMOS_KEY=", "SSL_CERT_FILE=" + roots,
			"IDENTITY_ENDPOINT=" + identity.URL, "IDENTITY_HEADER=header"}}
}

// dataPlaneOnly refuses to Entra ID tokens what Cosmos DB does: changes of databases and containers, and everything
// about throughput (403, substatus 5300).
func dataPlaneOnly(account http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entra := strings.HasPrefix(r.Header.Get("Authorization"), "type=aad")
		query := r.Header.Get("Content-Type") == "application/query+json"
		change := r.Method != http.MethodGet && !query && !strings.Contains(r.URL.Path, "/docs")
		if !entra || !change && !strings.HasPrefix(r.URL.Path, "/offers") {
			account.ServeHTTP(w, r)
			return
		}
		w.Header().Set("X-Ms-Substatus", "5300")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"code":"Forbidden","message":"Request blocked by Auth"}`)
	})
}

// client returns a client of the account with its key.
func (a *entraAccount) client() *azcosmos.Client {
	a.t.Helper()
	key, err := azcosmos.NewKeyCredential(emulator.WellKnownKey)
	if err != nil {
		a.t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(a.engine.Endpoint(), key,
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: a.engine}})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(client.Close)
	return client
}

// command returns a byline command that signs in with the identity.
func (a *entraAccount) command(args ...string) *exec.Cmd {
	cmd := servertest.Command(args...)
	cmd.Env = append(cmd.Env, a.environment...)
	return cmd
}

// fail runs a command that fails, and returns what it prints to stdout, and the last line to stderr.
func (a *entraAccount) fail(args ...string) (stdout, line string) {
	a.t.Helper()
	cmd := a.command(args...)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 {
		a.t.Fatalf("%q: %v, not exit status 1:\n%s%s", args, err, &out, &log)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for _, l := range lines[:len(lines)-1] {
		if !strings.HasPrefix(l, "time=") && !strings.HasPrefix(l, `{"time":`) {
			a.t.Errorf("%q: the error is more than one line:\n%s", args, &log)
		}
	}
	return out.String(), lines[len(lines)-1]
}

// succeed runs a command and returns what it prints to stdout.
func (a *entraAccount) succeed(cmd *exec.Cmd) string {
	a.t.Helper()
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		a.t.Fatalf("%q: %v:\n%s%s", cmd.Args[1:], err, &out, &log)
	}
	return out.String()
}

// serve starts a server with the identity and waits until it is ready.
func (a *entraAccount) serve(args ...string) *process {
	a.t.Helper()
	for _, variable := range a.environment {
		name, value, _ := strings.Cut(variable, "=")
		a.t.Setenv(name, value)
	}
	p := startProcess(a.t, args...)
	p.WaitReady()
	return p
}

// TestServe_EntraIdentityWithoutContainers: the one-line error names the command that creates the containers; after
// that the server starts.
func TestServe_EntraIdentityWithoutContainers(t *testing.T) {
	testkit.Heavy(t)
	a := newEntraAccount(t)
	_, line := a.fail("serve", "--listen", "localhost:0")
	commands := regexp.MustCompile(`"byline ([^"]+)"`).FindAllStringSubmatch(line, -1)
	if !strings.Contains(line,
		"database blog lacks the containers users, posts, feed, leases, search, and an Entra identity may not create them") ||
		len(commands) != 2 {
		t.Fatal(line)
	}
	if out, line := a.fail("provision", "--check"); !strings.Contains(out, "there is no database blog") ||
		!strings.Contains(line, "would not serve") {
		t.Errorf("provision --check: %s%s", out, line)
	}
	create := a.command(strings.Fields(commands[0][1])...)
	create.Env = append(create.Env, "COSMOS_KEY="+emulator.WellKnownKey)
	a.succeed(create)
	db, err := a.client().NewDatabase("blog")
	if err != nil {
		t.Fatal(err)
	}
	if have, err := db.ReadThroughput(t.Context(), nil); err != nil {
		t.Error("the containers share no throughput:", err)
	} else if ru, ok := have.ThroughputProperties.AutoscaleMaxThroughput(); !ok || ru != 1000 {
		t.Errorf("the containers share %d RU/s, autoscale %t, want autoscale up to 1000", ru, ok)
	}
	if out := a.succeed(a.command(strings.Fields(commands[1][1])...)); strings.Count(out,
		"az cosmosdb sql container create ") != 5 {
		t.Errorf("the other command prints %s", out)
	}
	a.serve()
}
