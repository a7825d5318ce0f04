package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"byline/internal/account"
	"byline/internal/testkit"
	"byline/store"
)

// openBlog returns a store in which ada has n posts, and ada's id.
func openBlog(t *testing.T, n int) (st *store.Store, ada string) {
	t.Helper()
	log := testkit.Logger()
	flags := account.Flags{Data: t.TempDir(), CosmosDatabase: "blog"}
	db, err := flags.Open(t.Context(), log, account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	st, err = flags.Store(db, log, store.Options{})
	if err == nil {
		err = st.Provision(t.Context())
	}
	if err == nil {
		_, err = st.CreateUser(t.Context(), store.NewUser{ID: "ada", Username: "ada"})
	}
	for i := range n {
		if err == nil {
			_, err = st.CreatePost(t.Context(),
				store.NewPost{AuthorID: "ada", Title: fmt.Sprint(i), Content: "A <b> & a \"quote\"."})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return st, "ada"
}

// exportTo exports to a file as the command does.
func exportTo(t *testing.T, st *store.Store, name, userID string) error {
	t.Helper()
	e, err := openExport(name, userID)
	if err != nil {
		return err
	}
	if !e.complete {
		err = e.all(t.Context(), st, userID, func() {})
	}
	return errors.Join(err, e.file.Close())
}

// TestExport_TornFile truncates the file of an export at any byte, as a crash may: resuming restores the same
// file.
func TestExport_TornFile(t *testing.T) {
	st, ada := openBlog(t, 3)
	file := filepath.Join(t.TempDir(), "ada.jsonl")
	if err := exportTo(t, st, file, ada); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(whole, []byte(`{"container":`)); n != 17 ||
		!bytes.HasSuffix(whole, []byte("\n{\"complete\":true,\"items\":17}\n")) {
		t.Fatalf("%d items: %s", n, whole)
	}
	for cut := range len(whole) + 1 {
		if cut > 0 && cut < len(whole) && whole[cut] != '\n' && whole[cut-1] != '\n' && cut%13 > 0 {
			continue
		}
		left := bytes.Clone(whole[:cut])
		if cut > 0 && cut < len(whole) && whole[cut-1] == '\n' { // a torn line of an item that has since been deleted
			left = append(left, `{"container":"posts","item":{"content":"`+strings.Repeat("x", len(whole))...)
		}
		if err := os.WriteFile(file, left, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := exportTo(t, st, file, ada); err != nil {
			t.Fatalf("cut at %d of %d: %v", cut, len(whole), err)
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, whole) {
			t.Fatalf("cut at %d of %d: %v\n%s", cut, len(whole), err, got)
		}
	}
}

// TestExport_ForeignFile: a file that is not an export of the user is refused and left unchanged.
func TestExport_ForeignFile(t *testing.T) {
	st, ada := openBlog(t, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "ada.jsonl")
	if err := exportTo(t, st, file, ada); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(b)
	beginning, rest, _ := strings.Cut(whole, "\n")
	interrupted := whole[:strings.LastIndex(whole, `{"complete"`)]
	for name, c := range map[string]struct{ content, want string }{
		"text":              {"Dear Ada,\n", "line 1 is not of an export"},
		"torn text":         {"Dear Ada", "the file is not an export"},
		"other JSON lines":  {`{"type":"user"}` + "\n", "line 1 is not of an export"},
		"no first position": {rest, "the file is not an export"},
		"export of another user": {strings.ReplaceAll(interrupted, `"userId":"ada"`, `"userId":"grace"`),
			"the file is an export of another user"},
		"text in the middle":   {beginning + "\nDear Ada,\n" + rest, "line 2 is not of an export"},
		"line without an item": {beginning + "\n{}\n" + rest, "line 2 is not of an export"},
		"text at the end": {interrupted + "Dear Ada,\n",
			fmt.Sprintf("line %d is not of an export", strings.Count(interrupted, "\n")+1)},
		"missing item":            {dropItem(whole), "is not of an export"},
		"torn line in the middle": {strings.Replace(whole, `,"item":`, ``, 1), "line 2 is not of an export"},
		"line after the end":      {whole + "\n", "the file has more than a complete export"},
		"unknown position": {beginning + "\n" + `{"userId":"ada","position":"somewhere"}` + "\n",
			"is not one of an export of this user"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "foreign")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := exportTo(t, st, file, ada); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if left, err := os.ReadFile(file); err != nil || string(left) != c.content {
				t.Errorf("the file is %s, want %s unchanged: %v", left, c.content, err)
			}
		})
	}
}

// dropItem removes the first item of an export.
func dropItem(whole string) string {
	from := strings.Index(whole, `{"container":`)
	return whole[:from] + whole[from+strings.Index(whole[from:], "\n")+1:]
}
