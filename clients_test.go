package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clientsFolder has the programs of TestClients, and is where their packages are
// looked for, unless the environment says where else: then they must be there, and so
// must be a browser for TestPlayground.
const (
	clientsFolder = "graph/testdata/clients"
	clientsEnv    = "BYLINE_CLIENTS"
)

// TestClients runs the clients and tools of single-page applications, which are
// JavaScript, against the server and its schema.
func TestClients(t *testing.T) {
	packages, required := os.LookupEnv(clientsEnv)
	if !required {
		packages = clientsFolder
	}
	packages, err := filepath.Abs(filepath.Join(packages, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(packages)
	}
	switch {
	case err != nil && required:
		t.Fatal(err)
	case err != nil:
		t.Skipf("needs Node and its packages, which `npm ci --prefix %s` installs: %v", clientsFolder, err)
	}

	// The tools write where they work.
	folder := t.TempDir()
	if err := os.Symlink(packages, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(clientsFolder + "/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range append(programs, "schema.graphqls") {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(from)), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}

	s := start(t, "--data", t.TempDir(), "--no-demo")
	s.do("ada", createUser, map[string]any{"name": "ada"})
	for _, program := range []string{"clients.test.mjs", "schema.test.mjs"} {
		t.Run(program, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, "--test-reporter=spec", program)
			cmd.Dir, cmd.WaitDelay = folder, 10*time.Second
			cmd.Env = append(os.Environ(), "GRAPHQL_URL="+s.root+"/graphql")
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
