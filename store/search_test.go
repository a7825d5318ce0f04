package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/storetest"
)

// remove deletes the posts, but not their items in the container search, as if a projection lagged.
func remove(w *world, posts ...*blog.Post) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, blog.PostsContainer)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, p := range posts {
		if _, err := c.DeleteItem(w.T.Context(), azcosmos.NewPartitionKeyString(p.ID), p.ID, nil); err != nil {
			w.T.Fatal(err)
		}
	}
}

// writer is a user whose posts can be searched for, once they are published.
type writer struct {
	w     *world
	user  *blog.User
	posts []*blog.Post
}

// write prepares a post of a date.
func (r *writer) write(date, title, content string, tags ...string) *blog.Post {
	p := &blog.Post{ID: fmt.Sprintf("%s-%05d", r.user.Username, len(r.posts)), Byline: r.user.Byline, Title: title,
		Content: content, Tags: tags, CreatedAt: blog.Date(date + "T12:00:00.000Z"), Version: 1, Revision: 1}
	r.posts = append(r.posts, p)
	return p
}

// publish imports the posts.
func (r *writer) publish() {
	r.w.T.Helper()
	err := r.w.Import(r.w.T.Context(), r.user, func(yield func(store.Thread) bool) {
		for _, p := range r.posts {
			if !yield(store.Thread{Post: p}) {
				return
			}
		}
	})
	if err != nil {
		r.w.T.Fatal(err)
	}
}

func newWriter(w *world, name string) *writer {
	return &writer{w: w, user: &blog.User{Byline: blog.Byline{UserID: blog.UserID("test", name), Username: name},
		CreatedAt: "2009-01-01T00:00:00.000Z", Revision: 1}}
}

// found returns the titles of a page.
func found(t testing.TB, s *store.Store, q store.Search, p store.Paging) (titles []string, more bool) {
	t.Helper()
	page, err := s.Search(t.Context(), q, p)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	for _, f := range page.Items {
		titles = append(titles, f.Post.Title)
	}
	return titles, page.More
}

func TestSearch(t *testing.T) {
	w := newWorld(t)
	ada, bob := newWriter(w, "ada"), newWriter(w, "bob")
	ada.write("2011-05-01", "Old red bicycle", "A bicycle from long ago.", "Cycling")
	ada.write("2026-01-01", "Bicycles", "The bicycles are red, red and red things.", "cycling", "Colors")
	ada.write("2026-02-01", "The bicycle is blue", "Nothing is red here but the word itself, in a bicycle shop with "+
		"many other words, so that this is much longer than the other posts.")
	bob.write("2026-03-01", "Trains", "No bicycle, but a red engine on a long track.", "trains")
	bob.write("2026-03-02", "Boats", "Water.")
	ada.publish()
	bob.publish()
	for _, one := range []struct {
		name   string
		search store.Search
		want   []string
	}{
		{"relevance over decades", store.Search{Query: "bicycle red"},
			[]string{"Bicycles", "Old red bicycle", "Trains", "The bicycle is blue"}},
		{"newest over decades", store.Search{Query: "bicycle", Order: store.ByDate},
			[]string{"Trains", "The bicycle is blue", "Bicycles", "Old red bicycle"}},
		{"phrase", store.Search{Query: `"red bicycle"`, Order: store.ByDate}, []string{"Old red bicycle"}},
		{"excluded word", store.Search{Query: `bicycle -engine -"long ago"`, Order: store.ByDate},
			[]string{"The bicycle is blue", "Bicycles"}},
		{"tag", store.Search{Query: "bicycle", Tag: "CYCLING", Order: store.ByDate},
			[]string{"Bicycles", "Old red bicycle"}},
		{"author", store.Search{Query: "bicycle", AuthorID: bob.user.UserID}, []string{"Trains"}},
		{"title and tags", store.Search{Query: "boats"}, []string{"Boats"}},
		{"tag's word", store.Search{Query: "colors"}, []string{"Bicycles"}},
		{"no match", store.Search{Query: "submarine"}, nil},
		{"stop words are ignored", store.Search{Query: "the water"}, []string{"Boats"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			got, more := found(t, w.Store, one.search, store.Paging{First: 10})
			if d := cmp.Diff(one.want, got); d != "" || more {
				t.Error(d, more)
			}
		})
	}
	for _, one := range []struct {
		search store.Search
		field  string
	}{
		{store.Search{Query: " "}, "query"}, {store.Search{Query: "the of"}, "query"},
		{store.Search{Query: "-bicycle"}, "query"}, {store.Search{Query: strings.Repeat("x", 1001)}, "query"},
		{store.Search{Query: "a b c d e f g h i j k l m n"}, "query"},
		{store.Search{Query: "x", Tag: "--"}, "tag"},
	} {
		_, err := w.Search(t.Context(), one.search, store.Paging{First: 10})
		storetest.WantCode(t, err, blog.Invalid, one.field)
	}
	_, err := w.Search(t.Context(), store.Search{Query: "x"}, store.Paging{First: 0})
	storetest.WantCode(t, err, blog.Invalid, "first")
	_, err = w.Search(t.Context(), store.Search{Query: "x"}, store.Paging{First: 1, After: "x"})
	storetest.WantCode(t, err, blog.Invalid, "after")
}

