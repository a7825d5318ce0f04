package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// exported counts the items of an export or of containers, by container and JSON.
type exported map[string]int

func (e exported) add(container string, item []byte) {
	var properties map[string]any
	if err := json.Unmarshal(item, &properties); err != nil {
		panic(err)
	}
	text, err := json.Marshal(properties) // sorted
	if err != nil {
		panic(err)
	}
	e[container+" "+string(text)]++
}

// export reads an export from a position to its end.
func export(t testing.TB, s *store.Store, userID, position string) (all exported, positions []string) {
	t.Helper()
	all = exported{}
	for page, err := range s.Export(t.Context(), userID, position) {
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			all.add(page.Container, item)
		}
		positions = append(positions, page.Position)
	}
	return all, positions
}

// mentioning reads all containers and returns the items with a text in them, without system properties.
func mentioning(w *storetest.World, text string) exported {
	w.T.Helper()
	all := exported{}
	for _, name := range []string{"users", "posts", "feed", "search", "leases"} {
		c, err := w.Client.NewContainer(w.Database, name)
		if err != nil {
			w.T.Fatal(err)
		}
		for pager := c.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil); pager.More(); {
			page, err := pager.NextPage(w.T.Context())
			if err != nil {
				w.T.Fatal(err)
			}
			for _, raw := range page.Items {
				if !strings.Contains(string(raw), text) {
					continue
				}
				var properties map[string]any
				if err := json.Unmarshal(raw, &properties); err != nil {
					w.T.Fatal(err)
				}
				if properties["type"] == blog.TypeFollower && properties["userId"] == text {
					delete(properties, "follower") // the byline of another user
				}
				for _, system := range []string{"_rid", "_self", "_etag", "_attachments"} {
					delete(properties, system)
				}
				item, err := json.Marshal(properties)
				if err != nil {
					w.T.Fatal(err)
				}
				all.add(name, item)
			}
		}
	}
	return all
}

// An export has all items of all containers that contain the user's id.
func TestExport_AllItems(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := storetest.NewWith(t, store.Options{FeedPartitions: 2, PollInterval: time.Millisecond})
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		stop := w.Start()
		notes, gone, theirs := w.AddPost(ada, "Notes <&> \u2028"), w.AddPost(ada, "Deleted"),
			w.AddPost(grace, "Compilers")
		_, err := w.CreatePost(t.Context(),
			store.NewPost{AuthorID: ada.UserID, Title: "Long", Content: strings.Repeat("text ", 2_000)})
		must(err)
		w.AddComment(ada, notes, "mine on mine")
		w.AddComment(ada, theirs, "mine on theirs")
		w.AddComment(grace, notes, "theirs on mine")
		w.AddLike(ada, theirs)
		w.AddLike(grace, notes)
		for _, follow := range [][2]*blog.User{{ada, grace}, {grace, ada}} {
			_, err = w.FollowUser(t.Context(), follow[0].UserID, follow[1].UserID)
			must(err)
		}
		must(w.DeletePost(t.Context(), ada.UserID, gone.ID))
		_, err = w.DeleteComment(t.Context(), ada.UserID, theirs.ID, w.AddComment(ada, theirs, "deleted").ID)
		must(err)
		_, err = w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Countess")})
		must(err)
		testkit.Until(t, w.CaughtUp)
		// possibly before the job of the rename has ended
		stop()
		// of a crashed rename
		w.Upsert("users", "username:left",
			fmt.Sprintf(`{"id":"username:left","userId":"username:left","type":"username","ownerId":%q}`, ada.UserID))
		w.Upsert("leases", "test."+ada.UserID,
			fmt.Sprintf(`{"id":"test.%s","kind":"test","subject":%[1]q}`, ada.UserID))

		got, positions := export(t, w.Store, ada.UserID, "")
		want := mentioning(w, ada.UserID)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-stored +exported):\n%s", diff)
		}
		kinds := map[string]int{}
		for item := range got {
			container, text, _ := strings.Cut(item, " ")
			var e struct {
				Type    string
				Deleted bool
			}
			must(json.Unmarshal([]byte(text), &e))
			if e.Deleted {
				e.Type += ", deleted"
			}
			if container != "leases" { // the number of jobs varies
				kinds[container+" "+e.Type]++
			}
		}
		if entries := kinds["feed all.2026-03"]; entries < 2 {
			t.Errorf("%d entries in timelines", entries)
		}
		delete(kinds, "feed all.2026-03") // that of the deleted post may be left
		if diff := cmp.Diff(map[string]int{"users user": 1, "users username": 3, "users post": 2,
			"users follower": 2, "users following": 2, "users liked": 1,
			"users deletedPost, deleted": 1,
			"feed post.0":                2, "feed post.1": 2, "feed post.0, deleted": 1, "feed post.1, deleted": 1,
			"posts post": 2, "posts text": 1, "posts deletedPost, deleted": 1, "posts comment": 2,
			"posts deletedComment, deleted": 1, "posts like": 1, "search post": 2}, kinds); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if last := positions[len(positions)-1]; last != "end" {
			t.Errorf("got the last position %q, want end", last)
		}
	})
}

