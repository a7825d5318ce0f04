package e2e

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/store/blog"
)

// roots are the URLs of the instances.
func (w *attackedBlog) roots() (roots []string) {
	for _, p := range w.instances {
		roots = append(roots, p.Root)
	}
	return roots
}

// flood sends operations of a viewer over several connections to each instance until ctx ends, at least a few over
// each. It returns the number of responses by code.
func (w *attackedBlog) flood(
	t *testing.T, ctx context.Context, token, session string, operations ...operation,
) map[string]int {
	t.Helper()
	end := attack{Roots: w.roots(), Token: token, Session: session, Operations: operations}.start(t)
	<-ctx.Done()
	codes := end().Codes
	t.Logf("%v", codes)
	return codes
}

// outcomeOf counts the operations that were accepted, and those refused with UNAVAILABLE or a code of limits. Any other
// code fails the test.
func outcomeOf(t *testing.T, codes map[string]int, limits ...string) (o outcome) {
	t.Helper()
	for code, n := range codes {
		switch {
		case code == "":
			o.accepted += n
		case slices.Contains(limits, code), code == "UNAVAILABLE": // overloaded
			o.refused += n
		default:
			t.Errorf("%d operations: %s", n, code)
		}
	}
	return o
}

// renames toggles the case of a name that is on many comments.
func (w *attackedBlog) renames(t *testing.T, ctx context.Context) outcome {
	token := w.provider.token(t, "renamer")
	var toggles []operation
	for _, name := range []string{"Renamer", "rENAMER", "RENAMER"} {
		toggles = append(toggles, operation{updateUser, map[string]any{"name": name}})
	}
	codes := w.flood(t, ctx, token, "", toggles...)
	o := outcomeOf(t, codes, "LIMIT_REACHED", "THROTTLED", "CONFLICT")
	u, err := w.store.User(t.Context(), blog.UserID(w.provider.URL, "renamer"))
	if err != nil {
		t.Fatal(err)
	}
	o.accepted = int(u.Revision - 1) // setting the current name again is not a rename
	if o.accepted != renamesADay {
		t.Errorf("%d renames, want %d", o.accepted, renamesADay)
	}
	o.renamed = renamesADay * sweptRU * float64(renamersComments)
	w.awaitSweeps(t, u.Username)
	return o
}

// awaitSweeps waits until the renamer's last comment has the name and no job is left. One instance executes the
// job, at most twice: the last rename may arrive during the first execution.
func (w *attackedBlog) awaitSweeps(t *testing.T, name string) {
	t.Helper()
	limit := time.Minute + time.Duration(2*sweptRU*float64(renamersComments)/jobsRU*float64(time.Second))
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for began := time.Now(); ; <-again.C {
		r, err := w.send(context.WithoutCancel(t.Context()), 0, "", "",
			`query($id: ID!) { node(id: $id) { ... on Comment { author { username } } } }`,
			map[string]any{"id": w.comment})
		if err != nil {
			t.Fatal(err)
		}
		jobs := 0.0
		for _, p := range w.instances {
			all, err := scrape(p.Root)
			if err != nil {
				t.Fatal(err)
			}
			n, _ := total(all, "byline_jobs", nil)
			jobs += n
		}
		have := find(r.Data, "node.author.username")
		if have == name && jobs == 0 {
			return
		}
		if time.Since(began) > limit {
			t.Fatalf("after %v the name is %v, want %s; %.0f jobs", limit, have, name, jobs)
		}
	}
}

// toggles likes and unlikes the longest post.
func (w *attackedBlog) toggles(t *testing.T, ctx context.Context) outcome {
	token := w.attacker(t, "toggler")
	var query strings.Builder
	for i := range 10 {
		fmt.Fprintf(&query,
			`l%d: likePost(input: {postId: %q}) { post { id } } u%[1]d: unlikePost(input: {postId: %[2]q}) { post { id } } `, i, w.longest)
	}
	// Batches that meet on one post conflict.
	return outcomeOf(t, w.flood(t, ctx, token, "", operation{Query: "mutation { " + query.String() + "}"}),
		"THROTTLED", "CONFLICT")
}

// attacker creates a user and returns their token.
func (w *attackedBlog) attacker(t *testing.T, name string) (token string) {
	t.Helper()
	token = w.provider.token(t, name)
	w.must(t, token, createUser, map[string]any{"name": name})
	return token
}

// sessions reads a hundred posts at a time with a session token whose LSNs no replica will ever reach.
func (w *attackedBlog) sessions(t *testing.T, ctx context.Context) outcome {
	token := w.attacker(t, "crafter")
	// a post in the range that is read
	r, err := w.send(t.Context(), 0, token, "", likePost, map[string]any{"post": w.posts[0]})
	if err != nil || r.session == "" {
		t.Fatalf("no session: %v %v", err, r.Errors)
	}
	var query strings.Builder
	query.WriteString("{")
	for i := range 100 {
		fmt.Fprintf(&query, ` p%d: post(id: %q) { title author { username } }`, i, w.posts[i])
	}
	query.WriteString("}")
	crafted := craftSession(t, r.session)
	before := w.metric(t, "byline_session_invalid_total")
	o := outcomeOf(t, w.flood(t, ctx, token, crafted, operation{Query: query.String()}), "THROTTLED")
	ignored := int(w.metric(t, "byline_session_invalid_total") - before)
	if ignored < o.accepted {
		t.Errorf("%d crafted sessions were ignored, of %d", ignored, o.accepted)
	}
	o.refused += ignored
	return o
}

