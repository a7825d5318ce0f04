package e2e

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/servertest"
	"byline/store/blog"
)

// cluster is three instances on one engine.
type cluster struct {
	engine  *engineProcess
	args    []string // flags of the instances
	program string   // file of the program that start starts; "" for this test binary

	mu        sync.Mutex
	instances [3]*process // guarded by mu
	shared    []string    // guarded by mu; posts that all writers comment on and like
	users     []string    // guarded by mu; users whom all writers follow
}

func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	args := slices.Concat([]string{"--listen=localhost:0", "--rename-cooldown=1s"}, c.engine.flags(), c.args)
	cmd := servertest.Command(args...)
	if c.program != "" {
		cmd = exec.Command(c.program, args...)
	}
	p := servertest.StartCommand(t, cmd)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[i] = p
}

func (c *cluster) at(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instances[i]
}

func (c *cluster) share(post string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = append(c.shared, post)
}

func (c *cluster) somePost(r *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shared[r.IntN(len(c.shared))]
}

func (c *cluster) join(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users = append(c.users, user)
}

func (c *cluster) someUser(r *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users[r.IntN(len(c.users))]
}

// writer is a client that writes and records every acknowledged write. After a retry it freezes the item, that is,
// does not change it again: an earlier attempt may still be in flight.
type writer struct {
	t      *testing.T
	c      *cluster
	random *rand.Rand

	subject, id, name  string
	session            string // reads its own writes on every instance
	frozen             bool   // the name; see writer
	current            bool   // step also searches, follows and bookmarks, which older versions cannot
	renamed            time.Time
	renameEvery        time.Duration
	posts              map[string]*chaosPost
	comments           map[string]*chaosComment
	likes, bookmarks   map[string]*chaosLike // by post
	follows            map[string]*chaosLike // by user
	operations, number int
	retries            int
}

type chaosPost struct {
	title, content          string
	former                  []string // titles
	shared, deleted, frozen bool
	version                 float64
}

type chaosComment struct {
	post, content string
	deleted       bool
}

// chaosLike is a like, a bookmark or a follow.
type chaosLike struct{ removed, frozen bool }

func newWriter(t *testing.T, c *cluster, name string, r *rand.Rand) *writer {
	return &writer{t: t, c: c, random: r, subject: name, name: name, posts: map[string]*chaosPost{},
		comments: map[string]*chaosComment{}, likes: map[string]*chaosLike{}, bookmarks: map[string]*chaosLike{},
		follows: map[string]*chaosLike{}}
}

// do sends an operation to one instance after the other until it gets a response. A response with the
// code is returned. again reports whether the operation was retried.
func (w *writer) do(query string, variables map[string]any, code string) (data map[string]any, refused, again bool) {
	w.operations++
	for deadline := time.Now().Add(time.Minute); ; again = true {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		out, err := w.c.at(w.random.IntN(len(w.c.instances))).PostIn(ctx, w.session, w.subject, query, variables)
		cancel()
		if out.Session != "" {
			w.session = out.Session
		}
		var got any
		if err == nil && out.Errors == nil {
			return out.Data, false, again
		} else if err == nil {
			if got = out.Errors[0].Extensions["code"]; got == code {
				return nil, true, again
			}
			// What is not found may be a post of another writer that has not reached the replica.
			if got != "THROTTLED" && got != "UNAVAILABLE" && got != "CONFLICT" && got != "NOT_FOUND" {
				w.t.Errorf("%s: %v", query, out.Errors)
				return nil, true, again
			}
		}
		if time.Now().After(deadline) {
			w.t.Errorf("%s got no response: %v %v", query, err, out.Errors)
			return nil, true, again
		}
		w.retries++
		pause(w.random, 5*time.Millisecond, 25*time.Millisecond)
	}
}

// key returns a new idempotency key.
func (w *writer) key() string {
	w.number++
	return fmt.Sprint(w.subject, "-", w.number)
}

