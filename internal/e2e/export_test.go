package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"byline/internal/account"
	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
)

// exportedItems returns the lines of an export that are items, and whether it is complete.
func exportedItems(t *testing.T, text string) (items []string, complete bool) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l struct {
			Item     json.RawMessage
			Complete bool
			Items    int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if l.Item != nil {
			items = append(items, line)
		}
		if complete = l.Complete; complete && l.Items != len(items) {
			t.Errorf("%d items of %d", len(items), l.Items)
		}
	}
	return items, complete
}

func TestExport(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	grace := at(t, s.Do("grace", createUser, map[string]any{"name": "grace"}), "createUser.user.id")
	post := at(t, s.Do("ada", createPost, map[string]any{"title": "Notes", "content": strings.Repeat("long ", 2_000)}),
		"createPost.post.id")
	s.Do("ada", createComment, map[string]any{"post": post, "content": "by ada"})
	s.Do("grace", createComment, map[string]any{"post": post, "content": "by grace"})
	s.Do("ada", `mutation($post: ID!, $author: ID!) { likePost(input: {postId: $post}) { post { id } }
		bookmarkPost(input: {id: $post}) { post { id } } followUser(input: {id: $author}) { user { id } } }`,
		map[string]any{"post": post, "author": grace})
	s.Do("ada", updateUser, map[string]any{"name": "Countess"})
	s.Stop()
	export := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, log output
		if status := run(t.Context(), append([]string{"export", "--data", data, "--user"}, args...), &out, &log,
			nil); status != want {
			t.Fatalf("%v: status %d: %s %s", args, status, out.String(), log.String())
		}
		return out.String(), log.String()
	}
	stdout, _ := export(0, "Countess")
	items, complete := exportedItems(t, stdout)
	// The server may have stopped before it has created the entry of the post in the timeline.
	isEntry := func(item string) bool { return strings.Contains(item, `"type":"all.`) }
	all := strings.Join(slices.DeleteFunc(slices.Clone(items), isEntry), "")
	for what, want := range map[string]int{`"type":"user"`: 1, `"type":"username"`: 2, `"type":"text"`: 1,
		`"type":"bookmark"`: 1, `"type":"follower"`: 1, `"container":"posts"`: 4, `"container":"feed"`: 1, "by ada": 1, "by grace": 0, "_etag": 0} {
		if n := strings.Count(all, what); n != want {
			t.Errorf("%s occurs %d times, want %d", what, n, want)
		}
	}
	if !complete {
		t.Errorf("stdout is not complete: %s", stdout)
	}
	if former, _ := export(0, "ADA"); former != stdout {
		t.Errorf("by the former name: %s", former)
	}
	file := filepath.Join(t.TempDir(), "ada.jsonl")
	if stdout, _ := export(0, "Countess", "--to", file); stdout != "" {
		t.Errorf("with --to: %s", stdout)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if inFile, complete := exportedItems(t, string(written)); !complete || !slices.Equal(inFile, items) {
		t.Errorf("the file has %s", written)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if _, log := export(0, "Countess", "--to", file); !strings.Contains(log, "complete already") {
		t.Errorf("again: %s", log)
	}
	for want, args := range map[string][]string{
		`--user "nobody": no user has this name`: {"nobody"},
		"export of another user":                 {"grace", "--to", file},
		"not of an export":                       {"grace", "--to", filepath.Join(data, "../foreign")},
		"no such file or directory":              {"grace", "--to", filepath.Join(data, "missing/file")},
		"--background-ru must be at least 0":     {"grace", "--background-ru=-1"},
	} {
		if err := os.WriteFile(filepath.Join(data, "../foreign"), []byte("Dear Ada,\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if stdout, log := export(1, args...); stdout != "" || !strings.Contains(log, want) ||
			strings.Count(log, "\n") != 1 {
			t.Errorf("%s: %s %s", want, stdout, log)
		}
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(written) {
		t.Errorf("%v: the file has changed: %s", err, again)
	}
	missing := filepath.Join(data, "missing")
	var log output
	if status := run(t.Context(), []string{"export", "--user", "ada", "--data", missing}, io.Discard, &log,
		nil); status != 1 || !strings.Contains(log.String(), "no such file") {
		t.Errorf("no data: status %d: %s", status, &log)
	}
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// exportAccount is an emulator with a user, ada, who has written many comments. It can stop an export at a query.
type exportAccount struct {
	url     string
	queries atomic.Int64  // number of the next query without a response; negative: every query gets one
	stopped chan struct{} // receives when a query gets no response
}

func newExportAccount(t *testing.T, comments int) *exportAccount {
	t.Helper()
	engine, err := emulator.Open(t.TempDir(), emulator.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	a := &exportAccount{stopped: make(chan struct{})}
	a.queries.Store(-1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") == "application/query+json" && a.queries.Add(-1) == 0 {
			_, _ = io.Copy(io.Discard, r.Body) // the server sees the end of the connection only after the body
			a.stopped <- struct{}{}
			<-r.Context().Done()
			return
		}
		engine.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	a.url = server.URL
	c := account.Flags{CosmosEndpoint: a.url, CosmosDatabase: "blog"}
	db, err := c.Open(t.Context(), slog.New(slog.DiscardHandler), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := c.Store(db, slog.New(slog.DiscardHandler), store.Options{})
	if err == nil {
		err = st.Provision(t.Context())
	}
	if err == nil {
		_, err = st.CreateUser(t.Context(), store.NewUser{ID: "ada", Username: "ada"})
	}
	if err == nil {
		post := &blog.Post{ID: "post", Byline: blog.Byline{UserID: "grace", Username: "grace"}, Title: "Compilers",
			Content: "x", CommentCount: int32(comments), CreatedAt: "2026-03-01T00:00:00.000Z", Version: 1, Revision: 1}
		err = st.Import(t.Context(),
			&blog.User{Byline: blog.Byline{UserID: "grace", Username: "grace"}, CreatedAt: post.CreatedAt,
				Revision: 1}, func(yield func(store.Thread) bool) {
				thread := store.Thread{Post: post}
				for i := range comments {
					thread.Comments = append(thread.Comments,
						&blog.Comment{ID: fmt.Sprint("comment", i), PostID: post.ID,
							Byline: blog.Byline{UserID: "ada", Username: "ada"}, Content: "x",
							CreatedAt: post.CreatedAt})
				}
				yield(thread)
			})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestExport_Killed kills an export repeatedly: resumed, it has the same items as an uninterrupted one.
func TestExport_Killed(t *testing.T) {
	testkit.Heavy(t)
	t.Parallel()
	a := newExportAccount(t, 650)
	var stdout, log output
	began := time.Now()
	if status := run(t.Context(),
		[]string{"export", "--cosmos-endpoint", a.url, "--user", "ada", "--background-ru", "20"}, &stdout, &log,
		nil); status != 0 {
		t.Fatalf("status %d: %s", status, &log)
	}
	if took := time.Since(began); took < 500*time.Millisecond { // 40 RU, of which the first 20 are available at once
		t.Errorf("with 20 RU a second it took %v", took)
	}
	want, _ := exportedItems(t, stdout.String())
	if len(want) != 652 {
		t.Fatalf("%d items", len(want))
	}
	file := filepath.Join(t.TempDir(), "ada.jsonl")
	kills := 0
	for before := int64(-1); ; kills++ {
		a.queries.Store(3)
		var log output
		cmd := servertest.Command("export", "--cosmos-endpoint", a.url, "--user", "ada", "--to", file)
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := &process{Cmd: cmd}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %s", err, &log)
			}
		case <-a.stopped:
			_ = p.Cmd.Process.Kill()
			<-ended
			written, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if size := int64(len(written)); size <= before {
				t.Fatalf("after %d kills the file still has %d bytes", kills, before)
			} else if before = size; kills%2 == 1 { // in the middle of a write
				if err := os.Truncate(file, size-size%50-1); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		break
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, complete := exportedItems(t, string(written))
	if !complete || !slices.Equal(got, want) {
		t.Errorf("complete: %v, %d items; uninterrupted %d; equal: %v", complete, len(got), len(want),
			slices.Equal(got, want))
	}
	t.Logf("killed %d times", kills)
	if kills < 4 {
		t.Error("fewer than 4 kills")
	}
}

// TestExport_Interrupted: a signal ends an export with status 1 and a hint how to resume.
func TestExport_Interrupted(t *testing.T) {
	t.Parallel()
	a := newExportAccount(t, 200)
	for want, to := range map[string][]string{
		"byline: interrupted: the export is incomplete\n": nil,
		"byline: interrupted: run it again to resume\n":   {"--to", filepath.Join(t.TempDir(), "ada.jsonl")},
	} {
		a.queries.Store(4)
		ctx, interrupt := context.WithCancel(t.Context())
		go func() { <-a.stopped; interrupt() }()
		var stdout, log output
		status := run(ctx, append([]string{"export", "--cosmos-endpoint", a.url, "--user", "ada"}, to...), &stdout,
			&log, nil)
		if _, complete := exportedItems(t, stdout.String()); status != 1 || !strings.HasSuffix(log.String(), want) ||
			complete {
			t.Errorf("status %d: %s", status, &log)
		}
	}
}

// TestExport_BrokenPipe: the process ends by SIGPIPE, without a message, when the reader of its output closes.
func TestExport_BrokenPipe(t *testing.T) {
	t.Parallel()
	a := newExportAccount(t, 3_000) // more than a pipe holds
	var log output
	cmd := servertest.Command("export", "--cosmos-endpoint", a.url, "--user", "ada")
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	out.Close()
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGPIPE ||
		strings.Contains(log.String(), "byline:") {
		t.Errorf("%v: %s", cmd.ProcessState, &log)
	}
}
