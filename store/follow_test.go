package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// followedIn returns the usernames of those whom a user follows, most recently followed first, and the titles of the
// user's home feed.
func followedIn(t testing.TB, ctx context.Context, s *store.Store, u *blog.User) string {
	t.Helper()
	var names []string
	for p := (store.Paging{First: 2}); ; {
		page, err := s.Following(ctx, u.UserID, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Items {
			names = append(names, f.Username)
		}
		if p.After = page.End(); !page.More {
			break
		}
	}
	home, err := s.Home(ctx, u.UserID, store.Paging{First: 100})
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "|")
	for _, p := range home.Items {
		names = append(names, p.Title)
	}
	return strings.Join(names, " ")
}

// While the view has none of the follows, the lists of the instance that has written them, and of others with the
// session, have them.
func TestFollow_WriterSeesOwn(t *testing.T) {
	w := newWorld(t)
	ada, bob, cyd, dan, eve := w.AddUser("ada"), w.AddUser("bob"), w.AddUser("cyd"), w.AddUser("dan"), w.AddUser("eve")
	w.AddPost(bob, "b")
	w.AddPost(cyd, "c")
	w.AddPost(dan, "d")
	for _, author := range []*blog.User{w.AddUser("fay"), w.AddUser("gus"), cyd} {
		if _, err := w.FollowUser(t.Context(), ada.UserID, author.UserID); err != nil {
			t.Fatal(err)
		}
	}
	fay, _ := w.UserByUsername(t.Context(), "fay")
	stop := w.Start()
	testkit.Until(t, w.CaughtUp)
	stop()
	one := w.sibling(t, w.Clock.Now)
	token := ""
	for _, step := range []struct {
		change func(ctx context.Context, userID, authorID string) (*blog.User, error)
		author *blog.User
		want   string
	}{
		{one.FollowUser, bob, "bob cyd gus fay | c b"},
		{one.FollowUser, eve, "eve bob cyd gus fay | c b"},
		{one.FollowUser, dan, "dan eve bob cyd gus fay | d c b"},
		{one.FollowUser, bob, "dan eve bob cyd gus fay | d c b"},
		{one.UnfollowUser, eve, "dan bob cyd gus fay | d c b"},
		{one.UnfollowUser, eve, "dan bob cyd gus fay | d c b"},
		{one.FollowUser, eve, "eve dan bob cyd gus fay | d c b"},
		{one.UnfollowUser, bob, "eve dan cyd gus fay | d c"},
		{one.UnfollowUser, cyd, "eve dan gus fay | d"},
		{one.UnfollowUser, fay, "eve dan gus | d"},
		{one.FollowUser, fay, "fay eve dan gus | d"},
	} {
		session := one.NewSession(token)
		if _, err := step.change(cosmos.WithSession(t.Context(), session), ada.UserID, step.author.UserID); err != nil {
			t.Fatal(err)
		}
		token = session.Token()
		if got := followedIn(t, t.Context(), one, ada); got != step.want {
			t.Errorf("on the writing instance: got %q, want %q", got, step.want)
		}
		other := w.sibling(t, w.Clock.Now)
		if got, want := followedIn(t, t.Context(), other, ada), "cyd gus fay | c"; got != want {
			t.Fatalf("on another, without the session: got %q, want %q: the view has it", got, want)
		}
		ctx := cosmos.WithSession(t.Context(), other.NewSession(token))
		if got := followedIn(t, ctx, other, ada); got != step.want {
			t.Errorf("on another, with the session: got %q, want %q", got, step.want)
		}
	}
}

// A session carries follows for a minute, and not against a later change that the view has.
func TestFollow_NewerViewWins(t *testing.T) {
	w := newWorld(t)
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	w.AddPost(bob, "b")
	one := w.sibling(t, w.Clock.Now)
	session := one.NewSession("")
	if _, err := one.FollowUser(cosmos.WithSession(t.Context(), session), ada.UserID, bob.UserID); err != nil {
		t.Fatal(err)
	}
	token := session.Token()
	resume := func(s *store.Store) context.Context { return cosmos.WithSession(t.Context(), s.NewSession(token)) }
	for age, want := range map[time.Duration]string{time.Minute: "bob | b", time.Minute + time.Second: "|"} {
		at := time.Unix(w.Clock.Now().Unix(), 0).Add(age)
		later := w.sibling(t, func() time.Time { return at })
		if got := followedIn(t, resume(later), later, ada); got != want {
			t.Errorf("after %v: got %q, want %q", age, got, want)
		}
	}
	other := w.instance("other", 1<<20, store.Options{}) // and its projections
	untilTrue(t, "the follow is not known", func() bool { return followedIn(t, t.Context(), other, ada) == "bob | b" })
	if _, err := one.UnfollowUser(t.Context(), ada.UserID, bob.UserID); err != nil { // without the session
		t.Fatal(err)
	}
	untilTrue(t, "the end is not known", func() bool { return followedIn(t, resume(other), other, ada) == "|" })
}