// create makes the writer's user and first post.
func (w *writer) create() {
	data, refused,
		_ := w.do(`mutation($name: String!, $key: String) { createUser(input: {username: $name, idempotencyKey: $key}) { user { id } } }`,
		map[string]any{"name": w.name, "key": w.key()}, "")
	if refused {
		return
	}
	w.id = at(w.t, data, "createUser.user.id").(string)
	w.c.join(w.id)
	w.write(true)
}

// step sends one random operation.
func (w *writer) step() {
	switch n := w.random.IntN(100); {
	case n < 3 && w.current:
		w.search(w.subject, "RELEVANCE", 20)
	case n < 34:
		w.comment()
	case n < 37 && w.current:
		w.follow()
	case n < 40 && w.current:
		w.toggle(w.bookmarks, w.c.somePost(w.random), `bookmarkPost(input: {id: $id}) { post { viewerHasBookmarked } }`,
			`removeBookmark(input: {id: $id}) { post { viewerHasBookmarked } }`)
	case n < 65:
		w.like()
	case n < 80:
		w.write(w.random.IntN(3) == 0)
	case n < 87:
		w.edit()
	case n < 91:
		w.deletePost()
	case n < 94:
		w.deleteComment()
	case n < 97:
		w.unlike()
	case n < 99:
		w.rename()
	default:
		w.do(q6, nil, "")
	}
}

// search returns the titles of the posts that a search finds on its first page, by id.
func (w *writer) search(query, order string, first int) map[string]string {
	data, _, _ := w.do(
		`query($query: String!, $order: SearchOrder!, $first: Int!) { search(query: $query, order: $order, first: $first) { edges { node { id title } } } }`,
		map[string]any{"query": query, "order": order, "first": first}, "")
	found := map[string]string{}
	edges, _ := find(data, "search.edges").([]any)
	for _, e := range edges {
		found[at(w.t, e, "node.id").(string)] = at(w.t, e, "node.title").(string)
	}
	return found
}

// checkSearches checks that each post is found by its title, and no post by a title that it had, or once deleted.
func (w *writer) checkSearches() {
	w.t.Helper()
	for id, p := range w.posts {
		want := map[string]string{id: p.title}
		if p.deleted {
			want = map[string]string{}
		}
		if got := w.search(`"`+p.title+`"`, "NEWEST", 100); !maps.Equal(got, want) {
			w.t.Errorf("a search for %q finds %v, want %v", p.title, got, want)
		}
		for _, title := range p.former {
			if got := w.search(`"`+title+`"`, "NEWEST", 100); len(got) > 0 {
				w.t.Errorf("a search for the former title %q finds %v", title, got)
			}
		}
	}
}

// content returns a text with the key, which every third time is too long to be stored on its post.
func (w *writer) content(key string) string {
	if w.random.IntN(3) > 0 {
		return key
	}
	return key + strings.Repeat(" long", (blog.InlineText+w.random.IntN(20_000))/len(" long"))
}

// tags returns up to five of eight tags.
func (w *writer) tags() []string {
	all := []string{"Go", "c#", "node.js", "Web Dev", "日本語", "rust", "sql", "tea"}
	w.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:w.random.IntN(6)]
}

func (w *writer) write(share bool) {
	key := w.key()
	content := w.content(key)
	data, refused,
		again := w.do(
		`mutation($title: String!, $content: String!, $tags: [String!], $key: String) { createPost(input: {title: $title, content: $content, tags: $tags, idempotencyKey: $key}) { post { id version } } }`,
		map[string]any{"title": key, "content": content, "tags": w.tags(), "key": key}, "")
	if refused {
		return
	}
	id := at(w.t, data, "createPost.post.id").(string)
	w.posts[id] = &chaosPost{title: key, content: content, shared: share, frozen: again,
		version: at(w.t, data, "createPost.post.version").(float64)}
	if share {
		w.c.share(id)
	}
}

