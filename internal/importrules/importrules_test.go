// Package importrules tests which packages may import which.
package importrules

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rules list the packages that may import a package, by their folders in the repository; tests and
// packages that only tests import (named ...test) are exempt. A folder includes its subfolders,
// except ".".
var rules = []struct {
	imported string   // an import path, including its subpackages
	by       []string // folders
}{
	{"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos", []string{"store/cosmos", "store/changefeed", "bench"}},
	{"github.com/99designs/gqlgen", []string{"graph"}},
	{"byline/store/emulator", []string{"internal", "bench"}},
	{"byline/store/projection", []string{"store", "internal", "bench"}},
	{"byline/graph", []string{"graph", "internal", "bench"}},
	{"byline/internal/cli", []string{"."}},
	{"gonum.org/v1/plot", []string{"bench"}},
	{"github.com/google/go-containerregistry", []string{"deploy/image"}},
	{"byline/internal/load", []string{"bench"}},
}

// jsonpart is the part of the engine's module that everyone may import.
const jsonpart = "byline/store/emulator/jsonpart"

// imports lists the packages that the repository's code imports, tests excepted, by folder.
func imports(t *testing.T, root string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() &&
			(name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && file != root):
			return filepath.SkipDir
		case d.IsDir() && strings.HasSuffix(name, "test"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if len(parsed.Comments) > 0 && parsed.Comments[0].List[0].Text == "//go:build tools" {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		for _, i := range parsed.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			all[folder] = append(all[folder], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// within reports whether a package is another, or below it.
func within(pkg, other string) bool { return pkg == other || strings.HasPrefix(pkg, other+"/") }

func TestImportRules(t *testing.T) {
	all := imports(t, path.Join("..", ".."))
	for _, rule := range rules {
		importers := 0
		for folder, imported := range all {
			for _, i := range imported {
				if !within(i, rule.imported) || within(folder, strings.TrimPrefix(rule.imported, "byline/")) || i == jsonpart {
					continue
				}
				importers++
				allowed := false
				for _, by := range rule.by {
					allowed = allowed || within(folder, by)
				}
				if !allowed {
					t.Errorf("%s imports %s: only %s may", folder, i, strings.Join(rule.by, ", "))
				}
			}
		}
		if importers == 0 {
			t.Errorf("nothing imports %s", rule.imported)
		}
	}
}

// TestImportRules_Model: the model imports no adapter, and the rooms of the store know neither the store nor
// each other.
func TestImportRules_Model(t *testing.T) {
	const (
		markdown = "byline/store/blog/markdown"              // part of the model, and knows nothing of it
		fulltext = "byline/store/emulator/internal/fulltext" // knows nothing of the engine
	)
	all := imports(t, path.Join("..", ".."))
	for folder, forbidden := range map[string][]string{
		"store/blog":             {"byline/store"},
		"store/blog/markdown":    {"byline/store"},
		"store/stored":           {"byline/store/projection", "byline/store/username"},
		"store/username":         {"byline/store/projection", "byline/store/live", "byline/store/deletion"},
		"store/deletion":         {"byline/store/projection", "byline/store/live", "byline/store/username"},
		"store/live":             {"byline/store/projection", "byline/store/deletion", "byline/store/username"},
		"store/cosmos":           {"byline/store/blog", "byline/store/cosmos/provision"},
		"store/cosmos/itemcache": {"byline/store/blog", "byline/store/cosmos/provision"},
		"store/cosmos/session":   {"byline/store"},
		"store/changefeed":       {"byline/store/blog"},
		"store/jobs":             {"byline/store/blog"},
		"store/files":            {"byline/store/cosmos", "byline/store/projection", "byline/store/stored"},

		"store/emulator/internal/sql":    {"byline/store"},
		"store/emulator/internal/layout": {"byline"},
		"store/emulator/internal/partitionkey": {"byline/store/emulator/internal/layout",
			"byline/store/emulator/internal/index"},
	} {
		if len(all[folder]) == 0 {
			t.Errorf("%s imports nothing", folder)
		}
		for _, i := range all[folder] {
			for _, f := range append(forbidden, "byline/graph", "byline/internal/server", "byline/internal/cli") {
				if within(i, f) && !within(i, "byline/store/internal") &&
					!slices.Contains([]string{"byline/" + folder, markdown, fulltext, jsonpart}, i) {
					t.Errorf("%s imports %s", folder, i)
				}
			}
		}
	}
}

// TestImportRules_Transport: the transports know neither the blog's schema nor its resolvers, and only package graph,
// the server, and the site, whose pages are a transport, too, know the transports.
func TestImportRules_Transport(t *testing.T) {
	all := imports(t, path.Join("..", ".."))
	const transport = "byline/graph/transport"
	if len(all["graph/transport"]) == 0 {
		t.Error("graph/transport imports nothing")
	}
	for _, i := range all["graph/transport"] {
		for _, f := range []string{"generated", "model", "plan", "fields", "names", "globalid", "playground"} {
			if i == "byline/graph" || within(i, "byline/graph/"+f) {
				t.Errorf("graph/transport imports %s", i)
			}
		}
	}
	for folder, imported := range all {
		for _, i := range imported {
			if i == transport && folder != "graph" && folder != "graph/site" && folder != "internal/server" {
				t.Errorf("%s imports %s", folder, i)
			}
		}
	}
}