// importComments imports a blog of grace in which ada has written n comments on each of two posts.
func importComments(t testing.TB, s *store.Store, ada string, n int) (posts []*blog.Post) {
	t.Helper()
	grace := &blog.User{Byline: blog.Byline{UserID: blog.UserID("test", "grace"), Username: "grace"},
		CreatedAt: blog.NewDate(storetest.Epoch()), Revision: 1}
	err := s.Import(t.Context(), grace, func(yield func(store.Thread) bool) {
		for i := range 2 {
			p := &blog.Post{ID: fmt.Sprint("post", i), Byline: blog.Byline{UserID: grace.UserID, Username: "grace"},
				Title: "Compilers", Content: "x", CommentCount: int32(n), CreatedAt: grace.CreatedAt, Version: 1,
				Revision: 1}
			thread := store.Thread{Post: p}
			for j := range n {
				thread.Comments = append(thread.Comments,
					&blog.Comment{ID: fmt.Sprintf("comment%d-%d", i, j), PostID: p.ID,
						Byline: blog.Byline{UserID: ada, Username: "ada"}, Content: "x", CreatedAt: grace.CreatedAt})
			}
			if posts = append(posts, p); !yield(thread) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return posts
}

// While another process exports from replicas that lag, items are created, edited and deleted, and partitions
// are split: unchanged items are exported once, and none twice.
func TestExport_ChangingUser(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas")
	cosmostest.Run(t, func(t *testing.T) {
		const lag, n = 2 * time.Second, 200
		a := cosmostest.Open(t, emulator.Options{ReplicaLag: lag, Partitions: 4})
		writer, exporter := newInstance(t, a), newInstance(t, a)
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(nil, writer.Provision(t.Context()))
		ada, err := writer.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"})
		must(nil, err)
		posts := importComments(t, writer.Store, ada.UserID, n)
		testkit.Advance(2 * lag)

		must(writer.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Countess")}))
		if id, err := exporter.UserIDOf(t.Context(), "ada"); id != ada.UserID || err != nil {
			t.Errorf("before the replicas have the new name: %q, %v", id, err)
		}
		testkit.Advance(2 * lag)
		for _, name := range []string{"countess", "ADA"} {
			if id, err := exporter.UserIDOf(t.Context(), name); id != ada.UserID || err != nil {
				t.Errorf("%s: %q, %v", name, id, err)
			}
		}

		exported, touched, position, pages := map[string]int{}, map[string]bool{}, "", 0
		for position != "end" {
			for page, err := range exporter.Export(t.Context(), ada.UserID, position) {
				must(nil, err)
				for _, raw := range page.Items {
					var item struct{ ID, PostID string }
					must(nil, json.Unmarshal(raw, &item))
					exported[page.Container+" "+item.PostID+" "+item.ID]++
				}
				position = page.Position
				pages++
				break // resume with another query for each page, as another process would
			}
			if pages == 10 || pages == 15 {
				must(nil, a.Engine.Split(a.Database, blog.PostsContainer, fmt.Sprint(pages/5)))
			}
			for i, p := range posts {
				if 10*pages >= n {
					break
				}
				id := fmt.Sprintf("comment%d-%d", i, 10*pages)
				must(writer.EditComment(t.Context(), ada.UserID, p.ID, id, fmt.Sprint("edited ", pages)))
				touched[id] = true
				id = fmt.Sprintf("comment%d-%d", i, 10*pages+7)
				must(writer.DeleteComment(t.Context(), ada.UserID, p.ID, id))
				touched[id] = true
				_, _, err := writer.CreateComment(t.Context(),
					store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "new"})
				must(nil, err)
			}
			testkit.Advance(lag / 2)
		}
		for i, p := range posts {
			for j := range n {
				id := fmt.Sprintf("comment%d-%d", i, j)
				if times := exported["posts "+p.ID+" "+id]; times != 1 && !touched[id] {
					t.Errorf("comment %s is exported %d times", id, times)
				}
			}
		}
		for id, times := range exported {
			if times > 1 {
				t.Errorf("%s is exported %d times", id, times)
			}
		}
		t.Logf("%d pages, %d items, %d touched", pages, len(exported), len(touched))
		if pages < 8 || len(touched) < 10 {
			t.Error("too few pages or changes for the test")
		}
	})
}

// An export resumes from each of its positions, and rejects others.
func TestExport_Positions(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := storetest.New(t)
		ada := w.AddUser("ada")
		importComments(t, w.Store, ada.UserID, 250)
		whole, positions := export(t, w.Store, ada.UserID, "")
		if len(positions) < 8 || len(whole) != 502 {
			t.Fatalf("%d pages, %d items", len(positions), len(whole))
		}
		before, i := exported{}, 0
		for page, err := range w.Export(t.Context(), ada.UserID, "") {
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				before.add(page.Container, item)
			}
			rest, _ := export(t, w.Store, ada.UserID, page.Position)
			for item, n := range before {
				rest[item] += n
			}
			if i++; !maps.Equal(rest, whole) {
				t.Errorf("interrupted after page %d: %d of %d items, or some twice", i, len(rest), len(whole))
			}
		}
		var posts string
		for _, p := range positions {
			if strings.HasPrefix(p, "posts:") {
				posts = p
			}
		}
		for name, c := range map[string]struct{ user, position string }{
			"unknown part":          {ada.UserID, "unknown"},
			"unknown part, token":   {ada.UserID, "unknown:" + posts},
			"changed token":         {ada.UserID, posts + "x"},
			"token of another part": {ada.UserID, "feed" + strings.TrimPrefix(posts, "posts")},
			"another user":          {blog.UserID("test", "grace"), posts},
			"beyond the end":        {ada.UserID, "end:"},
		} {
			for page, err := range w.Export(t.Context(), c.user, c.position) {
				if len(page.Items) > 0 {
					t.Errorf("%s: %d items", name, len(page.Items))
				}
				storetest.WantCode(t, err, blog.Invalid, "position")
			}
		}
	})
}

