package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmcdole/gofeed"
	"github.com/mmcdole/gofeed/atom"

	"byline/graph/auth"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/seed"
)

// feedPage requests a page of a feed, and returns it and the path of the next, "" at the end.
func feedPage(t *testing.T, s *instance, path string) (feed *atom.Feed, next string) {
	t.Helper()
	resp, body := visit(t, s, path)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %.300s", path, resp.StatusCode, body)
	}
	feed, err := (&atom.Parser{}).Parse(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, l := range feed.Links {
		if l.Rel == "next" {
			next = strings.TrimPrefix(l.Href, siteURL)
		}
	}
	return feed, next
}

// feedPost is a post as the API has it.
type feedPost struct {
	ID, Slug, Title, Excerpt, ContentHTML, CreatedAt string
	UpdatedAt                                        *string
	Tags                                             []string
	Author                                           struct{ Username, DisplayName string }
	CoverImage                                       *struct{ URL string }
}

// cover returns the absolute address of the cover, "" without one.
func (p feedPost) cover() string {
	if p.CoverImage == nil {
		return ""
	}
	return siteURL + p.CoverImage.URL // those of the demo blog are files
}

// updated returns when the post was edited last, or else created.
func (p feedPost) updated() string {
	if p.UpdatedAt != nil {
		return *p.UpdatedAt
	}
	return p.CreatedAt
}

// allPosts returns all posts, newest first.
func allPosts(s *instance) (posts []feedPost) {
	s.T.Helper()
	for after, more := any(nil), true; more; {
		var page struct {
			Feed struct {
				Edges    []struct{ Node feedPost }
				PageInfo struct {
					HasNextPage bool
					EndCursor   string
				}
			}
		}
		ask(s, "", `query($after: String) { feed(first: 50, after: $after) { edges { node { id slug title excerpt contentHtml
			createdAt updatedAt tags author { displayName username } coverImage { url } } } pageInfo { hasNextPage endCursor } } }`,
			map[string]any{"after": after}, &page)
		for _, e := range page.Feed.Edges {
			posts = append(posts, e.Node)
		}
		after, more = page.Feed.PageInfo.EndCursor, page.Feed.PageInfo.HasNextPage
	}
	return posts
}

// TestSite_FeedReader reads the feed to its end with a library for feeds: each entry is what the API says of its post.
func TestSite_FeedReader(t *testing.T) {
	s := startSite(t)
	_, body := visit(t, s, "/feed.atom")
	if f, err := gofeed.NewParser().ParseString(body); err != nil || f.FeedType != "atom" || f.Title != "The blog" ||
		f.Link != siteURL+"/" || f.UpdatedParsed == nil {
		t.Fatalf("%v %+v", err, f)
	}
	posts, n := allPosts(s), 0
	for path := "/feed.atom"; path != ""; {
		feed, next := feedPage(t, s, path)
		for _, e := range feed.Entries {
			if n >= len(posts) {
				t.Fatalf("more than the %d posts", len(posts))
			}
			p := posts[n]
			n++
			var categories []string
			for _, c := range e.Categories {
				categories = append(categories, c.Term)
			}
			enclosure := ""
			for _, l := range e.Links {
				if l.Rel == "enclosure" {
					enclosure = l.Href
				}
			}
			if e.Title != p.Title || enclosure != p.cover() || e.Links[0].Href != siteURL+"/posts/"+url.PathEscape(p.Slug) ||
				e.Published != p.CreatedAt || e.Updated != p.updated() || e.Authors[0].Name != p.Author.DisplayName ||
				!slices.Equal(categories, p.Tags) || wordsOf(t, e.Content.Value) != wordsOf(t, p.ContentHTML) ||
				!strings.HasSuffix(e.ID, ":"+p.ID) {
				t.Errorf("entry %d is %+v of %+v", n, e, p)
			}
		}
		path = next
	}
	if n != len(posts) {
		t.Errorf("%d entries of %d posts", n, len(posts))
	}
}

