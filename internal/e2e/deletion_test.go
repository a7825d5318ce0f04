package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/graph/auth"
	"byline/graph/globalid"
	"byline/internal/itemjson"
	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/username"
)

var (
	deletionPosts    = flag.Int("deletion.posts", testkit.Pick(20, 1000), "posts of the user whom TestDeletion deletes")
	deletionComments = flag.Int("deletion.comments", testkit.Pick(100, 20_000),
		"comments of that user on posts of others")
	deletionLikes = flag.Int("deletion.likes", testkit.Pick(100, 50_000), "likes of that user, each on another post")
)

// TestDeletion deletes a user by the mutation while others write to the same posts, instances are killed, and the
// engine injects chaosFault. Until the deletion has ended, the user cannot be created again. Afterwards the test
// reads every item of every container: none has the user's id or name, every count is right, and no write of others
// is lost. Then it creates the user again. The sizes are parameters:
//
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestDeletion -v
//	go test ./internal/e2e -run TestDeletion -deletion.posts 100 -deletion.comments 2000 -deletion.likes 5000 -v
func TestDeletion(t *testing.T) {
	t.Parallel()
	engine := startEngine(t)
	c := &cluster{engine: engine, args: []string{"--background-ru=0"}}
	for i := range c.instances {
		c.start(t, i)
	}
	var writers []*writer
	for i := range 3 {
		w := newWriter(t, c, fmt.Sprintf("writer%d", i), rand.New(rand.NewPCG(1, uint64(i))))
		w.renameEvery = time.Minute
		w.create()
		writers = append(writers, w)
	}
	d := newDeletedUser(t, engine)
	d.write(c.shared)

	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer cancel()
	for _, w := range writers {
		load.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				w.step()
				pause(w.random, 0, 20*time.Millisecond)
			}
		})
	}
	began := time.Now()
	session := d.delete(c.at(0))
	d.checkCreateRefused(c.at(0), session)
	d.checkCreateRefused(c.at(1), session)
	if !testkit.Long() {
		// The user's items are a day old, so the grace period for requests in flight may be nearly over.
		d.backdate(began.Add(-58 * time.Second))
	}
	for i := range c.instances { // which have the mutation in memory
		c.at(i).Kill()
		c.start(t, i)
	}
	random := rand.New(rand.NewPCG(1, 0))
	kills, every := 0, testkit.Pick(time.Second, 10*time.Second)
	for again := time.Now().Add(every / 2); ; pause(random, 50*time.Millisecond, 100*time.Millisecond) {
		if d.ended() {
			break
		}
		if time.Since(began) > testkit.Pick(time.Minute, time.Hour) {
			t.Fatal("the deletion does not end")
		}
		if kills < testkit.Pick(2, 10) && time.Now().After(again) {
			i := random.IntN(len(c.instances))
			c.at(i).Kill()
			c.start(t, i)
			kills++
			again = time.Now().Add(every)
		}
	}
	took := time.Since(began)
	cancel()
	load.Wait()
	pause(random, chaosReplicaLag, 2*chaosReplicaLag) // for the last writes to be on every replica
	var out, log output
	if status := run(t.Context(), append([]string{"views", "verify", "--settle", "1m"}, engine.flags()...), &out, &log,
		nil); status != 0 {
		t.Errorf("views verify: status %d: %s%s", status, out.String(), log.String())
	}
	read := d.check()
	operations := 0
	for _, w := range writers {
		w.checkStored()
		operations += w.operations
	}
	checkCounts(writers)
	d.recreate(c.at(1))
	t.Logf("deleted in %v, beside %d operations and %d kills; none of the %d remaining items has the user's id or name", took.Round(time.Millisecond), operations, kills, read)
}

// deletedUser is the user to delete, with a client of the engine.
type deletedUser struct {
	t          *testing.T
	subject    string
	id         string
	name       string
	containers map[string]*cosmos.Container
}

