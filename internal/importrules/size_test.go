package importrules

import (
	"bytes"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// The limits on what a reader meets in a folder.
const (
	maxFiles    = 25 // without tests
	maxDocLines = 45 // of go doc
)

// models are packages that export a name for each thing of a model or a language, which makes their documentation
// longer.
var models = map[string]bool{"store/blog": true, "store/emulator/internal/sql": true,
	"store/emulator/internal/layout": true, "graph/generated": true, "graph/model": true}

// TestPackages_FitOnAScreen: a package has at most maxFiles files, and its documentation at most maxDocLines lines.
func TestPackages_FitOnAScreen(t *testing.T) {
	root := path.Join("..", "..")
	for folder := range imports(t, root) {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				count++
			}
		}
		if count > maxFiles {
			t.Errorf("%s has %d files, more than %d", folder, count, maxFiles)
		}
		if models[folder] || strings.HasPrefix(folder, "deploy/") {
			continue
		}
		cmd := exec.Command("go", "doc", ".")
		cmd.Dir = filepath.Join(root, folder)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("go doc %s: %v %s", folder, err, out)
		}
		if lines := bytes.Count(out, []byte("\n")); lines > maxDocLines {
			t.Errorf("go doc %s has %d lines, more than %d", folder, lines, maxDocLines)
		}
	}
}