// followers returns the usernames of a user's followers, most recent first.
func (w *world) followers(u *blog.User) string {
	w.T.Helper()
	return w.follows(w.Followers, u)
}

// following returns the usernames of those whom a user follows, most recently followed first.
func (w *world) following(u *blog.User) string {
	w.T.Helper()
	return w.follows(w.Following, u)
}

func (w *world) follows(
	list func(context.Context, string, store.Paging) (*store.Page[*blog.Follow], error), u *blog.User,
) string {
	w.T.Helper()
	var names []string
	for p := (store.Paging{First: 2}); ; {
		page, err := list(w.T.Context(), u.UserID, p)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, f := range page.Items {
			names = append(names, f.Username)
		}
		if !page.More {
			return strings.Join(names, " ")
		}
		p.After = page.Cursor(len(page.Items) - 1)
	}
}

// counts returns the numbers of followers and of followed authors of a user.
func (w *world) counts(u *blog.User) string {
	w.T.Helper()
	got, err := w.User(w.T.Context(), u.UserID)
	if err != nil {
		w.T.Fatal(err)
	}
	return fmt.Sprint(got.FollowerCount, got.FollowingCount)
}

// wantNoDifferences verifies the views.
func (w *world) wantNoDifferences() {
	w.T.Helper()
	for _, d := range w.Differences(0) {
		w.T.Errorf("%+v", d)
	}
}

func TestFollowUser(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada, bob, eve := w.AddUser("ada"), w.AddUser("bob"), w.AddUser("eve")
	for range 2 {
		author, err := w.FollowUser(ctx, ada.UserID, bob.UserID)
		if err != nil || author.Username != "bob" || author.FollowerCount != 1 || author.Revision != bob.Revision {
			t.Fatalf("got %+v, %v", author, err)
		}
	}
	if _, err := w.FollowUser(ctx, eve.UserID, bob.UserID); err != nil {
		t.Fatal(err)
	}
	if got := w.followers(bob); got != "eve ada" {
		t.Errorf("followers: %s", got)
	}
	if follows, err := w.Follows(ctx, ada.UserID, []string{bob.UserID, eve.UserID, "absent", bob.UserID}); err != nil ||
		!slices.Equal(follows, []bool{true, false, false, true}) {
		t.Errorf("follows: %v, %v", follows, err)
	}
	for range 2 {
		author, err := w.UnfollowUser(ctx, ada.UserID, bob.UserID)
		if err != nil || author.FollowerCount != 1 {
			t.Fatalf("unfollow: %+v, %v", author, err)
		}
	}
	if got := w.followers(bob); got != "eve" {
		t.Errorf("followers after one has left: %s", got)
	}
	for range 2 { // over the tombstone
		if author, err := w.FollowUser(ctx, ada.UserID, bob.UserID); err != nil || author.FollowerCount != 2 {
			t.Fatalf("follow again: %+v, %v", author, err)
		}
	}
	if got := w.followers(bob); got != "ada eve" {
		t.Errorf("followers after one has returned: %s", got)
	}
	for _, change := range []func(context.Context, string, string) (*blog.User, error){w.FollowUser, w.UnfollowUser} {
		_, err := change(ctx, ada.UserID, "absent")
		storetest.WantCode(t, err, blog.NotFound, "")
		_, err = change(ctx, ada.UserID, "not/an id")
		storetest.WantCode(t, err, blog.NotFound, "")
		_, err = change(ctx, "unknown", bob.UserID)
		storetest.WantCode(t, err, blog.Forbidden, "")
	}
	_, err := w.FollowUser(ctx, ada.UserID, ada.UserID)
	storetest.WantCode(t, err, blog.Invalid, "id")
	stop := w.Start()
	testkit.Until(t, w.CaughtUp)
	stop()
	if got := w.following(ada) + ", " + w.counts(ada) + ", " + w.counts(bob); got != "bob, 0 1, 2 0" {
		t.Errorf("got %s", got)
	}
	w.wantNoDifferences()
}