func newDeletedUser(t *testing.T, engine *engineProcess) *deletedUser {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	account, err := cosmos.Open(cosmos.Options{Endpoint: "http://" + engine.address + "/",
		Key: os.Getenv("COSMOS_KEY"), Transport: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	d := &deletedUser{t: t, subject: "zuleika", id: auth.DemoUserID("zuleika"), name: "zuleika-dobson",
		containers: map[string]*cosmos.Container{}}
	for _, name := range append(store.Containers(), blog.LeasesContainer) {
		if d.containers[name], err = account.Background().Container("blog", name); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// write stores the user, posts of the user with a like and comments by another user, and likes and comments of the
// user on posts of that other user and on the shared posts, which are global ids.
func (d *deletedUser) write(shared []string) {
	d.t.Helper()
	yesterday := time.Now().Add(-24 * time.Hour)
	date := func(i int) blog.Date { return blog.NewDate(yesterday.Add(time.Duration(i) * time.Millisecond)) }
	var g errgroup.Group
	g.SetLimit(8)
	create := func(container, partition string, items ...any) {
		g.Go(func() error {
			encoded := make([][]byte, len(items))
			for i, item := range items {
				var err error
				if encoded[i], err = itemjson.Encode(item); err != nil {
					return err
				}
			}
			_, conflict, err := d.containers[container].CreateAll(d.t.Context(), partition, encoded)
			if conflict {
				err = errors.New("it exists")
			}
			return err
		})
	}
	user := func(id, name string) {
		create(blog.UsersContainer, id,
			blog.UserItem{Envelope: blog.Envelope{Type: blog.TypeUser}, ItemID: id,
				User: blog.User{Byline: blog.Byline{UserID: id, Username: name}, CreatedAt: date(0),
					Revision: 1},
				FormerUsernames: []string{"former-" + name}})
		for _, name := range []string{name, "former-" + name} {
			k := username.Key(name)
			create(blog.UsersContainer, k, username.New(id, name, date(0)))
		}
	}
	post := func(id, author, name, content string, comments, likes int32, i int) []any {
		item, text := blog.NewPostItem(&blog.Post{ID: id, Byline: blog.Byline{UserID: author, Username: name},
			Title: id, Content: content, CommentCount: comments, LikeCount: likes,
			CreatedAt: date(i), Version: 1, Revision: 1 + int64(comments+likes)})
		if text != nil {
			return []any{item, text}
		}
		return []any{item}
	}
	comment := func(id, postID, author, name string, i int) blog.CommentItem {
		return blog.CommentItem{Envelope: blog.Envelope{Type: blog.TypeComment},
			Comment: blog.Comment{ID: id, PostID: postID, Byline: blog.Byline{UserID: author, Username: name},
				Content: "by " + name, CreatedAt: date(i)}}
	}
	like := func(postID, author, name string, i int) blog.LikeItem {
		return blog.LikeItem{Envelope: blog.Envelope{Type: blog.TypeLike}, ID: blog.LikeID(author),
			Like: blog.Like{PostID: postID, Byline: blog.Byline{UserID: author, Username: name}, CreatedAt: date(i)}}
	}
	const crowd, crowdName = "c0ffee00c0ffee00c0ffee00c0ffee00", "crowd"
	name := d.name
	user(crowd, crowdName)
	user(d.id, name)
	for i := range *deletionPosts {
		id, content := fmt.Sprint("own-", i), "by "+name
		if i%10 == 0 {
			content = strings.Repeat(name+" ", 500)
		}
		items := append(post(id, d.id, name, content, 3, 1, i), like(id, crowd, crowdName, i),
			comment("mine", id, d.id, name, i))
		create(blog.PostsContainer, id,
			append(items, comment("one", id, crowd, crowdName, i), comment("two", id, crowd, crowdName, i))...)
	}
	for i := range *deletionLikes {
		id := fmt.Sprint("other-", i)
		comments := *deletionComments*(i+1) / *deletionLikes - *deletionComments*i / *deletionLikes
		items := append(post(id, crowd, crowdName, "by the crowd", int32(comments), 1, i), like(id, d.id, name, i))
		for n := range comments {
			items = append(items, comment(fmt.Sprint("comment-", n), id, d.id, name, i))
		}
		create(blog.PostsContainer, id, items...)
	}
	for _, global := range shared {
		id, err := globalid.Parse(global)
		if err != nil {
			d.t.Fatal(err)
		}
		g.Go(func() error {
			var b cosmos.Batch
			b.Create(blog.Encode(like(id.Key, d.id, name, 0)))
			b.Create(blog.Encode(comment("of-"+d.id, id.Key, d.id, name, 0)))
			var p cosmos.Patch
			p.Increment("/commentCount", 1)
			p.Increment("/likeCount", 1)
			p.Increment("/revision", 1)
			b.Patch(id.Key, p)
			r, err := d.containers[blog.PostsContainer].Batch(d.t.Context(), id.Key, &b)
			return errors.Join(err, r.Err())
		})
	}
	if err := g.Wait(); err != nil {
		d.t.Fatal(err)
	}
}

// send sends an operation of the user, and retries it while an injected fault makes it fail.
func (d *deletedUser) send(p *process, session, query string) (out servertest.Response) {
	d.t.Helper()
	testkit.Until(d.t, func() (err error) {
		out, err = p.PostIn(d.t.Context(), session, d.subject, query, map[string]any{"name": d.name})
		if err == nil && len(out.Errors) > 0 {
			if code := out.Errors[0].Extensions["code"]; code == "THROTTLED" || code == "UNAVAILABLE" {
				err = fmt.Errorf("%v", out.Errors)
			}
		}
		return err
	})
	return out
}

// delete deletes the user, and returns the session.
func (d *deletedUser) delete(p *process) (session string) {
	d.t.Helper()
	out := d.send(p, "", `mutation($name: String!) { deleteUser(input: {username: $name}) { deletedUserId } }`)
	if len(out.Errors) > 0 {
		d.t.Fatalf("deleteUser: %v", out.Errors)
	}
	return out.Session
}

// checkCreateRefused checks that the user cannot be created again yet, and that the error has retryAfterMs.
func (d *deletedUser) checkCreateRefused(p *process, session string) {
	d.t.Helper()
	out := d.send(p, session, createUser)
	if len(out.Errors) == 0 || out.Errors[0].Extensions["code"] != "CONFLICT" {
		d.t.Fatalf("createUser during the deletion: %v %v", out.Data, out.Errors)
	}
	if ms, _ := out.Errors[0].Extensions["retryAfterMs"].(float64); ms < 1 ||
		ms > float64(blog.DeletionGrace.Milliseconds()) {
		d.t.Errorf("retryAfterMs is %v, want 1 to %d", ms, blog.DeletionGrace.Milliseconds())
	}
}

// recreate creates the user again, with the same name and without posts.
func (d *deletedUser) recreate(p *process) {
	d.t.Helper()
	out := d.send(p, "", createUser)
	if len(out.Errors) > 0 {
		d.t.Fatalf("createUser after the deletion: %v", out.Errors)
	}
	out = d.send(p, out.Session, `{ viewer { username posts { edges { cursor } } } }`)
	if got := fmt.Sprint(out.Data["viewer"], out.Errors); got != fmt.Sprintf("map[posts:map[edges:[]] username:%s] []",
		d.name) {
		d.t.Errorf("the recreated user: %s", got)
	}
}

// backdate changes the date of the deletion.
func (d *deletedUser) backdate(to time.Time) {
	d.t.Helper()
	var p cosmos.Patch
	p.Set("/deletionDate", blog.NewDate(to))
	p.Increment("/revision", 1)
	if _, err := d.containers[blog.UsersContainer].Patch(d.t.Context(), cosmos.Key{Partition: d.id, ID: d.id},
		p); err != nil {
		d.t.Fatal(err)
	}
}

// ended reports whether the user and the job are gone.
func (d *deletedUser) ended() bool {
	d.t.Helper()
	job := "deleteUser." + d.id
	for container, id := range map[string]string{blog.UsersContainer: d.id, blog.LeasesContainer: job} {
		item, err := d.containers[container].Read(d.t.Context(), cosmos.Key{Partition: id, ID: id})
		if err != nil {
			d.t.Fatal(err)
		}
		if item.Value != nil {
			return false
		}
	}
	return true
}

// check checks that no item has the user's id or name, and returns the number of items.
func (d *deletedUser) check() (read int) {
	d.t.Helper()
	for name, c := range d.containers {
		for page, err := range c.Query(d.t.Context(),
			cosmos.Query{Text: "SELECT * FROM c", AllPartitions: true, PageSize: 1000}) {
			if err != nil {
				d.t.Fatal(err)
			}
			read += len(page)
			for _, item := range page {
				for _, text := range []string{d.name, d.id} {
					if bytes.Contains(item, []byte(text)) {
						d.t.Errorf("%s has an item with %s: %s", name, text, item)
					}
				}
			}
		}
	}
	return read
}
