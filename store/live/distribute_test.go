package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store/blog"
)

// deletions hide what one user wrote before a date.
type deletions struct {
	hidden string
	until  blog.Date
	awaits int
}

func (d *deletions) Await(context.Context) { d.awaits++ }

func (d *deletions) Hides(userID string, created blog.Date) bool {
	return userID == d.hidden && created < d.until
}

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// item returns an item as the change feed has it, with other properties: written at the start unless they say when.
func item(kind, id string, other map[string]any) []byte {
	properties := map[string]any{"type": kind, "id": id, "postId": "p", "userId": "ada", "userUsername": "ada",
		"title": "T", "content": "C", "creationDate": blog.NewDate(start), "revision": 1, "version": 1,
		"_ts": start.Unix()}
	if kind == blog.TypePost {
		properties["postId"] = id
	}
	for name, value := range other {
		properties[name] = value
	}
	raw, err := json.Marshal(properties)
	if err != nil {
		panic(err)
	}
	return raw
}

// streams are those of the post p, and of all new posts.
type streams struct {
	published, changed *Stream[*blog.Post]
	home               *Stream[*blog.Post] // of cyd, who follows ada
	comments           *Stream[*blog.Comment]
	changes            *Stream[*CommentChange]
	deleted            *Stream[*PostDeletion]
}