// ownPost chooses a post of the writer that is neither deleted nor frozen, a shared one only if orShared is set.
func (w *writer) ownPost(orShared bool) (string, *chaosPost) {
	for id, p := range w.posts {
		if !p.deleted && !p.frozen && (orShared || !p.shared) {
			return id, p
		}
	}
	return "", nil
}

func (w *writer) edit() {
	id, p := w.ownPost(true)
	if p == nil {
		return
	}
	title := w.key()
	content := w.content(title)
	data, refused,
		again := w.do(
		`mutation($id: ID!, $title: String!, $content: String!, $tags: [String!], $version: Int) { updatePost(input: {id: $id, title: $title, content: $content, tags: $tags, version: $version}) { post { version } } }`,
		map[string]any{"id": id, "title": title, "content": content, "tags": w.tags(), "version": p.version}, "CONFLICT")
	if refused && !again {
		w.t.Errorf("edit of %s at version %v is refused", id, p.version)
	}
	p.former = append(p.former, p.title)
	p.title, p.content, p.frozen = title, content, again // after a retry, the conflict may be with the first attempt
	if !refused {
		p.version = at(w.t, data, "updatePost.post.version").(float64)
	}
}

func (w *writer) deletePost() {
	id, p := w.ownPost(false)
	if p == nil {
		return
	}
	if _, refused,
		again := w.do(`mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`,
		map[string]any{"id": id}, "NOT_FOUND"); refused && !again {
		w.t.Errorf("post %s is lost", id)
	}
	p.deleted = true
}

func (w *writer) comment() {
	post, key := w.c.somePost(w.random), w.key()
	if own, p := w.ownPost(false); p != nil && w.random.IntN(3) == 0 {
		post = own // it may be deleted, and the comment with it
	}
	data, refused,
		_ := w.do(`mutation($post: ID!, $content: String!, $key: String) { createComment(input: {postId: $post, content: $content, idempotencyKey: $key}) { comment { id } } }`,
		map[string]any{"post": post, "content": key, "key": key}, "")
	if !refused {
		w.comments[at(w.t, data, "createComment.comment.id").(string)] = &chaosComment{post: post, content: key}
	}
}

func (w *writer) deleteComment() {
	for id, c := range w.comments {
		if p := w.posts[c.post]; c.deleted || p != nil && p.deleted {
			continue
		}
		if _, refused,
			again := w.do(`mutation($id: ID!) { deleteComment(input: {id: $id}) { deletedCommentId } }`,
			map[string]any{"id": id}, "NOT_FOUND"); refused && !again {
			w.t.Errorf("comment %s is lost", id)
		}
		c.deleted = true
		return
	}
}

func (w *writer) like() {
	post := w.c.somePost(w.random)
	if w.likes[post] != nil {
		return
	}
	if _, refused, again := w.do(likePost, map[string]any{"post": post}, ""); !refused {
		w.likes[post] = &chaosLike{frozen: again}
	}
}

func (w *writer) unlike() {
	for post, l := range w.likes {
		if l.removed || l.frozen {
			continue
		}
		if _, refused, _ := w.do(unlikePost, map[string]any{"post": post}, ""); !refused {
			l.removed = true
		}
		return
	}
}

// follow follows some user, or ends the follow.
func (w *writer) follow() {
	if user := w.c.someUser(w.random); user != w.id {
		w.toggle(w.follows, user, `followUser(input: {id: $id}) { user { viewerFollows } }`,
			`unfollowUser(input: {id: $id}) { user { viewerFollows } }`)
	}
}

// toggle adds what an id stands for by a mutation, or removes it if it is there.
func (w *writer) toggle(all map[string]*chaosLike, id, add, remove string) {
	have := all[id]
	if have != nil && have.frozen {
		return
	}
	removed, mutation := have != nil && !have.removed, add
	if removed {
		mutation = remove
	}
	if _, refused, again := w.do("mutation($id: ID!) { "+mutation+" }", map[string]any{"id": id}, ""); !refused {
		all[id] = &chaosLike{removed: removed, frozen: again}
	}
}

