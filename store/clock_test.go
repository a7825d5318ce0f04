package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// An instance whose clock is ten minutes ahead dates its items by the account's time, so that its posts do not
// stay at the top of the feed, and its subscribers miss no event.
func TestClock_TenMinutesAhead(t *testing.T) {
	cosmostest.NeedsEngine(t, "it sets the clocks")
	cosmostest.Run(t, func(t *testing.T) {
		on := cosmostest.Open(t, emulator.Options{})
		instance := func(name string, clock func() time.Time) *world {
			account, err := cosmos.Open(cosmos.Options{Endpoint: on.Endpoint, Key: on.Key, Transport: on.Transport,
				Clock: clock, CacheBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(account.Close)
			s, err := store.New(account,
				store.Options{Database: on.Database, Instance: name, Clock: clock, PollInterval: 10 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Provision(t.Context()); err != nil {
				t.Fatal(err)
			}
			w := &world{&storetest.World{Store: s, T: t, Account: account, Client: account.Client(),
				Database: on.Database}}
			w.Start()
			return w
		}
		right := instance("right", time.Now)
		ahead := instance("ahead", func() time.Time { return time.Now().Add(10 * time.Minute) })
		published, err := ahead.PublishedPosts(t.Context())
		open(t, published, err)
		ada := right.AddUser("ada")
		var want []string
		for i := range 6 {
			by := []*world{ahead, right}[i%2]
			p := by.AddPost(ada, fmt.Sprint("Post ", i))
			created, err := time.Parse(time.RFC3339, string(p.CreatedAt))
			if err != nil {
				t.Fatal(err)
			}
			if off := time.Until(created); off.Abs() > 2*time.Second {
				t.Errorf("the date of %s is off by %v", p.Title, off)
			}
			if got, _ := next(t, published); got.ID != p.ID {
				t.Errorf("published %q, want %q", got.Title, p.Title)
			}
			want = append([]string{p.Title}, want...)
			storetest.Pass(3 * time.Second) // longer than the precision of the Date header
		}
		if got := storetest.Titles(right.AllFeed()); !slices.Equal(got, want) {
			t.Errorf("got the feed %q, want %q", got, want)
		}
		if off := ahead.Account.ClockOffset(); off < -10*time.Minute || off > -10*time.Minute+2*time.Second {
			t.Errorf("got the offset %v, want -10m", off)
		}
		if off := right.Account.ClockOffset(); off != 0 {
			t.Errorf("a right clock is corrected by %v", off)
		}
	})
}
