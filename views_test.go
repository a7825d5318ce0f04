package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store"
)

func TestViews(t *testing.T) {
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")
	s.do("ada", createUser, map[string]any{"name": "ada"})
	id := at(t, s.do("ada", createPost, map[string]any{"title": "Notes", "content": "x"}), "createPost.post.id")
	s.do("ada", likePost, map[string]any{"post": id})
	eventually(t, func() error {
		if at(t, s.do("", q6, nil), "feed.edges.0.node.likeCount") != 1.0 {
			return errors.New("not yet")
		}
		return nil
	})
	s.stop()
	views := func(want int, args ...string) string {
		var out, log output
		if status := run(t.Context(), append(append([]string{"views"}, args...), "--data", data), &out, &log, nil); status != want {
			t.Fatalf("%v: status %d: %s %s", args, status, out.String(), log.String())
		}
		return out.String()
	}
	views(0, "verify")
	if out := views(0, "status"); !strings.Contains(out, "posts") || !strings.Contains(out, "users") || !strings.Contains(out, "nobody") {
		t.Errorf("status prints %s", out)
	} else {
		t.Log(out)
	}
	db, err := cosmosConfig{Data: data}.connect(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	feed, err := db.client.NewContainer("blog", "feed")
	if err != nil {
		t.Fatal(err)
	}
	r, err := feed.NewQueryItemsPager("SELECT VALUE c.id FROM c", azcosmos.NewPartitionKeyString("post"), nil).NextPage(t.Context())
	if err != nil || len(r.Items) != 1 {
		t.Fatal(err, r.Items)
	}
	if _, err := feed.DeleteItem(t.Context(), azcosmos.NewPartitionKeyString("post"), strings.Trim(string(r.Items[0]), `"`), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.close(); err != nil {
		t.Fatal(err)
	}
	if out := views(1, "verify", "--settle", "0s"); !strings.Contains(out, "feed entry") || !strings.Contains(out, "absent") {
		t.Errorf("verify prints %s", out)
	}
	var d store.Difference
	if out := views(1, "verify", "--settle", "0s", "--json"); json.Unmarshal([]byte(out), &d) != nil || d.Kind != store.FeedEntry {
		t.Errorf("verify --json prints %s", out)
	}
	views(0, "repair")
	views(0, "verify", "--settle", "0s")
}