func (w *writer) rename() {
	if w.frozen || time.Since(w.renamed) < w.renameEvery {
		return
	}
	w.renamed = time.Now()
	name := w.key()
	if _, refused, again := w.do(updateUser, map[string]any{"name": name}, ""); !refused {
		w.name, w.frozen = name, again
	}
}

// checkStored compares the acknowledged writes with the stored items.
func (w *writer) checkStored() {
	w.t.Helper()
	if data, _, _ := w.do(q1, map[string]any{"id": w.id}, ""); find(data, "user.username") != w.name {
		w.t.Errorf("%s is called %v, not %s", w.subject, find(data, "user.username"), w.name)
	}
	posts, comments, liked := w.nodes(maps.Keys(w.posts)), w.nodes(maps.Keys(w.comments)), w.nodes(maps.Keys(w.likes))
	for id, p := range w.posts {
		title, content := find(posts[id], "title"), find(posts[id], "content")
		if p.deleted && title != nil || !p.deleted && (title != p.title || content != p.content) {
			w.t.Errorf("post %s: %v %.40v, should be %+.200v", id, title, content, *p)
		}
	}
	for id, c := range w.comments {
		got := find(comments[id], "comment")
		if gone := w.gone(c); gone && got != nil || !gone && got != c.content {
			w.t.Errorf("comment %s: %v, should be %+v", id, got, *c)
		}
	}
	for post, l := range w.likes {
		if got := find(liked[post], "viewerHasLiked"); got != !l.removed {
			w.t.Errorf("%s's like of %s exists: %v, should be %+v", w.subject, post, got, *l)
		}
	}
}

// checkFollows compares the follows that were acknowledged with the follows and counts of all users.
func checkFollows(writers []*writer) {
	followers, following := map[string]int{}, map[string]int{}
	for _, w := range writers {
		for user, f := range w.follows {
			if !f.removed {
				followers[user]++
				following[w.id]++
			}
		}
	}
	for _, w := range writers {
		for _, of := range writers {
			data, _, _ := w.do(`query($id: ID!) { user(id: $id) { viewerFollows followerCount followingCount
				followers(first: 100) { edges { node { id } } } following(first: 100) { edges { node { id } } } } }`,
				map[string]any{"id": of.id}, "")
			f := w.follows[of.id]
			if got, want := find(data, "user.viewerFollows"), f != nil && !f.removed; got != want {
				w.t.Errorf("%s follows %s: %v, should be %v", w.subject, of.subject, got, want)
			}
			for list, want := range map[string]int{"followers": followers[of.id], "following": following[of.id]} {
				users, _ := find(data, "user."+list+".edges").([]any)
				count := find(data, "user."+strings.TrimSuffix(list, "s")+"Count")
				if count != float64(want) || len(users) != want {
					w.t.Errorf("%s of %s: count %v and %d users, should be %d", list, of.subject, count, len(users), want)
				}
			}
		}
	}
}

// checkLists compares the lists of the writer's own with the acknowledged writes: liked posts, bookmarks, and the posts
// of those whom the writer follows.
func (w *writer) checkLists(writers []*writer) {
	home := map[string]*chaosLike{}
	for _, of := range writers {
		for id, p := range of.posts {
			f := w.follows[of.id]
			home[id] = &chaosLike{removed: p.deleted || f == nil || f.removed}
		}
	}
	for name, all := range map[string]map[string]*chaosLike{"likedPosts": w.likes, "bookmarks": w.bookmarks, "home": home} {
		var want []string
		for id, l := range all {
			if !l.removed {
				want = append(want, id)
			}
		}
		got := w.list(name)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			w.t.Errorf("%s of %s: %v, should be %v", name, w.subject, got, want)
		}
	}
}

