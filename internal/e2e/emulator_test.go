package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store/emulator"
)

// TestEmulator_InvalidPartitions: the emulator does not start with an invalid number of partitions, and prints
// one line.
func TestEmulator_InvalidPartitions(t *testing.T) {
	for _, n := range []string{"0", "-1", "257", "many"} {
		ctx, stop := context.WithCancel(context.Background())
		var log output
		code := run(ctx,
			[]string{"emulator", "--listen", "127.0.0.1:0", "--http", "--data", t.TempDir(), "--partitions=" + n},
			io.Discard, &log,
			func(net.Addr) { stop() })
		stop()
		if out := log.String(); code != 1 || strings.Count(out, "\n") != 1 || !strings.Contains(out, n) ||
			n != "many" && !strings.Contains(out, "1 to 256") {
			t.Errorf("--partitions=%s: exit status %d: %s", n, code, out)
		}
	}
}

// TestEmulator_Flags starts `byline emulator` with --partitions, --rus and --sync=false, and checks all
// three over HTTP.
func TestEmulator_Flags(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var log output
	addresses, ended := make(chan net.Addr, 1), make(chan int, 1)
	go func() {
		ended <- run(ctx,
			[]string{"emulator", "--listen", "127.0.0.1:0", "--http", "--data", t.TempDir(), "--rus", "10",
				"--partitions", "3", "--sync=false"},
			io.Discard, &log, func(a net.Addr) { addresses <- a })
	}()
	defer func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("exit status %d: %s", code, log.String())
		}
	}()
	var at net.Addr
	select {
	case at = <-addresses:
	case code := <-ended:
		ended <- code
		t.Fatal(log.String())
	}
	cred, err := azcosmos.NewKeyCredential(emulator.WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := azcosmos.NewClientWithKey("http://"+at.String()+"/", cred,
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
			Transport: &http.Client{Transport: transport}, Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "db"}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := client.NewDatabase("db")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateContainer(ctx,
		azcosmos.ContainerProperties{ID: "c",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}}, nil); err != nil {
		t.Fatal(err)
	}
	c, err := db.NewContainer("c")
	if err != nil {
		t.Fatal(err)
	}
	if ranges, err := c.ReadFeedRanges(ctx, nil); err != nil || len(ranges) != 3 {
		t.Errorf("ranges %v %v", ranges, err)
	}
	var refused *azcore.ResponseError
	for range 100 {
		if _, err = c.UpsertItem(ctx, azcosmos.NewPartitionKeyString("p"), []byte(`{"id":"1","pk":"p"}`),
			nil); err != nil {
			break
		}
	}
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusTooManyRequests {
		t.Errorf("100 writes with 10 RU/s: %v", err)
	}
}

// TestEmulator_Key: the emulator does not take the key of an Azure account from COSMOS_KEY.
func TestEmulator_Key(t *testing.T) {
	const wellKnown = "the well-known key"
	other := testkit.Secret("YW5vdGhlciBrZXkgb2YgYW4gYWNjb3VudA==")
	for name, c := range map[string]struct {
		environment string
		args        []string
		want        string
	}{
		"none -> well-known key": {want: wellKnown},
		"COSMOS_KEY -> not read": {environment: "COSMOS_KEY", want: wellKnown},
		"BYLINE_EMULATOR_KEY -> that key": {environment: "BYLINE_EMULATOR_KEY",
			want: "set by --key or BYLINE_EMULATOR_KEY"},
		"--key -> that key": {args: []string{"--key", other}, want: "set by --key or BYLINE_EMULATOR_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.environment != "" {
				t.Setenv(c.environment, other)
			}
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var log output
			args := append([]string{"emulator", "--listen", "127.0.0.1:0", "--http", "--data", t.TempDir()}, c.args...)
			if code := run(ctx, args, io.Discard, &log, func(net.Addr) {
				stop()
			}); code != 0 || !strings.Contains(log.String(), c.want) {
				t.Errorf("exit status %d: %s", code, log.String())
			}
		})
	}
}
