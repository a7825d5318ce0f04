package cosmos

import (
	"net/http"
	"testing"

	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// DeleteIf deletes an item only if it has the ETag.
func TestBatch_DeleteIf(t *testing.T) {
	on := cosmostest.Open(t, emulator.Options{})
	account, err := Open(options(on))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	on.CreateContainer(t, "posts", "/postId")
	posts, err := account.Container(on.Database, "posts")
	if err != nil {
		t.Fatal(err)
	}
	if err := posts.Create(t.Context(), "p", []byte(`{"id":"c","postId":"p","n":1}`)); err != nil {
		t.Fatal(err)
	}
	read, err := posts.Read(t.Context(), Key{"p", "c"})
	if err != nil {
		t.Fatal(err)
	}
	changed, err := posts.Replace(t.Context(), Key{"p", "c"}, []byte(`{"id":"c","postId":"p","n":2}`), read.ETag)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		etag ETag
		want int
	}{{read.ETag, http.StatusPreconditionFailed}, {changed, http.StatusOK}, {changed, http.StatusNotFound}} {
		var b Batch
		b.DeleteIf("c", tt.etag)
		if r, err := posts.Batch(t.Context(), "p", &b); err != nil || r.Status != tt.want {
			t.Errorf("etag %s: got %+v, %v, want status %d", tt.etag, r, err, tt.want)
		}
	}
}
