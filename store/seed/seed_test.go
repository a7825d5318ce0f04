package seed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"byline/internal/secrettest"
	"byline/store"
	"byline/store/emulator"
	"byline/store/seed"
)

// same compares what a post shows.
var same = cmpopts.IgnoreUnexported(store.Post{})

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(secrettest.Exit)) }

// blog is a store with options to fill it.
func blog(t *testing.T) (*store.Store, seed.Options) {
	t.Helper()
	engine, err := emulator.Open("", emulator.Options{Logger: secrettest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	key, err := azcosmos.NewKeyCredential(secrettest.Secret(emulator.WellKnownKey))
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(engine.Endpoint(), key, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: engine}})
	if err != nil {
		t.Fatal(err)
	}
	open := func(clock func() time.Time) (*store.Store, error) {
		return store.New(client, client, store.Options{Clock: clock, Logger: secrettest.Logger()})
	}
	s, err := open(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, seed.Options{Open: open, UserID: func(name string) string { return store.UserID("demo", name) }}
}

// contents is what a blog shows, with all its posts of all users.
type contents struct {
	Feed  []*store.Post
	Posts map[string][]*store.Post
	Talk  map[string][]*store.Comment
	Likes map[string][]*store.Like
}

func read(t *testing.T, s *store.Store) contents {
	t.Helper()
	ctx := t.Context()
	c := contents{Posts: map[string][]*store.Post{}, Talk: map[string][]*store.Comment{}, Likes: map[string][]*store.Like{}}
	feed, err := s.Feed(ctx, store.Paging{First: 100})
	if err != nil {
		t.Fatal(err)
	}
	c.Feed = feed.Items
	for _, name := range seed.Usernames {
		posts, err := s.UserPosts(ctx, store.UserID("demo", name), store.Paging{First: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, copied := range posts.Items {
			p, err := s.Post(ctx, copied.ID)
			if err != nil {
				t.Fatal(err)
			}
			c.Posts[name] = append(c.Posts[name], p)
			comments, err1 := s.Comments(ctx, p.ID, store.Paging{First: 100})
			likes, err2 := s.Likes(ctx, p.ID, store.Paging{First: 100})
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			c.Talk[p.ID], c.Likes[p.ID] = comments.Items, likes.Items
			if int(p.CommentCount) != len(comments.Items) || int(p.LikeCount) != len(likes.Items) {
				t.Errorf("%s counts %d comments and %d likes, and has %d and %d", p.Title, p.CommentCount, p.LikeCount, len(comments.Items), len(likes.Items))
			}
		}
	}
	return c
}

func TestLoad(t *testing.T) {
	s, o := blog(t)
	if needed, err := seed.Needed(t.Context(), s, o); err != nil || !needed {
		t.Fatalf("an empty store: %v, %v", needed, err)
	}
	if err := seed.Load(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if needed, err := seed.Needed(t.Context(), s, o); err != nil || needed {
		t.Fatalf("a loaded store: %v, %v", needed, err)
	}
	once := read(t, s)
	posts, comments, likes := 0, 0, 0
	for _, list := range once.Posts {
		posts += len(list)
	}
	for _, list := range once.Talk {
		comments += len(list)
	}
	for _, list := range once.Likes {
		likes += len(list)
	}
	if len(seed.Usernames) != 25 || posts != 250 || len(once.Feed) != 100 || comments < 400 || likes < 1000 {
		t.Errorf("%d users, %d posts, %d in the feed, %d comments, %d likes", len(seed.Usernames), posts, len(once.Feed), comments, likes)
	}
	if len(once.Posts["ada"]) == 0 || len(once.Posts["grace"]) == 0 {
		t.Error("ada and grace have no posts")
	}

	t.Run("again changes nothing", func(t *testing.T) {
		if err := seed.Load(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(once, read(t, s), same); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("interrupted and resumed is the same blog", func(t *testing.T) {
		s, o := blog(t)
		ctx, interrupt := context.WithCancel(t.Context())
		o.Progress = func(done, _ int) {
			if done == 50 {
				interrupt()
			}
		}
		if err := seed.Load(ctx, o); err == nil {
			t.Fatal("not interrupted")
		}
		o.Progress = nil
		if needed, err := seed.Needed(t.Context(), s, o); err != nil || !needed {
			t.Fatalf("a half-loaded store: %v, %v", needed, err)
		}
		if err := seed.Load(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		// An interrupted post may have shown nowhere yet but in the change feed.
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		var diff string
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if diff = cmp.Diff(once.Posts, read(t, s).Posts, same); diff == "" {
				return
			}
		}
		t.Error(diff)
	})
}

func TestNotNeededWhereSomebodyWrites(t *testing.T) {
	s, o := blog(t)
	if _, err := s.CreateUser(t.Context(), store.NewUser{ID: store.UserID("demo", "ada"), Username: "ada"}); err != nil {
		t.Fatal(err)
	}
	if needed, err := seed.Needed(t.Context(), s, o); err != nil || needed {
		t.Errorf("%v, %v", needed, err)
	}
}