// TestSearch_Pages: pages of one post make the list, in both orders, and deleted posts neither shorten a page nor
// move the next one.
func TestSearch_Pages(t *testing.T) {
	for _, order := range []store.SearchOrder{store.ByRelevance, store.ByDate} {
		t.Run(string(order), func(t *testing.T) {
			w := newWorld(t)
			ada := newWriter(w, "ada")
			var posts []*blog.Post
			for i := range 9 {
				posts = append(posts, ada.write(fmt.Sprintf("20%d-01-%02d", 19+i/5, 9-i), fmt.Sprint("post ", i),
					strings.Repeat("word ", i+1)+strings.Repeat("other ", 20)))
			}
			ada.publish()
			q := store.Search{Query: "word", Order: order}
			all, _ := found(t, w.Store, q, store.Paging{First: 100})
			if len(all) != 9 {
				t.Fatalf("found %v", all)
			}
			walk := func(size int, before func(page int)) (titles []string) {
				for p, i := (store.Paging{First: size}), 0; ; i++ {
					before(i)
					page, err := w.Search(t.Context(), q, p)
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range page.Items {
						titles = append(titles, f.Post.Title)
					}
					if !page.More {
						return titles
					}
					if len(page.Items) != size {
						t.Errorf("page of %d posts", len(page.Items))
					}
					p.After = page.Cursor(len(page.Items) - 1)
				}
			}
			if d := cmp.Diff(all, walk(2, func(int) {})); d != "" {
				t.Error(d)
			}
			other := q
			other.Tag = "x"
			page, err := w.Search(t.Context(), q, store.Paging{First: 1})
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Search(t.Context(), other, store.Paging{First: 1, After: page.Cursor(0)})
			storetest.WantCode(t, err, blog.Invalid, "after")

			// Before the pages: one that is next, a later, an earlier one.
			gone := map[int]string{0: all[1], 1: all[5], 2: all[2]}
			got := walk(2, func(page int) {
				for _, p := range posts {
					if p.Title == gone[page] {
						if err := w.DeletePost(t.Context(), ada.user.UserID, p.ID); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
			if d := cmp.Diff([]string{all[0], all[2], all[3], all[4], all[6], all[7], all[8]}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// ranked publishes posts that a search for "word" finds in their order.
func ranked(w *world, n int) []*blog.Post {
	ada := newWriter(w, "ada")
	for i := range n {
		ada.write("2026-01-01", fmt.Sprint("post ", i), strings.Repeat("word ", n-i)+strings.Repeat("other ", i))
	}
	ada.publish()
	return ada.posts
}

// TestSearch_HiddenPosts: however many of the best posts are hidden, pages by relevance return the others once, by at
// most two queries.
func TestSearch_HiddenPosts(t *testing.T) {
	for _, one := range []struct{ posts, hidden, first, batches int }{
		{20, 6, 2, 4}, {20, 19, 2, 5}, {20, 20, 5, 3}, {199, 195, 1, 8}, {199, 1, 100, 2},
	} {
		t.Run(fmt.Sprintf("%d of %d in pages of %d", one.hidden, one.posts, one.first), func(t *testing.T) {
			w := newWorld(t)
			posts := ranked(w, one.posts)
			remove(w, posts[:one.hidden]...)
			countRequests(w)
			var want, got []string
			for _, p := range posts[one.hidden:] {
				want = append(want, p.Title)
			}
			for p, more := (store.Paging{First: one.first}), true; more && len(got) <= len(want); {
				r := &requested{}
				page, err := w.Search(r.in(t.Context()), store.Search{Query: "word"}, p)
				if err != nil {
					t.Fatal(err)
				}
				if statistics := 1; r.queries > 2+statistics || r.batches > one.batches {
					t.Errorf("%d queries and %d batches, %.0f RU", r.queries, r.batches, r.ru)
				}
				for _, f := range page.Items {
					got = append(got, f.Post.Title)
				}
				if more = page.More; more {
					p.After = page.Cursor(len(page.Items) - 1)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestSearch_CursorDeleted: after a page whose last post has been deleted, the next page begins with the next post.
func TestSearch_CursorDeleted(t *testing.T) {
	for _, order := range []store.SearchOrder{store.ByRelevance, store.ByDate} {
		w := newWorld(t)
		posts := ranked(w, 9)
		q := store.Search{Query: "word", Order: order}
		all, _ := found(t, w.Store, q, store.Paging{First: 9})
		page, err := w.Search(t.Context(), q, store.Paging{First: 3})
		if err != nil {
			t.Fatal(err)
		}
		last := page.Items[2].Post
		if err := w.DeletePost(t.Context(), posts[0].UserID, last.ID); err != nil {
			t.Fatal(err)
		}
		got, _ := found(t, w.Store, q, store.Paging{First: 2, After: page.Cursor(2)})
		if d := cmp.Diff(all[3:5], got); d != "" {
			t.Error(order, d)
		}
	}
}

// TestSearch_ManyDecades: a search by date goes through any number of decades without a match.
func TestSearch_ManyDecades(t *testing.T) {
	w := newWorld(t)
	ada := newWriter(w, "ada")
	ada.write("1901-01-01", "oldest", "a word")
	for year := 1911; year < 2030; year += 10 {
		ada.write(fmt.Sprintf("%d-01-01", year), "other", "nothing")
	}
	ada.publish()
	for _, order := range []store.SearchOrder{store.ByRelevance, store.ByDate} {
		got, more := found(t, w.Store, store.Search{Query: "word", Order: order}, store.Paging{First: 3})
		if len(got) != 1 || more {
			t.Error(order, got, more)
		}
	}
}

// TestSearch_FirstPosts: the posts of a blog that was empty when it was searched are ranked.
func TestSearch_FirstPosts(t *testing.T) {
	w := newWorld(t)
	if got, more := found(t, w.Store, store.Search{Query: "word"}, store.Paging{First: 3}); len(got) > 0 || more {
		t.Fatal(got, more)
	}
	ranked(w, 9)
	got, _ := found(t, w.Store, store.Search{Query: "word"}, store.Paging{First: 3})
	if d := cmp.Diff([]string{"post 0", "post 1", "post 2"}, got); d != "" {
		t.Error(d)
	}
}

// TestSearch_Requests: by relevance two requests with the posts, a third for statistics that are not known; by date
// two.
func TestSearch_Requests(t *testing.T) {
	w := newWorld(t)
	ada := newWriter(w, "ada")
	for i := range 30 {
		ada.write("2026-01-01", fmt.Sprint("post ", i), fmt.Sprint("word ", i))
	}
	ada.publish()
	countRequests(w)
	for _, one := range []struct {
		name  string
		order store.SearchOrder
		want  int
	}{
		{"unknown statistics", store.ByRelevance, 3}, {"known statistics", store.ByRelevance, 2}, {"newest", store.ByDate, 2},
	} {
		r := &requested{}
		page, err := w.Search(r.in(t.Context()), store.Search{Query: "word", Order: one.order}, store.Paging{First: 20})
		if err != nil || len(page.Items) != 20 || !page.More {
			t.Fatal(page, err)
		}
		t.Logf("%s: %d requests, %.2f RU", one.name, r.all(), r.ru)
		if got := r.queries + r.batches; got != one.want {
			t.Errorf("%s: %d requests, want %d: %+v", one.name, got, one.want, r)
		}
	}
}

// TestSearch_NoContainer: without the container a search is refused, and an export has the rest.
func TestSearch_NoContainer(t *testing.T) {
	w := newWorld(t)
	db, err := w.Client.NewContainer(w.Database, blog.SearchContainer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, order := range []store.SearchOrder{store.ByRelevance, store.ByDate} {
		_, err := w.Search(t.Context(), store.Search{Query: "x", Order: order}, store.Paging{First: 1})
		storetest.WantCode(t, err, blog.Invalid, "")
	}
	if all, _ := export(t, w.Store, w.AddUser("ada").UserID, ""); len(all) == 0 {
		t.Error("the export has nothing")
	}
}

// TestSearch_NotRanked: if Cosmos DB refuses to rank, a search finds the newest posts, and does not ask again for some
// minutes.
func TestSearch_NotRanked(t *testing.T) {
	w := newWorld(t)
	ada := newWriter(w, "ada")
	ada.write("2026-01-01", "more", "word word word")
	ada.write("2026-01-02", "less", "word and other things")
	ada.publish()
	var queries, refused int // refused: how many of the first queries are
	w.Inject(func(o faulttest.Operation) (r faulttest.Response) {
		if o.Container != blog.SearchContainer || o.Kind != faulttest.Query {
			return r
		}
		if queries++; queries <= refused {
			r.Status = http.StatusBadRequest
		}
		return r
	})
	best := func() string {
		t.Helper()
		titles, _ := found(t, w.Store, store.Search{Query: "word"}, store.Paging{First: 10})
		if len(titles) != 2 {
			t.Fatalf("found %v", titles)
		}
		return titles[0]
	}
	refused = 2 // the statistics, and the newest posts
	_, err := w.Search(t.Context(), store.Search{Query: "word"}, store.Paging{First: 10})
	storetest.WantCode(t, err, blog.Internal, "")
	if got := best(); got != "more" || queries != 4 {
		t.Errorf("after an error of all queries: %s first, %d queries", got, queries)
	}
	w.Clock.Millis.Add(10 * 60 * 1000) // the statistics have expired
	queries, refused = 0, 1
	for want := 2; want <= 3; want++ { // the refused query, and one for each search
		if got := best(); got != "less" || queries != want {
			t.Errorf("after a refusal: %s first, %d queries, want %d", got, queries, want)
		}
	}
	w.Clock.Millis.Add(10 * 60 * 1000)
	if got := best(); got != "more" {
		t.Errorf("some minutes later: %s first", got)
	}
}

// chargedToSearch returns a context, and the charge in RU of the queries of the container search that it is used for.
func chargedToSearch(ctx context.Context) (context.Context, *float64) {
	var mu sync.Mutex
	ru := new(float64)
	return cosmos.WithRecorder(ctx, func(_ context.Context, o *cosmos.Operation) {
		if o.Container == blog.SearchContainer && o.Kind == cosmos.KindQuery {
			mu.Lock()
			defer mu.Unlock()
			*ru += o.RU
		}
	}), ru
}

// TestSearchRU: once statistics are known, the prediction is within a fifth of the charge of the queries.
func TestSearchRU(t *testing.T) {
	testkit.Heavy(t)
	w := newWorld(t)
	ada := newWriter(w, "ada")
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		var words []string
		for range 100 + r.IntN(200) {
			words = append(words, fmt.Sprintf("w%dx", r.IntN(20)*r.IntN(20)*r.IntN(20)))
		}
		ada.write(fmt.Sprintf("20%d-01-01", 20+i%2), fmt.Sprint("post ", i), strings.Join(words, " "))
	}
	ada.publish()
	for _, query := range []string{"w6x", "w12x w24x", "w12x w7x", "w5831x w12x", "w289x w1700x", "post w60x w72x"} {
		for _, order := range []store.SearchOrder{store.ByRelevance, store.ByDate} {
			q := store.Search{Query: query, Order: order}
			found(t, w.Store, store.Search{Query: query}, store.Paging{First: 10}) // reads the statistics
			ctx, charged := chargedToSearch(t.Context())
			if _, err := w.Search(ctx, q, store.Paging{First: 20}); err != nil {
				t.Fatal(err)
			}
			ru := *charged
			predicted, known := w.SearchRU(q, 20)
			t.Logf("%s %s: predicted %.2f, charged %.2f", query, order, predicted, ru)
			if !known || math.Abs(predicted-ru) > ru/5 {
				t.Errorf("%s %s: predicted %.2f, charged %.2f", query, order, predicted, ru)
			}
		}
	}
}

// TestSearchRU_Filter: a search of a frequent word by a tag or an author with few posts is one cheap query in either
// order. It has no prediction.
func TestSearchRU_Filter(t *testing.T) {
	testkit.Heavy(t)
	w := newWorld(t)
	ada, bob := newWriter(w, "ada"), newWriter(w, "bob")
	for i := range 2000 {
		ada.write("2020-01-02", fmt.Sprint("post ", i), "a frequent word", "often")
	}
	for i := range 2 {
		bob.write("2020-01-01", fmt.Sprint("last ", i), "a frequent word", "often", "seldom")
	}
	ada.publish()
	bob.publish()
	found(t, w.Store, store.Search{Query: "word"}, store.Paging{First: 10}) // reads the statistics
	for _, q := range []store.Search{
		{Query: "word", Tag: "seldom"},
		{Query: "word", AuthorID: bob.user.UserID},
		{Query: "word", AuthorID: bob.user.UserID, Tag: "often"},
	} {
		for _, q.Order = range []store.SearchOrder{store.ByRelevance, store.ByDate} {
			var queries int
			var ru float64
			ctx := cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) {
				if o.Container == blog.SearchContainer {
					queries, ru = queries+1, ru+o.RU
				}
			})
			page, err := w.Search(ctx, q, store.Paging{First: 20})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Items) != 2 || queries != 1 || ru > 3 {
				t.Errorf("%+v: found %d posts by %d queries for %.2f RU, want 2 posts by one for at most 3 RU", q,
					len(page.Items), queries, ru)
			}
			if predicted, known := w.SearchRU(q, 20); known {
				t.Errorf("%+v: predicted %.2f RU", q, predicted)
			}
		}
	}
}

// TestSearchRU_Decades: a search by date is predicted for as many decades as it reads, and no search if one of those is
// not known.
func TestSearchRU_Decades(t *testing.T) {
	testkit.Heavy(t)
	w := newWorld(t)
	ada := newWriter(w, "ada")
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1200 {
		words := strings.Repeat(" filler", 100+r.IntN(50))
		if i%4 == 0 {
			words += " frequent"
		}
		if i%100 == 0 {
			words += " rare"
		}
		ada.write(fmt.Sprintf("%d-01-01", 1991+i%4*10), fmt.Sprint("post ", i), "common"+words)
	}
	ada.publish()
	check := func(q store.Search) {
		t.Helper()
		ctx, charged := chargedToSearch(t.Context())
		if _, err := w.Search(ctx, q, store.Paging{First: 20}); err != nil {
			t.Fatal(err)
		}
		predicted, known := w.SearchRU(q, 20)
		if t.Logf("%+v: predicted %.2f, charged %.2f", q, predicted, *charged); !known ||
			math.Abs(predicted-*charged) > *charged/5 {
			t.Errorf("%+v: predicted %.2f, charged %.2f", q, predicted, *charged)
		}
	}
	for _, query := range []string{"common", "rare", "frequent"} {
		newest := store.Search{Query: query, Order: store.ByDate}
		found(t, w.Store, newest, store.Paging{First: 10})
		if _, known := w.SearchRU(newest, 20); known {
			t.Errorf("%s is known without statistics", query)
		}
		found(t, w.Store, store.Search{Query: query}, store.Paging{First: 10})
		check(newest)
		check(store.Search{Query: query})
	}

	bob := newWriter(w, "bob")
	bob.write("1985-01-01", "old", "common")
	bob.publish()
	newest := store.Search{Query: "common", Order: store.ByDate}
	check(newest) // does not get that far
	if _, known := w.SearchRU(store.Search{Query: "common"}, 20); known {
		t.Error("the statistics of a new decade are known")
	}
	newest.Query = "rare"
	if _, known := w.SearchRU(newest, 20); known {
		t.Error("the statistics of a new decade that is read are known")
	}
}