// Follows at the limits of both users are refused; a repetition of one that exists is not.
func TestFollowUser_Limits(t *testing.T) {
	w := newWorld(t)
	ada, bob, eve := w.AddUser("ada"), w.AddUser("bob"), w.AddUser("eve")
	if _, err := w.FollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
		t.Fatal(err)
	}
	w.Corrupt(blog.UsersContainer, ada.UserID, ada.UserID, "/followingCount", blog.MaxFollowed)
	w.Corrupt(blog.UsersContainer, bob.UserID, bob.UserID, "/followerCount", blog.MaxFollowers)
	// Without cached authors.
	other, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	if author, err := other.FollowUser(t.Context(), ada.UserID, bob.UserID); err != nil || author.Username != "bob" {
		t.Errorf("repeated: %+v, %v", author, err)
	}
	_, err = other.FollowUser(t.Context(), ada.UserID, eve.UserID)
	storetest.WantCode(t, err, blog.LimitReached, "")
	_, err = other.FollowUser(t.Context(), eve.UserID, bob.UserID)
	storetest.WantCode(t, err, blog.LimitReached, "")
	if author, err := other.UnfollowUser(t.Context(), ada.UserID, bob.UserID); err != nil ||
		author.FollowerCount != blog.MaxFollowers-1 {
		t.Errorf("unfollow: %+v, %v", author, err)
	}
}

func TestFollowUser_Concurrent(t *testing.T) {
	w := newWorld(t)
	bob := w.AddUser("bob")
	stop := w.Start()
	var users []*blog.User
	for i := range 16 {
		users = append(users, w.AddUser(fmt.Sprint("user", i)))
	}
	var wg sync.WaitGroup
	for i, u := range users {
		for range 2 {
			wg.Go(func() {
				if _, err := w.FollowUser(context.Background(), u.UserID, bob.UserID); err != nil {
					t.Error(err)
				}
			})
		}
		if i%2 == 0 {
			wg.Go(func() {
				if _, err := w.UnfollowUser(context.Background(), u.UserID, bob.UserID); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	testkit.Until(t, w.CaughtUp)
	stop()
	follows, n := 0, len(strings.Fields(w.followers(bob)))
	for _, u := range users {
		if w.following(u) == "bob" {
			follows++
		}
	}
	if got := w.counts(bob); got != fmt.Sprint(n, 0) || follows != n || n < len(users)/2 {
		t.Errorf("counts %s, %d followers, %d who follow", got, n, follows)
	}
	w.wantNoDifferences()
}

// A follow, and the end of it, are one request. The end patches two items, and each patch costs 10.2 RU at least.
func TestFollowUser_Costs(t *testing.T) {
	w := newWorld(t)
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	name, avatar, bio := strings.Repeat("é", 60), "https://pictures.example/"+strings.Repeat("a", 60), strings.Repeat("b", 500)
	for _, u := range []*blog.User{ada, bob} {
		if _, err := w.UpdateUser(t.Context(), u.UserID, store.UserEdit{
			DisplayName: store.Optional{Set: true, Value: name}, AvatarURL: store.Optional{Set: true, Value: avatar},
			Bio: store.Optional{Set: true, Value: bio}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(context.Context, string, string) (*blog.User, error)
		limit  float64
	}{{"follow", w.FollowUser, 19}, {"unfollow", w.UnfollowUser, 22}} {
		var mu sync.Mutex
		var ru float64 // guarded by mu
		requests := 0  // guarded by mu
		ctx := cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) {
			mu.Lock()
			defer mu.Unlock()
			ru += o.RU
			requests++
		})
		if _, err := c.change(ctx, ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.2f RU", c.name, ru)
		if requests != 1 || !cosmostest.OnEndpoint() && ru > c.limit {
			t.Errorf("%s: %d requests, %.2f RU; want 1 of at most %g RU", c.name, requests, ru, c.limit)
		}
	}
}
