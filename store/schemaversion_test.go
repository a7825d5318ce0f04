package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/itemjson"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/jobs"
	"byline/store/projection"
	"byline/store/username"
)

// versionedItem has what these tests look at in any item.
type versionedItem struct {
	ID, Type, Kind string
	SchemaVersion  int
	Later          string
}

// items returns the items of all containers, by container and partition key and id.
func (w *world) items() map[string]versionedItem {
	w.T.Helper()
	all := map[string]versionedItem{}
	for container, key := range map[string]string{"users": "userId", "posts": "postId", "feed": "type", "leases": "id"} {
		c, err := w.Client.NewContainer(w.Database, container)
		if err != nil {
			w.T.Fatal(err)
		}
		for pager := c.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil); pager.More(); {
			page, err := pager.NextPage(w.T.Context())
			if err != nil {
				w.T.Fatal(err)
			}
			for _, raw := range page.Items {
				var item versionedItem
				var properties map[string]any
				if err := errors.Join(json.Unmarshal(raw, &item), json.Unmarshal(raw, &properties)); err != nil {
					w.T.Fatal(err)
				}
				all[strings.Join([]string{container, properties[key].(string), item.ID}, "/")] = item
			}
		}
	}
	return all
}

// typesOfItems are the types of items that Byline stores, by container, sorted.
var typesOfItems = []string{
	"feed/all.<month>", "feed/deleted summary", "feed/post", "feed/tag.go.<month>", "feed/timelines",
	"leases/job", "leases/lease",
	"posts/comment", "posts/deletedComment", "posts/deletedPost", "posts/deletedText", "posts/like", "posts/post",
	"posts/text",
	"users/deletedPost", "users/draft", "users/liked", "users/post", "users/user", "users/username",
}

// typeOf returns the name of an item's type in typesOfItems.
func typeOf(path string, item versionedItem, month, deleted string) string {
	container, _, _ := strings.Cut(path, "/")
	switch {
	case container == "leases" && item.Kind != "":
		item.Type = "job"
	case container == "leases":
		item.Type = "lease"
	case container == "feed" && item.ID == deleted:
		item.Type = "deleted summary"
	}
	return container + "/" + strings.ReplaceAll(item.Type, month, "<month>")
}

