package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is what go list prints of a package.
type listed struct {
	Dir, ImportPath                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// slow reports that the tests are run last, and in their short forms.
func (p listed) slow() bool { return strings.HasSuffix(p.ImportPath, "/internal/e2e") }

// packages are the package that is mutated, and those with tests that may notice.
type packages struct {
	root  string
	path  string   // of the package
	files []string // of the package, absolute
	tests []listed // of the package, if it has some, then of those above, nearest first
}

func findPackages(folder string) (*packages, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "list", "-deps", "-json", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []listed // each after its imports
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	i := slices.IndexFunc(all, func(p listed) bool { return p.Dir == filepath.Join(root, folder) })
	if i < 0 {
		return nil, fmt.Errorf("no package in %s", folder)
	}
	found := &packages{root: root, path: all[i].ImportPath}
	for _, name := range all[i].GoFiles {
		found.files = append(found.files, filepath.Join(all[i].Dir, name))
	}
	var last []listed
	for _, p := range all {
		uses := slices.Contains(slices.Concat(p.Imports, p.TestImports, p.XTestImports), all[i].ImportPath)
		switch {
		case len(p.TestGoFiles)+len(p.XTestGoFiles) == 0:
		case p.ImportPath == all[i].ImportPath:
			found.tests = slices.Insert(found.tests, 0, p)
		case p.slow():
			last = append(last, p)
		case uses:
			found.tests = append(found.tests, p)
		}
	}
	found.tests = append(found.tests, last...)
	return found, nil
}