// craftSession raises each LSN of a session token to 2^60, which makes its MAC invalid.
func craftSession(t *testing.T, token string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	const mac, note = 16, 0xff
	crafted, rest, signature := b[:1:1], b[1:len(b)-mac], b[len(b)-mac:]
	uvarint := func() uint64 {
		x, n := binary.Uvarint(rest)
		rest = rest[n:]
		return x
	}
	raised := 0
	for len(rest) > 0 && rest[0] != note {
		crafted, rest = append(crafted, rest[:5]...), rest[5:]
		ranges := uvarint()
		crafted = binary.AppendUvarint(crafted, ranges)
		for range ranges {
			crafted = binary.AppendUvarint(crafted, uvarint()) // id
			crafted = binary.AppendUvarint(crafted, uvarint()) // version
			_, regions := uvarint(), uvarint()
			crafted = binary.AppendUvarint(binary.AppendVarint(crafted, 1<<60), regions)
			for range regions {
				crafted = binary.AppendUvarint(crafted, uvarint())
				_ = uvarint()
				crafted = binary.AppendVarint(crafted, 1<<60)
			}
			raised++
		}
	}
	if raised == 0 {
		t.Fatal("the session has no ranges")
	}
	return base64.RawURLEncoding.EncodeToString(slices.Concat(crafted, rest, signature))
}

// comments writes comments on a post that has nearly as many as the limit.
func (w *attackedBlog) comments(t *testing.T, ctx context.Context) outcome {
	token := w.provider.token(t, "commenter")
	var query strings.Builder
	for i := range 10 {
		fmt.Fprintf(&query, `c%d: createComment(input: {postId: %q, content: "again and again"}) { comment { id } } `,
			i, w.commented)
	}
	codes := w.flood(t, ctx, token, "", operation{Query: "mutation { " + query.String() + "}"})
	o := outcomeOf(t, codes, "THROTTLED", "LIMIT_REACHED", "CONFLICT")
	post, err := w.store.Post(t.Context(), commentedPost)
	if err != nil {
		t.Fatal(err)
	}
	o.accepted = int(post.CommentCount) - renamersComments - commentersSeeded
	if limit := maxCommented - commentersSeeded + attackInstances*(uncounted+attackConns); o.accepted > limit {
		t.Errorf("%d comments of a viewer on a post; want at most %d", commentersSeeded+o.accepted,
			commentersSeeded+limit)
	}
	if codes["LIMIT_REACHED"] == 0 {
		t.Error("the limit of comments was not reached")
	}
	return o
}

// subscriptions opens the maximum number of subscriptions of a viewer, and publishes posts of 99 KB.
func (w *attackedBlog) subscriptions(t *testing.T, _ context.Context) outcome {
	const perConn, expensive = 100, 20
	a := attack{Roots: w.roots(), Token: w.attacker(t, "subscriber"),
		Subscriptions: make([][]string, openSubscriptions/perConn)}
	for i := range a.Subscriptions {
		a.Subscriptions[i] = slices.Repeat(
			[]string{`subscription { postPublished { id title content author { username } } }`}, perConn)
		if i < attackInstances {
			for n := range expensive {
				a.Subscriptions[i][n] = w.expensiveEvents(i*expensive + n)
			}
		}
	}
	end := a.start(t)
	eventually(t, func() error {
		// the expensive ones count twice
		if open := w.metric(t, "byline_subscribers"); open < 0.9*attackInstances*maxSubscribed {
			return fmt.Errorf("%.0f subscriptions are open", open)
		}
		return nil
	})
	long := map[string]any{"title": "long", "content": strings.Repeat("x", 99_000)}
	for range 3 {
		w.must(t, w.publisher, createPost, long)
	}
	const comments = 20
	tick := time.NewTicker(attackedFor / comments)
	defer tick.Stop()
	for n := range comments {
		w.sendOther(t, n%attackInstances, w.others[n%len(w.others)], createComment,
			map[string]any{"post": w.commented, "content": "for the subscribers"})
		<-tick.C
	}
	open := w.metric(t, "byline_subscribers")
	if open > attackInstances*maxSubscribed || open == 0 {
		t.Errorf("%.0f subscriptions of a viewer are open", open)
	}
	r := end()
	t.Logf("%d subscriptions requested, %.0f open, %d refused, %d events", r.Subscribed, open, r.Refused, r.Delivered)
	if r.Delivered == 0 {
		t.Error("no event was delivered: the attack is too weak")
	}
	return outcome{accepted: int(open), refused: int(r.Refused)}
}

// expensiveEvents returns a subscription whose events read pages that the events of other numbers do not read.
func (w *attackedBlog) expensiveEvents(number int) string {
	var query strings.Builder
	fmt.Fprintf(&query, `subscription { commentAdded(postId: %q) { post {`, w.commented)
	const pages = 10
	for i := range pages {
		fmt.Fprintf(&query, ` p%d: comments(first: 20, after: %q) { edges { node { id } } }`, i,
			w.cursors[number*pages+i])
	}
	query.WriteString(" } } }")
	return query.String()
}
