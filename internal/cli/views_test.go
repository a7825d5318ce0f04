package cli

import (
	"errors"
	"io"
	"testing"

	"byline/internal/account"
	"byline/internal/console"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
)

func TestMain(m *testing.M) { testkit.Exit(m.Run()) }

// TestProjections_FeedOfFourPartitions: the projections do not run if --feed-partitions is 1.
func TestProjections_FeedOfFourPartitions(t *testing.T) {
	log := testkit.Logger()
	flags := account.Flags{Data: t.TempDir(), CosmosDatabase: "blog", FeedPartitions: 4}
	db, err := flags.Open(t.Context(), log, account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := flags.Store(db, log, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(st.Provision(t.Context()), st.Views().FillFeed(t.Context()))
	if err == nil {
		_, err = st.CreateUser(t.Context(), store.NewUser{ID: "ada", Username: "ada"})
	}
	if err == nil {
		_, err = st.CreatePost(t.Context(), store.NewPost{AuthorID: "ada", Title: "After", Content: "x"})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for partitions, want := range map[int]blog.Code{0: blog.Conflict, 4: ""} {
		flags.FeedPartitions = partitions
		ran := false
		of := viewsFlags{Flags: flags, FilesFlags: account.FilesFlags{FilesQuota: 1}}
		err := of.withBlog(t.Context(), console.Streams{Stderr: io.Discard, Log: log},
			func(st *store.Store, _ *console.Progress) error {
				return withProjections(t.Context(), st, func() error {
					ran = true
					return nil
				})
			})
		if blog.CodeOf(err) != want || ran != (want == "") {
			t.Errorf("%d partitions: %v; the projections run: %v", partitions, err, ran)
		}
	}
}