// TestSchemaVersion_EveryItem stores an item of each type, and looks at all that is stored.
func TestSchemaVersion_EveryItem(t *testing.T) {
	w := newWorld(t)
	w.Start()
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	add := func(n store.NewPost) *blog.Post {
		n.AuthorID, n.Title = ada.UserID, "title"
		p, err := w.CreatePost(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	add(store.NewPost{Content: longText(20_000), Tags: []string{"go"}})
	short, deleted := add(store.NewPost{Content: longText(20_000)}), add(store.NewPost{Content: "deleted"})
	content := "short"
	c := w.AddComment(grace, short, "comment")
	w.AddComment(grace, short, "another comment")
	w.AddLike(grace, short)
	leases, err := w.Account.Background().Container(w.Database, blog.LeasesContainer)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := jobs.New(leases, jobs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, edited := w.EditPost(t.Context(), ada.UserID, short.ID, store.PostEdit{Content: &content})
	_, removed := w.DeleteComment(t.Context(), grace.UserID, short.ID, c.ID)
	_, drafted := w.CreateDraft(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "draft", Content: "draft"})
	err = errors.Join(edited, removed, drafted, w.DeletePost(t.Context(), ada.UserID, deleted.ID),
		runner.Enqueue(t.Context(), "unknown", "x", 1))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, w.CaughtUp)
	testkit.Until(t, func() error {
		found := map[string]bool{}
		for path, item := range w.items() {
			found[typeOf(path, item, short.CreatedAt.Month(), deleted.ID)] = true
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, typesOfItems) {
			return fmt.Errorf("got types %q, want %q", got, typesOfItems)
		}
		return nil
	})
	for path, item := range w.items() {
		if item.SchemaVersion != itemjson.Version {
			t.Errorf("%s %s has the schemaVersion %d", typeOf(path, item, short.CreatedAt.Month(), deleted.ID), path,
				item.SchemaVersion)
		}
	}
}

// rewrites are writes of existing items, all of whose properties they set: whole replaces, and patches instead of them.
var rewrites = map[string]struct {
	patched bool // also of an item of a later version
	// make stores an item and returns its container, partition key and id, and what writes it again.
	make func(w *world, ada *blog.User) (container, partition, id string, write func() error)
}{
	"summary after an edit":             {make: rewriteSummary("users")},
	"summary in the feed after an edit": {make: rewriteSummary("feed")},
	"repaired summary":                  {make: repairedSummary("users", projection.Summary)},
	"repaired summary in the feed":      {make: repairedSummary("feed", projection.FeedEntry)},
	"repaired entry of a timeline": {make: func(w *world, ada *blog.User) (string, string, string, func() error) {
		p := w.AddPost(ada, "title")
		partition := blog.AllPosts.Partition(p.CreatedAt.Month())
		testkit.Until(w.T, w.CaughtUp)
		return "feed", partition, p.ID, func() error {
			w.Corrupt("feed", partition, p.ID, "/authorId", "another")
			return w.Views().Repair(w.T.Context(),
				projection.Difference{Kind: projection.TimelineEntry, Partition: partition, ID: p.ID})
		}
	}},
	"edited long text": {patched: true, make: func(w *world, ada *blog.User) (string, string, string, func() error) {
		p := w.addLong(ada, 20_000, "")
		return "posts", p.ID, blog.TextID, func() error { return w.edit(ada, p, longText(30_000)) }
	}},
	"edited text of a post that became long": {patched: true,
		make: func(w *world, ada *blog.User) (string, string, string, func() error) {
			p := w.AddPost(ada, "title")
			if err := w.edit(ada, p, longText(20_000)); err != nil {
				w.T.Fatal(err)
			}
			return "posts", p.ID, blog.TextID, func() error { return w.edit(ada, p, longText(30_000)) }
		}},
	"repaired text": {patched: true, make: func(w *world, ada *blog.User) (string, string, string, func() error) {
		p := w.addLong(ada, 20_000, "")
		return "posts", p.ID, blog.TextID, func() error {
			w.Corrupt("posts", p.ID, p.ID, "/textDigest", "")
			w.Corrupt("posts", p.ID, p.ID, "/content", longText(30_000))
			return w.Views().Repair(w.T.Context(),
				projection.Difference{Kind: projection.Text, Partition: p.ID, ID: p.ID})
		}
	}},
	"username that is left and taken again": {patched: true,
		make: func(w *world, ada *blog.User) (string, string, string, func() error) {
			k := username.Key("ada")
			return "users", k, k, func() error {
				for _, name := range []string{"countess", "ada"} {
					if _, err := w.UpdateUser(w.T.Context(), ada.UserID, store.UserEdit{Username: &name}); err != nil {
						return err
					}
				}
				return nil
			}
		}},
	"repaired username": {patched: true, make: func(w *world, ada *blog.User) (string, string, string, func() error) {
		k := username.Key("ada")
		return "users", k, k, func() error {
			w.Corrupt("users", k, k, "/ttl", 1_000_000)
			return w.Views().Repair(w.T.Context(),
				projection.Difference{Kind: projection.Username, Partition: k, ID: ada.UserID})
		}
	}},
}

func (w *world) edit(u *blog.User, p *blog.Post, content string) error {
	_, err := w.EditPost(w.T.Context(), u.UserID, p.ID, store.PostEdit{Content: &content})
	return err
}

// rewriteSummary edits a post with tags and a profile, which takes more changes than a patch has.
func rewriteSummary(container string) func(*world, *blog.User) (string, string, string, func() error) {
	return func(w *world, ada *blog.User) (string, string, string, func() error) {
		p := w.AddPost(ada, "title")
		partition := map[string]string{"users": ada.UserID, "feed": blog.FeedPartitionKeys(1)[0]}[container]
		title, tags := "another title", []string{"go"}
		return container, partition, p.ID, func() error {
			_, err := w.EditPost(w.T.Context(), ada.UserID, p.ID, store.PostEdit{Title: &title, Tags: &tags})
			return err
		}
	}
}

func repairedSummary(
	container string, kind projection.Kind,
) func(*world, *blog.User) (string, string, string, func() error) {
	return func(w *world, ada *blog.User) (string, string, string, func() error) {
		p := w.AddPost(ada, "title")
		partition := map[string]string{"users": ada.UserID, "feed": blog.FeedPartitionKeys(1)[0]}[container]
		return container, partition, p.ID, func() error {
			w.Corrupt(container, partition, p.ID, "/title", "damaged")
			return w.Views().Repair(w.T.Context(), projection.Difference{Kind: kind, Partition: partition, ID: p.ID})
		}
	}
}

// rewritten gives an item a version and a property that this version does not know, rewrites it, and returns it and the
// error.
func rewritten(t *testing.T, name string, version int) (after versionedItem, err error) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	displayName, avatar := "Ada", "https://example.org/ada.png"
	ada, err = w.UpdateUser(t.Context(), ada.UserID,
		store.UserEdit{DisplayName: store.Optional{Set: true, Value: displayName},
			AvatarURL: store.Optional{Set: true, Value: avatar}})
	if err != nil {
		t.Fatal(err)
	}
	w.Start()
	container, partition, id, write := rewrites[name].make(w, ada)
	testkit.Until(t, w.CaughtUp)
	w.Corrupt(container, partition, id, "/later", "of a later version")
	w.Corrupt(container, partition, id, "/schemaVersion", version)
	err = write()
	testkit.Until(t, w.CaughtUp)
	return w.items()[strings.Join([]string{container, partition, id}, "/")], err
}

// TestRewrites_KeepUnknownProperties writes items again that have a property which this version does not know.
func TestRewrites_KeepUnknownProperties(t *testing.T) {
	testkit.Heavy(t)
	for name := range rewrites {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				after, err := rewritten(t, name, 1)
				if after.Later == "" || after.SchemaVersion != itemjson.Version || err != nil {
					t.Errorf("got %+.300v, %v", after, err)
				}
			})
		})
	}
}

// TestRewrites_LaterVersion writes items of a later version again: patches keep the version, and an item that would be
// replaced stays as it is. The projections go on.
func TestRewrites_LaterVersion(t *testing.T) {
	testkit.Heavy(t)
	for name, tt := range rewrites {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				after, err := rewritten(t, name, 2)
				if after.Later == "" || after.SchemaVersion != 2 {
					t.Errorf("got %+.300v", after)
				}
				if repaired := strings.HasPrefix(name, "repaired"); !tt.patched && repaired &&
					(blog.CodeOf(err) != blog.Conflict || !errors.Is(err, itemjson.ErrLater)) {
					t.Errorf("got %v, want a conflict", err)
				} else if (tt.patched || !repaired) && err != nil {
					t.Error(err)
				}
			})
		})
	}
}
