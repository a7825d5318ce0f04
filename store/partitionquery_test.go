package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"byline/internal/testkit"
	"byline/store"
)

// An index covers a physical partition. So that a list does not cost in proportion to the other logical partitions,
// for which the engine does not charge, every composite index begins with the partition key, and so do WHERE and ORDER
// BY of the queries that it serves.
func TestQueries_BeginWithPartitionKey(t *testing.T) {
	w := newWorld(t)
	db, err := w.Client.NewDatabase(w.Database)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{} // properties of partition keys by container
	for _, name := range store.Containers() {
		c, err := db.NewContainer(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Read(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		path := r.ContainerProperties.PartitionKeyDefinition.Paths[0]
		indexes := r.ContainerProperties.IndexingPolicy.CompositeIndexes
		for _, index := range indexes {
			if index[0].Path != path {
				t.Errorf("%s: got the composite index %v, want one that begins with %s", name, index, path)
			}
		}
		keys[name] = path[1:]
	}

	var mu sync.Mutex
	seen := map[string]bool{} // by container and query; guarded by mu
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Header.Get("X-Ms-Documentdb-Query") == "" || r.Header.Get("X-Ms-Documentdb-Partitionkey") == "" {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var q struct{ Query string }
		if err := errors.Join(err, json.Unmarshal(body, &q)); err != nil {
			t.Error(err)
		}
		_, where, _ := strings.Cut(q.Query, " WHERE ")
		where, sort, isSorted := strings.Cut(where, " ORDER BY ")
		mu.Lock()
		defer mu.Unlock()
		_, path, _ := strings.Cut(r.URL.Path, "/colls/")
		container, _, _ := strings.Cut(path, "/")
		// others read the whole partition
		if seen[container+": "+q.Query] || !isSorted && !strings.Contains(where, "c.type ") {
			return nil
		}
		seen[container+": "+q.Query] = true
		if key := "c." + keys[container]; !strings.HasPrefix(where, key+" = @") ||
			isSorted && !strings.HasPrefix(sort, key+" ") {
			t.Errorf("%s: WHERE and ORDER BY do not begin with %s: %s", container, key, q.Query)
		}
		return nil
	})
	w.Start()
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "a")
	w.AddPost(ada, "b")
	w.Corrupt("posts", p.ID, p.ID, "/revision", 5000) // so many writes that the comments of an author are counted
	for range 3 {
		w.AddComment(ada, p, "c")
	}
	for _, u := range []string{"grace", "linus"} {
		w.AddLike(w.AddUser(u), p)
	}
	testkit.WaitFor(t, func() bool { return len(w.AllFeed()) == 2 })
	for name, list := range lists(w, ada, p) {
		_, cursors, _, err := list(t.Context(), store.Paging{First: 1})
		if err == nil {
			_, _, _, err = list(t.Context(), store.Paging{First: 1, After: cursors[0]})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.Corrupt("posts", p.ID, p.ID, "/commentCount", 9) // so that they are counted again
	if found := w.Differences(0); len(found) == 0 {
		t.Error("the verification finds no difference")
	}
	if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
		t.Fatal(err)
	}
	// Two pages of five lists; what the projection of the feed and the job read; the counts of the author's comments,
	// and of all comments and likes.
	testkit.Until(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) < 14 {
			return fmt.Errorf("got %d queries, want at least 14:\n%s", len(seen),
				strings.Join(slices.Sorted(maps.Keys(seen)), "\n"))
		}
		return nil
	})
}
