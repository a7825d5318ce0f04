package server

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"byline/internal/account"
	"byline/internal/testkit"
)

// TestSessionKey_Missing: an instance whose sessions other instances do not accept logs a warning at the start.
func TestSessionKey_Missing(t *testing.T) {
	const endpoint = "https://byline.documents.azure.com"
	for name, tt := range map[string]struct {
		endpoint, key, sessionKey string
		warns                     int
	}{
		"Entra identity":                    {endpoint, "", "", 1},
		"Entra identity with a session key": {endpoint, "", strings.Repeat("k", 32), 0},
		"account key":                       {endpoint, "a2V5", "", 0},
		"embedded engine":                   {"", "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("COSMOS_KEY", tt.key)
			t.Setenv("BYLINE_SESSION_KEY", tt.sessionKey)
			var log bytes.Buffer
			g := &gateway{Config: Config{listenFlags: listenFlags{Listen: "localhost:0"},
				Flags: account.Flags{CosmosEndpoint: tt.endpoint, CosmosDatabase: "blog", Data: t.TempDir()}},
				log: slog.New(slog.NewTextHandler(io.MultiWriter(&log, testkit.LogWriter), nil))}
			if err := g.openBlog(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := g.close(); err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != tt.warns ||
				tt.warns != strings.Count(log.String(), "BYLINE_SESSION_KEY") {
				t.Errorf("%d warnings: %s", n, log.String())
			}
		})
	}
}
