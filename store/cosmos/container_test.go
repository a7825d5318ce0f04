package cosmos

import (
	"fmt"
	"net/http"
	"testing"

	"byline/internal/testkit"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// Another Account resumes a query of all partitions at its continuation, although items returned before no
// longer match.
func TestQueryPage_Continues(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		on := cosmostest.Open(t, emulator.Options{Partitions: 3})
		on.CreateContainer(t, "posts", "/postId")
		open := func() *Container {
			account, err := Open(options(on))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(account.Close)
			c, err := account.Container(on.Database, "posts")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		posts := open()
		const items = 25
		for i := range items {
			id := fmt.Sprint("item-", i)
			if err := posts.Create(t.Context(), id,
				fmt.Appendf(nil, `{"id":%q,"postId":%q,"name":"old"}`, id, id)); err != nil {
				t.Fatal(err)
			}
		}
		other := open()
		testkit.WaitFor(t, func() bool { // replicas of an account may lag
			visible := 0
			for page, err := range other.Query(t.Context(),
				Query{Text: "SELECT VALUE c.id FROM c", AllPartitions: true}) {
				if err != nil {
					t.Fatal(err)
				}
				visible += len(page)
			}
			return visible == items
		})
		q := Query{Text: "SELECT VALUE c.id FROM c WHERE c.name != @name", AllPartitions: true,
			PageSize: 4}.With("@name", "new")
		found := map[string]bool{}
		for {
			page, next, err := posts.QueryPage(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, raw := range page {
				id := string(raw[1 : len(raw)-1])
				if found[id] {
					t.Errorf("%s is returned twice", id)
				}
				found[id] = true
				var p Patch
				p.Set("/name", "new")
				if _, err := posts.Patch(t.Context(), Key{id, id}, p); err != nil {
					t.Fatal(err)
				}
			}
			if next == "" {
				break
			}
			q.Continuation, posts = next, open()
		}
		if len(found) != items {
			t.Errorf("got %d items, want %d", len(found), items)
		}
		q.Continuation = "of another query"
		if _, _, err := posts.QueryPage(t.Context(), q); !HasStatus(err, http.StatusBadRequest) {
			t.Errorf("invalid continuation: got %v, want status 400", err)
		}
	})
}
