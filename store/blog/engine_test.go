package blog_test

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

func TestFastPath_PagesOfTheEngine(t *testing.T) {
	w := storetest.New(t)
	ada := w.AddUser("ada")
	edited, content := w.AddPost(ada, "one"), "\"one\"\n"
	if _, err := w.EditPost(t.Context(), ada.UserID, edited.ID, store.PostEdit{Content: &content}); err != nil {
		t.Fatal(err)
	}
	w.AddPost(ada, "two")
	feed, err := w.Client.NewContainer(w.Database, "feed")
	if err != nil {
		t.Fatal(err)
	}
	r, err := feed.NewQueryItemsPager("SELECT "+blog.Summaries.Fields+" FROM c",
		azcosmos.NewPartitionKeyString("post"), nil).NextPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := runtime.Payload(r.RawResponse)
	if posts, ok := blog.FastPosts(page); err != nil || !ok || len(posts) != 2 {
		t.Errorf("got %v, %v from %s, want 2 posts by the fast path", posts, err, page)
	}
}
