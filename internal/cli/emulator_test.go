package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"byline/internal/testkit"
	"byline/store/emulator"
)

// TestEmulator_GracePeriodEnds: requests that are still active are aborted, which is not an error.
func TestEmulator_GracePeriodEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		ctx, stop := context.WithCancel(t.Context())
		listener, served := testkit.ListenPipe(), make(chan error, 1)
		var log bytes.Buffer
		go func() {
			served <- (&Emulator{HTTP: true, Sync: true, Listen: "localhost:0"}).serve(ctx, engine, listener,
				slog.New(slog.NewTextHandler(&log, nil)))
		}()
		c, err := listener.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c,
			"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatal(line, err)
		}
		stop()
		if err := <-served; err != nil ||
			!strings.Contains(log.String(), `msg="requests aborted after the grace period"`) {
			t.Errorf("%v: %s", err, &log)
		}
	})
}

func TestEmulator_WellKnownKeyOnlyOnLoopback(t *testing.T) {
	for name, tt := range map[string]struct {
		c       Emulator
		refused bool
	}{
		"loopback -> served":       {Emulator{Listen: "localhost:8081"}, false},
		"all addresses -> refused": {Emulator{Listen: "0.0.0.0:8081"}, true},
		"no host -> refused":       {Emulator{Listen: ":8081"}, true},
		"second address -> refused": {Emulator{Listen: "localhost:8081", ComputeListen: "0.0.0.0:8082"},
			true},
		"all addresses, own key -> served":       {Emulator{Listen: "0.0.0.0:8081", Key: "c2VjcmV0"}, false},
		"all addresses, insecure flag -> served": {Emulator{Listen: "0.0.0.0:8081", InsecurePublicKey: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tt.c.Data, tt.c.Partitions = t.TempDir(), 1
			if err := tt.c.check(); (err != nil) != tt.refused {
				t.Error(err)
			}
		})
	}
}
