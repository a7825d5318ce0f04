package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"byline/store/blog"
)

// peersVariable is the environment variable with the peers of BenchmarkCPU that `.ci/peer` has started, one a line:
// its name, which is also the name of its database, its address, its process id and that of the database server.
const peersVariable = "BYLINE_TEST_PEERS"

// startedPeers returns the peers, with the blog in their databases.
func startedPeers(b *testing.B, blog *cpuBlog) (peers []*cpuSide) {
	id := func(i int) string { return strconv.Itoa(i + 1) }
	for line := range strings.Lines(os.Getenv(peersVariable)) {
		var name, root string
		var pid, database int
		if _, err := fmt.Sscan(line, &name, &root, &pid, &database); err != nil {
			b.Fatalf("%s: %q: %v", peersVariable, line, err)
		}
		blog.copyTo(b, name)
		peer := newCPUSide(name, root, pid, id, id)
		peer.database = database
		peers = append(peers, peer)
	}
	return peers
}

// copyTo fills a database, to which psql connects by its environment variables. Ids are numbers: those of posts
// rise with their dates; those of comments and likes, with the dates of the comments and likes of a post,
// so that the rows of a post lie together.
func (b *cpuBlog) copyTo(t *testing.B, database string) {
	psql := exec.Command("psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-d", database)
	in, err := psql.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out output
	psql.Stdout, psql.Stderr = &out, &out
	if err := psql.Start(); err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(in, 1<<20)
	b.writeCopies(w)
	err = cmp.Or(w.Flush(), in.Close())
	if ended := psql.Wait(); ended != nil || err != nil {
		t.Fatalf("psql: %v %v %s", ended, err, &out)
	}
}

// writeCopies writes the blog as statements for psql.
func (b *cpuBlog) writeCopies(w io.Writer) {
	row := func(values ...any) {
		for i, value := range values {
			end := "\t"
			if i == len(values)-1 {
				end = "\n"
			}
			fmt.Fprint(w, escapeCopy.Replace(fmt.Sprint(value)), end)
		}
	}
	users, posts := map[string]int{}, map[string]int{}
	for i, id := range b.posts {
		posts[id] = i + 1
	}
	fmt.Fprintln(w, "COPY users (id, subject, username, created_at) FROM stdin;")
	for i, name := range b.users {
		user := b.User(i)
		users[user.UserID] = i + 1
		row(i+1, name, name, user.CreatedAt)
	}
	table := func(columns string, rows func(post int, number, author int)) {
		fmt.Fprintf(w, "\\.\nCOPY %s FROM stdin;\n", columns)
		for user := range b.users {
			for number := range b.PostCount(user) {
				rows(posts[b.PostID(user, number)], number, user)
			}
		}
	}
	const columns = "posts (id, author_id, title, excerpt, content, comment_count, like_count, created_at)"
	table(columns, func(post, number, author int) {
		p := b.Thread(author, number).Post
		row(post, author+1, p.Title, p.StoredExcerpt(), p.Content, p.CommentCount, p.LikeCount, p.CreatedAt)
	})
	comments, likes := 0, 0
	table("comments (id, post_id, author_id, content, created_at)", func(post, number, author int) {
		all := b.Thread(author, number).Comments
		slices.SortFunc(all, func(x, y *blog.Comment) int {
			return cmp.Or(cmp.Compare(x.CreatedAt, y.CreatedAt), cmp.Compare(x.ID, y.ID))
		})
		for _, c := range all {
			comments++
			row(comments, post, users[c.UserID], c.Content, c.CreatedAt)
		}
	})
	table("likes (id, post_id, user_id, created_at)", func(post, number, author int) {
		all := b.Thread(author, number).Likes
		slices.SortFunc(all, func(x, y *blog.Like) int {
			return cmp.Or(cmp.Compare(x.CreatedAt, y.CreatedAt), cmp.Compare(x.UserID, y.UserID))
		})
		for _, l := range all {
			likes++
			row(likes, post, users[l.UserID], l.CreatedAt)
		}
	})
	fmt.Fprintln(w, "\\.")
	fmt.Fprintf(w,
		"ALTER TABLE comments ALTER id RESTART %d;\nALTER TABLE likes ALTER id RESTART %d;\nVACUUM ANALYZE;\n",
		comments+1, likes+1)
}

// escapeCopy escapes a value of COPY.
var escapeCopy = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

// compareResponses fails unless all servers return the same responses to the reads of a pattern, or to one write.
// Ids and cursors may differ.
func compareResponses(b *testing.B, blog *cpuBlog, p cpuPattern, sides []*cpuSide) {
	if len(sides) == 1 {
		return
	}
	count := blog.different(p)
	if p.writes {
		count = 1
	}
	for n := range count {
		var first string
		for i, side := range sides {
			user, body := blog.request(p, side, n)
			var value any
			if err := json.Unmarshal(side.do(b, user, body), &value); err != nil {
				b.Fatal(err)
			}
			response, err := json.Marshal(withoutIDs(value))
			if err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				first = string(response)
			} else if string(response) != first {
				b.Fatalf("Byline responds\n%s\nand %s\n%s", first, side.name, response)
			}
		}
	}
}

// withoutIDs replaces ids and cursors in JSON with the types of their values.
func withoutIDs(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if name == "id" || name == "endCursor" {
				v[name] = fmt.Sprintf("%T", value)
			} else {
				v[name] = withoutIDs(value)
			}
		}
	case []any:
		for i, element := range v {
			v[i] = withoutIDs(element)
		}
	}
	return v
}

// cpuOfFamily returns the CPU that a process and its children have used so far, ended ones included.
func cpuOfFamily(b *testing.B, pid int) time.Duration {
	took := cpuOf(b, pid) + cpuOfEnded(b, pid)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(threads) == 0 {
		b.Fatalf("process %d has ended, or the kernel names no children", pid)
	}
	for _, name := range threads {
		children, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for _, text := range strings.Fields(string(children)) {
			var child int
			if _, err := fmt.Sscan(text, &child); err != nil {
				b.Fatalf("%s: %q", name, children)
			}
			if used, err := cpuClock(child); err == nil { // it may have ended
				took += used
			}
		}
	}
	return took
}

// cpuOfEnded returns the CPU of the ended children of a process, in steps of 10 ms.
func cpuOfEnded(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the third on
	var user, system int64
	if _, err := fmt.Sscan(fields[16-3]+" "+fields[17-3], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