func newEvents(t *testing.T, d *deletions) *Events {
	t.Helper()
	e, err := New(Options{Clock: func() time.Time { return start }, Metrics: prometheus.NewRegistry(), Deletions: d,
		OnPostChange: func(*blog.Change) {}, Watchers: func(author string) []string {
			if author == "ada" {
				return []string{"cyd"}
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func follow(e *Events) *streams {
	return &streams{e.published.open(""), e.changed.open("p"), e.home.open("cyd"), e.comments.open("p"), e.commentChanges.open("p"),
		e.deleted.open("p")}
}

// received returns what has arrived in a stream, and "end" if it has ended, or its error.
func received[T any](s *Stream[T], name func(T) string) (all []string) {
	for {
		select {
		case event, ok := <-s.Events():
			if ok {
				all = append(all, name(event))
				continue
			}
			if s.Err() != nil {
				return append(all, s.Err().Error())
			}
			return append(all, "end")
		default:
			return all
		}
	}
}

// arrived returns what has arrived in each stream.
func (s *streams) arrived() map[string][]string {
	all := map[string][]string{
		"published": received(s.published, func(p *blog.Post) string { return p.ID }),
		"home":      received(s.home, func(p *blog.Post) string { return p.ID }),
		"changed":   received(s.changed, func(p *blog.Post) string { return p.ID + " " + p.Title }),
		"comments":  received(s.comments, func(c *blog.Comment) string { return c.ID }),
		"changes": received(s.changes, func(c *CommentChange) string {
			if (c.Comment == nil) != (c.Kind == Deleted) || c.PostID != "p" {
				return "wrong"
			}
			return string(c.Kind) + " " + c.ID
		}),
		"deleted": received(s.deleted, func(d *PostDeletion) string { return d.PostID }),
	}
	for name, events := range all {
		if len(events) == 0 {
			delete(all, name)
		}
	}
	return all
}

func TestDistribute(t *testing.T) {
	type events = map[string][]string
	before := map[string]any{"creationDate": blog.NewDate(start.Add(-time.Hour))}
	with := func(name string, value any) map[string]any {
		return map[string]any{name: value, "creationDate": before["creationDate"]}
	}
	bob := func(created time.Time) map[string]any {
		return map[string]any{"userId": "bob", "creationDate": blog.NewDate(created)}
	}
	ended := events{"changed": {"end"}, "comments": {"end"}, "changes": {"end"}, "deleted": {"p", "end"}}
	for name, tt := range map[string]struct {
		items [][]byte
		want  events
	}{
		"a new post": {[][]byte{item(blog.TypePost, "q", nil)}, events{"published": {"q"}, "home": {"q"}}},
		"the post, new": {[][]byte{item(blog.TypePost, "p", nil)},
			events{"published": {"p"}, "home": {"p"}, "changed": {"p T"}}},
		"the post, changed": {[][]byte{item(blog.TypePost, "p", with("title", "U"))},
			events{"changed": {"p U"}}},
		"another post, changed":      {[][]byte{item(blog.TypePost, "q", before)}, events{}},
		"the post, deleted":          {[][]byte{item(blog.TypePost, "p", with("deleted", true))}, ended},
		"another post, deleted":      {[][]byte{item(blog.TypePost, "q", with("deleted", true))}, events{}},
		"the post of a deleted user": {[][]byte{item(blog.TypePost, "p", bob(start))}, ended},
		"a post of a user created again": {[][]byte{item(blog.TypePost, "p", bob(start.Add(time.Hour)))},
			events{"published": {"p"}, "changed": {"p T"}}},
		"a new comment": {[][]byte{item(blog.TypeComment, "c", nil)},
			events{"comments": {"c"}, "changes": {"ADDED c"}}},
		"an edited comment": {[][]byte{item(blog.TypeComment, "c", before)}, events{"changes": {"EDITED c"}}},
		"a deleted comment": {[][]byte{item(blog.TypeComment, "c", with("deleted", true))},
			events{"changes": {"DELETED c"}}},
		"a comment elsewhere":  {[][]byte{item(blog.TypeComment, "c", map[string]any{"postId": "q"})}, events{}},
		"a deleted user's":     {[][]byte{item(blog.TypeComment, "c", bob(start))}, events{}},
		"a like":               {[][]byte{item(blog.TypeLike, "l", nil)}, events{}},
		"invalid JSON, before": {[][]byte{[]byte("{"), item(blog.TypePost, "q", nil)}, events{"published": {"q"}, "home": {"q"}}},
		"a malformed post, before": {[][]byte{item(blog.TypePost, "p", map[string]any{"likeCount": "many"}),
			item(blog.TypePost, "q", nil)}, events{"published": {"q"}, "home": {"q"}}},
		"a malformed comment, before": {[][]byte{item(blog.TypeComment, "b", map[string]any{"content": 5}),
			item(blog.TypeComment, "c", nil)}, events{"comments": {"c"}, "changes": {"ADDED c"}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &deletions{hidden: "bob", until: blog.NewDate(start.Add(time.Minute))}
			e := newEvents(t, d)
			s := follow(e)
			if err := e.distribute(t.Context(), tt.items); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, s.arrived()); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			if d.awaits != 1 {
				t.Errorf("the deletions were awaited %d times, want once", d.awaits)
			}
		})
	}
}

// The index of posts gets every change of a post that readers see, and every deletion, before the events.
func TestDistribute_OnPostChange(t *testing.T) {
	d := &deletions{hidden: "bob", until: blog.NewDate(start.Add(time.Minute))}
	e := newEvents(t, d)
	published := e.published.open("")
	var seen []string
	e.o.OnPostChange = func(c *blog.Change) {
		if len(published.Events()) > 0 {
			t.Error("an event came before")
		}
		seen = append(seen, fmt.Sprintf("%s by %s at %s, %t", c.ID, c.UserID, c.CreatedAt, c.Deleted))
	}
	deleted := item(blog.TypePost, "q", map[string]any{"deleted": true})
	if err := e.distribute(t.Context(), [][]byte{item(blog.TypePost, "h", map[string]any{"userId": "bob"}), deleted,
		item(blog.TypeComment, "c", nil), item(blog.TypePost, "p", nil)}); err != nil {
		t.Fatal(err)
	}
	at := blog.NewDate(start)
	want := []string{fmt.Sprintf("q by ada at %s, true", at), fmt.Sprintf("p by ada at %s, false", at)}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// The viewers of a home feed share an event, so that many viewers of it do not end the streams of slow readers.
func TestDistribute_HomeBytes(t *testing.T) {
	e := newEvents(t, &deletions{})
	var viewers []string
	for i := range 1000 {
		viewers = append(viewers, fmt.Sprint("viewer", i))
		e.home.open(viewers[i])
	}
	e.o.Watchers = func(string) []string { return viewers }
	raw := item(blog.TypePost, "p", nil)
	if err := e.distribute(t.Context(), [][]byte{raw}); err != nil {
		t.Fatal(err)
	}
	if records := recordBytes * len(viewers); e.home.bytes < records || e.home.bytes > records+len(raw) {
		t.Errorf("%d bytes are counted, want those of one event of %d and of a record for each viewer", e.home.bytes, len(raw))
	}
	e.home.maxBehind = 2 * recordBytes * len(viewers)
	for i := range 3 {
		if err := e.distribute(t.Context(), [][]byte{item(blog.TypePost, fmt.Sprint("p", i), nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(e.home.latest); n > 2*len(viewers) {
		t.Errorf("%d records are kept", n)
	}
}

// Without streams nothing waits, and a post is new only once: the first change after a stream opens is no creation.
func TestDistribute_WithoutStreams(t *testing.T) {
	d := &deletions{}
	e := newEvents(t, d)
	for range 2 {
		if err := e.distribute(t.Context(), [][]byte{item(blog.TypePost, "p", nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if d.awaits > 0 {
		t.Error("the deletions were awaited")
	}
	s := follow(e)
	if err := e.distribute(t.Context(), [][]byte{item(blog.TypePost, "p", map[string]any{"revision": 2})}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string][]string{"changed": {"p T"}}, s.arrived()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// The comments of a post are followed by streams of either kind alone.
func TestDistribute_OneKindOfStream(t *testing.T) {
	e := newEvents(t, &deletions{})
	changes := e.commentChanges.open("p")
	added, edited := item(blog.TypeComment, "c", nil), item(blog.TypeComment, "c", map[string]any{"content": "D"})
	if err := e.distribute(t.Context(), [][]byte{added, edited}); err != nil {
		t.Fatal(err)
	}
	kinds := received(changes, func(c *CommentChange) string { return string(c.Kind) })
	if d := cmp.Diff([]string{"ADDED", "EDITED"}, kinds); d != "" {
		t.Errorf("changes: -want +got\n%s", d)
	}
	changes.Close()
	comments := e.comments.open("p")
	if err := e.distribute(t.Context(), [][]byte{edited, item(blog.TypeComment, "d", nil)}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"d"}, received(comments, func(c *blog.Comment) string { return c.ID })); d != "" {
		t.Errorf("new comments: -want +got\n%s", d)
	}
}

// The streams of an author's posts end with the author, those of others do not.
func TestEndOfAuthor(t *testing.T) {
	e := newEvents(t, &deletions{})
	s := follow(e)
	e.changed.setAuthor(s.changed, "ada")
	e.comments.setAuthor(s.comments, "ada")
	e.commentChanges.setAuthor(s.changes, "ada")
	e.deleted.setAuthor(s.deleted, "ada")
	e.EndOfAuthor("bob")
	if got := s.arrived(); len(got) > 0 {
		t.Errorf("the end of another author ends %v", got)
	}
	e.EndOfAuthor("ada")
	want := map[string][]string{"changed": {"end"}, "comments": {"end"}, "changes": {"end"}, "deleted": {"p", "end"}}
	if d := cmp.Diff(want, s.arrived()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if n := e.streams(); n != 2 {
		t.Errorf("%d streams are open, want those of new posts", n)
	}
}

// A reader without a goroutine is woken by the next event, once, and by the end.
func TestStream_Await(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEvents(t, &deletions{})
		s := e.published.open("")
		woken := 0
		await := func() bool { return s.Await(func() { woken++ }) }
		publish := func(n int) {
			t.Helper()
			if err := e.distribute(t.Context(), [][]byte{item(blog.TypePost, string(rune('a'+n)), nil)}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if !await() {
			t.Error("does not wait for the first event")
		}
		publish(0)
		publish(1)
		if woken != 1 {
			t.Errorf("woken %d times by two events, want once", woken)
		}
		if await() {
			t.Error("waits although there are events")
		}
		received(s, func(*blog.Post) string { return "" })
		if !await() {
			t.Error("does not wait for the next event")
		}
		s.Close()
		s.Close()
		synctest.Wait()
		if woken != 2 || await() {
			t.Errorf("woken %d times; waits after the end: %t", woken, await())
		}
	})
}

// A stream needs the tail: without it, it is refused once its context has ended, or after ten seconds.
func TestOpen_WithoutTail(t *testing.T) {
	for name, tt := range map[string]struct {
		within time.Duration
		code   blog.Code
		took   time.Duration
	}{
		"canceled": {time.Second, blog.Canceled, time.Second},
		"in vain":  {time.Minute, blog.Unavailable, tailStartTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEvents(t, &deletions{})
				ctx, cancel := context.WithTimeout(t.Context(), tt.within)
				defer cancel()
				began := time.Now()
				s, err := e.PublishedPosts(ctx)
				if s != nil || blog.CodeOf(err) != tt.code || time.Since(began) != tt.took {
					t.Errorf("got %v, %v after %s, want %s after %s", s, err, time.Since(began), tt.code, tt.took)
				}
				if n := e.listeners(); n != 0 {
					t.Errorf("%d listeners are left", n)
				}
			})
		})
	}
}

// Who waits for the posts of a home feed is told once that its stream has ended, or was not opened.
func TestHomePosts_Ended(t *testing.T) {
	e := newEvents(t, &deletions{})
	ended := 0
	count := func() { ended++ }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.HomePosts(canceled, "cyd", count); err == nil || ended != 1 {
		t.Errorf("not opened: %v, told %d times", err, ended)
	}
	close(e.tailReady())
	s, err := e.HomePosts(t.Context(), "cyd", count)
	if err != nil || ended != 1 {
		t.Fatalf("%v, told %d times before the end", err, ended-1)
	}
	s.Close()
	s.Close()
	if ended != 2 {
		t.Errorf("told %d times, want once", ended-1)
	}
}

// A stream of a post is opened only if readers see the post.
func TestOpen_OfPost(t *testing.T) {
	failed := &blog.Error{Code: blog.Unavailable}
	for name, tt := range map[string]struct {
		post *blog.Post
		err  error
		want blog.Code // "": opened
	}{
		"exists":         {&blog.Post{ID: "p", Byline: blog.Byline{UserID: "ada"}}, nil, ""},
		"does not exist": {nil, nil, blog.NotFound},
		"hidden":         {&blog.Post{ID: "p", Byline: blog.Byline{UserID: "bob"}}, nil, blog.NotFound},
		"not read":       {nil, failed, blog.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvents(t, &deletions{hidden: "bob", until: "9"})
			e.o.ReadPost = func(_ context.Context, id string) (*blog.Post, error) {
				if id != "p" || e.streams() != 1 { // opened before, so as not to miss a deletion
					return nil, errors.New("not opened before")
				}
				return tt.post, tt.err
			}
			close(e.tailReady())
			s, err := e.PostChanges(t.Context(), "p")
			if tt.want != "" {
				if s != nil || blog.CodeOf(err) != tt.want || e.listeners() != 0 {
					t.Errorf("got %v, %v with %d listeners, want %s and none", s, err, e.listeners(), tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			e.EndOfAuthor("ada")
			if _, open := <-s.Events(); open {
				t.Error("the end of the author does not end it")
			}
		})
	}
}
