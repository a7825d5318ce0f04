package graph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Paging through each list in pages of 7 during inserts returns no item twice, and all items that existed at the start.
func TestPaging_ConcurrentInserts(t *testing.T) {
	b := newBlog(t, Options{})
	const existing = 30
	for i := range 3 * existing {
		b.user(t, fmt.Sprintf("user%02d", i))
	}
	target := b.post(t, "user00", "target", "c")
	for i := range existing {
		b.post(t, "user00", fmt.Sprint("post ", i), "c")
		b.comment(t, "user01", target, fmt.Sprint("comment ", i))
		b.like(t, fmt.Sprintf("user%02d", i), target)
	}
	// Inserts at the head of a list must move no item out of later pages.
	user, post := userGlobalID(subjectID("user00")), postGlobalID(target)
	for name, tt := range map[string]struct {
		query  string // with %s for the arguments
		insert func(i int)
		items  int // that exist at the start
		under  []string
	}{
		"the feed": {`{ feed(%s) { ...P } }`,
			func(i int) { b.post(t, "user02", fmt.Sprint("feed ", i), "c") }, existing + 1, []string{"feed"}},
		"a user's posts": {`{ user(id: "` + user + `") { posts(%s) { ...P } } }`,
			func(i int) { b.post(t, "user00", fmt.Sprint("own ", i), "c") }, existing + 1, []string{"user", "posts"}},
		"comments, newest first": {`{ post(id: "` + post + `") { comments(%s) { ...C } } }`,
			func(i int) {
				b.comment(t, "user02", target, fmt.Sprint("new ", i))
			}, existing, []string{"post", "comments"}},
		"comments, oldest first": {`{ post(id: "` + post + `") { comments(order: OLDEST_FIRST, %s) { ...C } } }`,
			func(i int) {
				b.comment(t, "user02", target, fmt.Sprint("newer ", i))
			}, existing, []string{"post", "comments"}},
		"likes": {`{ node(id: "` + post + `") { ... on Post { likes(%s) { ...L } } } }`,
			func(i int) {
				b.like(t, fmt.Sprintf("user%02d", existing+i), target)
			}, existing, []string{"node", "likes"}},
	} {
		t.Run(name, func(t *testing.T) {
			initial := page(t, b, fmt.Sprintf(tt.query, "first: 100"), tt.under).ids()
			if len(initial) < tt.items {
				t.Fatalf("%d items at the start", len(initial))
			}
			var seen []string
			after := ""
			for i := 0; ; i++ {
				tt.insert(i)
				arguments := "first: 7"
				if after != "" {
					arguments += fmt.Sprintf(", after: %q", after)
				}
				p := page(t, b, fmt.Sprintf(tt.query, arguments), tt.under)
				seen = append(seen, p.ids()...)
				if !p.PageInfo.HasNextPage || i > 50 {
					break
				}
				if len(p.Edges) != 7 || p.PageInfo.EndCursor != p.Edges[6].Cursor {
					t.Fatalf("page of %d, end cursor %q", len(p.Edges), p.PageInfo.EndCursor)
				}
				after = p.PageInfo.EndCursor
			}
			sorted := slices.Sorted(slices.Values(seen))
			if len(slices.Compact(sorted)) != len(seen) {
				t.Error("an item is listed twice")
			}
			for _, id := range initial {
				if !slices.Contains(seen, id) {
					t.Errorf("%s is missing", id)
				}
			}
		})
	}
}

type connection struct {
	Edges []struct {
		Cursor string
		Node   struct{ ID string }
	}
	PageInfo struct {
		HasNextPage bool
		EndCursor   string
	}
}

func (c connection) ids() []string {
	var ids []string
	for _, e := range c.Edges {
		ids = append(ids, e.Node.ID)
	}
	return ids
}

// page sends a query and returns the connection under the given fields of the response.
func page(t *testing.T, b *testBlog, query string, under []string) connection {
	t.Helper()
	for _, f := range []struct{ name, on string }{{"P", "PostConnection"}, {"C", "CommentConnection"},
		{"L", "LikeConnection"}} {
		if strings.Contains(query, "..."+f.name+" ") {
			query += fmt.Sprintf(
				" fragment %s on %s { edges { cursor node { id } } pageInfo { hasNextPage endCursor } }", f.name, f.on)
		}
	}
	a := post(t, b, "", query, nil)
	raw := a.Data
	for _, field := range under {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil || a.code() != "" {
			t.Fatal(a.body)
		}
		raw = fields[field]
	}
	var c connection
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}