// TestSite_FeedWalk reads the feed to its end while others publish, edit and delete posts: no entry comes twice, and no
// post is missing that was there all the time.
func TestSite_FeedWalk(t *testing.T) {
	users := testkit.Pick(50, 500)
	blog := seed.Blog{Seed: 7, Users: users, Authors: users, Posts: [2]int{20, 20}, UserID: auth.DemoUserID}
	data := t.TempDir()
	inBlog(t, data, func(s *store.Store) error { return seed.LoadOffline(t.Context(), blog, s, nil) })
	s := start(t, "--data", data, "--no-demo", "--site", "testdata/site", "--site-url", siteURL)
	s.WaitReady()
	posts := allPosts(s)
	if len(posts) != 20*users {
		t.Fatalf("%d posts, want %d", len(posts), 20*users)
	}

	var mu sync.Mutex
	deleted := map[string]bool{} // guarded by mu
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 3 {
		random := rand.New(rand.NewPCG(7, uint64(w)))
		write := func(user, mutation string, variables map[string]any) {
			if r, err := s.Post(user, mutation, variables); err != nil || len(r.Errors) > 0 {
				t.Errorf("%s: %v %v", mutation, err, r.Errors)
			}
		}
		writers.Go(func() {
			for n := w; ; n += 3 {
				select {
				case <-stop:
					return
				default:
				}
				p := posts[random.IntN(len(posts))]
				mu.Lock()
				gone := deleted[p.ID]
				if n%3 == 2 {
					deleted[p.ID] = true
				}
				mu.Unlock()
				switch {
				case n%3 == 0:
					write(p.Author.Username, `mutation($t: String!) { createPost(input: {title: $t, content: "New."}) {
						post { id } } }`, map[string]any{"t": "New " + strconv.Itoa(n)})
				case gone:
				case n%3 == 1: // another may delete it meanwhile
					_, _ = s.Post(p.Author.Username, `mutation($id: ID!) { updatePost(input: {id: $id, content: "Edited."}) {
						post { id } } }`, map[string]any{"id": p.ID})
				default:
					write(p.Author.Username, `mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`,
						map[string]any{"id": p.ID})
				}
			}
		})
	}
	began, pages, seen := time.Now(), 0, map[string]bool{}
	for path := "/feed.atom"; path != ""; pages++ {
		feed, next := feedPage(t, s, path)
		for _, e := range feed.Entries {
			id := e.ID[strings.LastIndex(e.ID, ":")+1:]
			if seen[id] {
				t.Errorf("page %d has %s again", pages, id)
			}
			seen[id] = true
		}
		path = next
	}
	close(stop)
	writers.Wait()
	for _, p := range posts {
		if !seen[p.ID] && !deleted[p.ID] {
			t.Errorf("%s of %s is missing", p.ID, p.CreatedAt)
		}
	}
	if len(deleted) == 0 {
		t.Error("nothing was deleted meanwhile")
	}
	t.Logf("%d pages, %d entries, %d posts deleted meanwhile, %s", pages, len(seen), len(deleted), time.Since(began))
}

// TestSite_FeedEnds: a walk goes on to its end, although the posts that follow are deleted meanwhile.
func TestSite_FeedEnds(t *testing.T) {
	s := start(t, "--data", t.TempDir(), "--no-demo", "--site", "testdata/site", "--site-url", siteURL)
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	var ids []any
	for i := range 22 {
		created := s.Do("ada", `mutation($t: String!) { createPost(input: {title: $t, content: "x", tags: ["go"]}) {
			post { id } } }`, map[string]any{"t": strconv.Itoa(i)})
		ids = append(ids, at(t, created, "createPost.post.id"))
	}
	var next []string
	for _, path := range []string{"/feed.atom", "/tags/go/feed.atom", "/authors/ada/feed.atom"} {
		eventually(t, func() error { // the views have all posts
			resp, _ := visit(t, s, path)
			if resp.StatusCode == http.StatusOK {
				if _, second := feedPage(t, s, path); second != "" {
					next = append(next, second)
					return nil
				}
			}
			return fmt.Errorf("%s: %d, and has one page", path, resp.StatusCode)
		})
	}
	for _, id := range ids {
		s.Do("ada", `mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`, map[string]any{"id": id})
	}
	for _, second := range next {
		eventually(t, func() error {
			if feed, _ := feedPage(t, s, second); len(feed.Entries) > 0 {
				return fmt.Errorf("%s has %d entries", second, len(feed.Entries))
			}
			return nil
		})
	}
}