// list walks a list of the writer's posts, and returns their ids.
func (w *writer) list(name string) (ids []string) {
	for after, more := any(nil), true; more; {
		data, _, _ := w.do("query($after: String) { viewer { "+name+"(first: 100, after: $after) { edges { node { id } } "+
			"pageInfo { endCursor hasNextPage } } } }", map[string]any{"after": after}, "")
		edges, _ := find(data, "viewer."+name+".edges").([]any)
		for _, e := range edges {
			ids = append(ids, at(w.t, e, "node.id").(string))
		}
		after = find(data, "viewer."+name+".pageInfo.endCursor")
		more = find(data, "viewer."+name+".pageInfo.hasNextPage") == true
	}
	return ids
}

// nodes reads posts and comments as the writer.
func (w *writer) nodes(ids iter.Seq[string]) map[string]any {
	found := map[string]any{}
	for chunk := range slices.Chunk(slices.Collect(ids), 100) {
		data, _, _ := w.do(
			`query($ids: [ID!]!) { nodes(ids: $ids) { ... on Post { title content tags commentCount likeCount viewerHasLiked } ... on Comment { comment: content } } }`,
			map[string]any{"ids": chunk}, "")
		for i, id := range chunk {
			found[id] = find(data, fmt.Sprint("nodes.", i))
		}
	}
	return found
}

// gone reports whether a comment or its post was deleted.
func (w *writer) gone(c *chaosComment) bool {
	p := w.posts[c.post]
	return c.deleted || p != nil && p.deleted
}

// checkTags checks that the most used tags, and the number of all posts, have the counts of the stored posts.
func checkTags(writers []*writer) {
	want, posts := map[string]float64{}, 0.0
	for _, w := range writers {
		for _, p := range w.nodes(maps.Keys(w.posts)) {
			if find(p, "title") == nil {
				continue
			}
			posts++
			tags, _ := find(p, "tags").([]any)
			for _, tag := range tags {
				key, _ := blog.TagKey(tag.(string))
				want[key]++
			}
		}
	}
	w := writers[0]
	eventually(w.t, func() error { // caches are older by one poll
		data, _, _ := w.do(`{ tags(first: 100) { name postCount } feed(first: 1) { totalCount } }`, nil, "")
		got := map[string]float64{}
		for _, tag := range find(data, "tags").([]any) {
			got[find(tag, "name").(string)] = find(tag, "postCount").(float64)
		}
		if total := find(data, "feed.totalCount"); !maps.Equal(got, want) || total != posts {
			return fmt.Errorf("tags have %v of %v posts, want %v of %v", got, total, want, posts)
		}
		return nil
	})
}

// checkCounts finds writes that were stored twice: it compares the counts of the posts with the
// acknowledged writes of all writers.
func checkCounts(writers []*writer) {
	comments, likes := map[string]int{}, map[string]int{}
	for _, w := range writers {
		for _, c := range w.comments {
			if !w.gone(c) {
				comments[c.post]++
			}
		}
		for post, l := range w.likes {
			if !l.removed {
				likes[post]++
			}
		}
	}
	for _, w := range writers {
		stored := w.nodes(maps.Keys(w.posts))
		for id, p := range w.posts {
			if p.deleted {
				continue
			}
			if c, l := find(stored[id], "commentCount"),
				find(stored[id], "likeCount"); c != float64(comments[id]) || l != float64(likes[id]) {
				w.t.Errorf("post %s has %v comments and %v likes, of which %d and %d were acknowledged", id, c, l,
					comments[id], likes[id])
			}
		}
		n := len(w.list("posts"))
		for _, p := range w.posts {
			if !p.deleted {
				n--
			}
		}
		if n != 0 {
			w.t.Errorf("%s has %d posts more than were acknowledged", w.subject, n)
		}
	}
}