// Every request of an export has low priority and waits while throttled.
func TestExport_Background(t *testing.T) {
	cosmostest.NeedsEngine(t, "its faults")
	cosmostest.Run(t, func(t *testing.T) {
		w := storetest.New(t)
		ada := w.AddUser("ada")
		refused := 0
		w.Inject(func(o faulttest.Operation) faulttest.Response {
			if refused++; refused%4 != 0 {
				return faulttest.Response{Status: http.StatusTooManyRequests}
			}
			return faulttest.Response{}
		})
		requests := 0
		w.Wire.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/docs") {
				if requests++; r.Header.Get("x-ms-cosmos-priority-level") != "Low" {
					t.Errorf("%s %s does not have low priority", r.Method, r.URL)
				}
			}
			return nil
		})
		id, err := w.UserIDOf(t.Context(), "ada")
		if err != nil || id != ada.UserID {
			t.Fatal(id, err)
		}
		if all, _ := export(t, w.Store, id, ""); len(all) != 2 || requests < 4*7 {
			t.Errorf("got %d items by %d requests, want 2 by at least 28", len(all), requests)
		}
	})
}

// UserIDOf returns "" for names without a user, and the id of a user being deleted.
func TestUserIDOf_NotAUser(t *testing.T) {
	w := storetest.New(t)
	w.AddUser("ada")
	deleted := w.AddUser("deleted")
	w.Corrupt("users", deleted.UserID, deleted.UserID, "/deleted", true)
	w.Upsert("users", "username:crashed",
		`{"id":"username:crashed","userId":"username:crashed","type":"username","ownerId":"unknown"}`)
	ids := map[string]string{}
	for _, name := range []string{"grace", "crashed", "", "o'neil", "deleted"} {
		id, err := w.UserIDOf(t.Context(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ids[name] = id
	}
	if diff := cmp.Diff(map[string]string{"grace": "", "crashed": "", "": "", "o'neil": "", "deleted": deleted.UserID},
		ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
