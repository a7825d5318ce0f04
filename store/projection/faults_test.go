package projection_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	gocmp "github.com/google/go-cmp/cmp"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/files"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/jobs"
	"byline/store/projection"
	"byline/store/search"
	"byline/store/username"
)

// faultWorld is a small blog whose requests can fail. Its ids are the same in every world.
type faultWorld struct {
	*world
	wire       *faulttest.Transport
	ada, bob   *blog.User
	max        *blog.User // whom bob followed
	post, long *blog.Post // by ada; bob likes post, and has written on it
	comment    *blog.Comment
	found      []projection.Difference
	changes    [][]byte // for a handler
}

func newFaultWorld(t testing.TB, o store.Options) *faultWorld {
	w := &faultWorld{world: newWorldWith(t, o)}
	w.wire = &faulttest.Transport{To: w.Wire.To}
	w.Wire.To = w.wire
	return w
}

func (w *faultWorld) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

func (w *faultWorld) add(author *blog.User, title, content string) *blog.Post {
	w.T.Helper()
	p, err := w.CreatePost(w.T.Context(),
		store.NewPost{AuthorID: author.UserID, Title: title, Content: content, Key: title,
			Tags: []string{"all", title}})
	w.must(err)
	return p
}

// followItem returns an item of a follow as it is stored.
func (w *faultWorld) followItem(partition, id string) *blog.FollowItem {
	w.T.Helper()
	for _, raw := range w.items("users") {
		item, err := blog.DecodeFollow("read follow", raw)
		w.must(err)
		if item != nil && item.UserID == partition && item.ID == id {
			return item
		}
	}
	w.T.Fatalf("no item %s in %s", id, partition)
	return nil
}

// write writes the blog, whose changes no projection has handled.
func (w *faultWorld) write() {
	w.T.Helper()
	w.begin()
	w.ada, w.bob, w.max = w.AddUser("ada"), w.AddUser("bob"), w.AddUser("max")
	w.post, w.long = w.add(w.ada, "post", "short"), w.add(w.ada, "long", strings.Repeat("long ", 2000))
	gone := w.add(w.ada, "gone", "short")
	for i, p := range []*blog.Post{w.post, w.long, gone} {
		c, _, err := w.CreateComment(w.T.Context(),
			store.NewComment{AuthorID: w.bob.UserID, PostID: p.ID, Content: "c", Key: "c"})
		w.must(err)
		if i == 0 {
			w.comment = c
		}
		w.AddLike(w.bob, p)
	}
	w.follow(w.bob, w.ada)
	w.follow(w.ada, w.bob)
	w.follow(w.bob, w.max)
	_, err := w.UnfollowUser(w.T.Context(), w.bob.UserID, w.max.UserID)
	w.must(err)
	w.rename(w.bob, "rob")
	w.must(w.DeletePost(w.T.Context(), w.ada.UserID, gone.ID))
	late, _ := json.Marshal(map[string]any{"id": "late", "type": "comment", "postId": gone.ID, "userId": w.bob.UserID,
		"userUsername": "rob", "content": "late", "creationDate": gone.CreatedAt})
	w.Upsert("posts", gone.ID, string(late)) // as if written while the post was deleted
}

// items returns all items of a container, as its change feed has them.
func (w *faultWorld) items(container string) (all [][]byte) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, container)
	w.must(err)
	for pager := c.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil); pager.More(); {
		page, err := pager.NextPage(w.T.Context())
		w.must(err)
		all = append(all, page.Items...)
	}
	return all
}

// endedLike returns the view of a like that does not exist.
func (w *faultWorld) endedLike() blog.SavedItem {
	return (&blog.Like{PostID: w.long.ID, Byline: w.max.Byline, CreatedAt: w.long.CreatedAt}).Liked()
}

// handle calls the handler of a processor with all items.
func (w *faultWorld) handle(processor string) {
	w.T.Helper()
	handlers, sources := w.Views().Handlers()
	w.must(handlers[processor](w.T.Context(), w.items(sources[processor])))
}

// work does a job to its end.
func (w *faultWorld) work(ctx context.Context, j jobs.Job) error {
	for range 100 {
		step, err := w.Views().Work()[j.Kind](ctx, j)
		if err != nil || step.Done {
			return err
		}
		j.Position = step.Position
		w.Clock.Millis.Add(step.Wait.Milliseconds())
	}
	return errors.New("the job does not end")
}

// settle handles all changes, and does all jobs, twice: their changes are handled, too.
func (w *faultWorld) settle() {
	w.T.Helper()
	ctx := w.T.Context()
	w.Clock.Millis.Add(2 * username.Grace.Milliseconds()) // the sweep of usernames does not wait
	for range 2 {
		handlers, _ := w.Views().Handlers()
		for _, processor := range slices.Sorted(maps.Keys(handlers)) {
			w.handle(processor)
		}
		all, err := w.Views().Jobs(ctx)
		w.must(err)
		for _, j := range all {
			w.must(w.work(ctx, j))
			w.Remove("leases", j.ID, j.ID)
		}
	}
}

// sources returns the items of users and posts without what depends on time and on the number of writes.
func (w *faultWorld) sources() []string {
	var all []string
	for _, container := range []string{"users", "posts"} {
		for _, raw := range w.items(container) {
			var item map[string]any
			w.must(json.Unmarshal(raw, &item))
			for name := range item {
				if strings.HasPrefix(name, "_") || strings.HasSuffix(name, "Date") || name == "revision" ||
					name == "renames" {
					delete(item, name)
				}
			}
			b, err := json.Marshal(item)
			w.must(err)
			all = append(all, container+" "+string(b))
		}
	}
	slices.Sort(all)
	return all
}

// faultOperation is an operation whose requests fail.
type faultOperation struct {
	options store.Options
	prepare func(*faultWorld) // default: write
	do      func(context.Context, *faultWorld) (any, error)
	reads   bool // changes nothing, so that all cases share a world

	// believes are faults that cannot be told from the truth: the operation changes items accordingly.
	believes []string

	ignores func(projection.Difference) bool // differences that the operation leaves; nil: none
}

// sweepOfFiles deletes a file that nothing uses, and never one that a post, a draft or the user does.
func sweepOfFiles() faultOperation {
	var dir string
	var ids []blog.FileID // the last one is unused
	exists := func(id blog.FileID) bool {
		_, err := os.Stat(filepath.Join(dir, "files", string(id)))
		return err == nil
	}
	return faultOperation{
		prepare: func(w *faultWorld) {
			w.write()
			dir, ids = w.T.TempDir(), nil
			s, err := files.NewFolder(dir, files.Options{})
			w.must(err)
			for i := range 5 {
				id, _ := blog.NewFileID(w.ada.UserID, "image/png", 1, [10]byte{byte(i)})
				path := filepath.Join(dir, "files", string(id))
				w.must(os.WriteFile(path, []byte{0}, 0o600))
				w.must(os.Chtimes(path, time.Time{}, w.Clock.Now().Add(-48*time.Hour)))
				ids = append(ids, id)
			}
			w.Upsert(blog.PostsContainer, "with-files", string(blog.Encode(withFiles(w.ada, ids[0], ids[1]))))
			draft := blog.NewDraftItem(&withFiles(w.ada, ids[2]).Post)
			w.Upsert(blog.UsersContainer, w.ada.UserID, string(blog.Encode(draft)))
			w.Corrupt(blog.UsersContainer, w.ada.UserID, w.ada.UserID, "/userAvatarUrl", ids[3].Path())
			w.Store, err = store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now, Files: s})
			w.must(err)
		},
		do: func(ctx context.Context, w *faultWorld) (any, error) {
			err := w.work(ctx, jobs.Job{ID: "sweepFiles.files", Kind: "sweepFiles", Subject: "files"})
			for _, id := range ids[:4] {
				if !exists(id) {
					w.T.Errorf("%s, which is used, is deleted", id)
				}
			}
			return exists(ids[4]), err
		}}
}

// withFiles returns a post whose picture is the first file and whose text has the others.
func withFiles(author *blog.User, ids ...blog.FileID) *blog.PostItem {
	p := &blog.Post{ID: "with-files", Byline: author.Byline, Title: "t", Content: "c", CoverURL: blog.CoverURL(ids[0], 1, 1),
		CreatedAt: author.CreatedAt, Version: 1, Revision: 1}
	for _, id := range ids[1:] {
		p.Content += " " + id.Path()
	}
	item, _ := blog.NewPostItem(p)
	return &item
}

// ofViews are the operations of Views, by method and variant.
var ofViews = map[string]faultOperation{
	"CheckFeed": {reads: true, do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().CheckFeed(ctx)
	}},
	"CheckFeed/of several partitions": {reads: true, options: store.Options{FeedPartitions: 2},
		prepare: func(w *faultWorld) {
			w.write()
			w.settle()
			w.must(w.Views().FillFeed(w.T.Context()))
			w.Store = newWithPartitions(w, 0)
		},
		do: func(ctx context.Context, w *faultWorld) (any, error) {
			err := w.Views().CheckFeed(ctx)
			if blog.CodeOf(err) == blog.Conflict {
				return "refused", nil
			}
			return "accepted", err
		}},
	"FillFeed": {
		prepare: func(w *faultWorld) {
			w.write()
			w.settle()
			w.Store = newWithPartitions(w, 2)
		},
		do: func(ctx context.Context, w *faultWorld) (any, error) {
			return nil, w.Views().FillFeed(ctx)
		},
		ignores: func(d projection.Difference) bool { // of the partition that is no longer used
			return d.Kind == projection.FeedEntry && d.Partition == blog.FeedPartitionKeys(1)[0]
		}},
	"Jobs": {reads: true,
		prepare: func(w *faultWorld) {
			w.write()
			w.handle("projections-users")
		},
		do: func(ctx context.Context, w *faultWorld) (any, error) {
			all, err := w.Views().Jobs(ctx)
			return len(all), err
		}},
	"Verify": {reads: true, do: verify,
		prepare: func(w *faultWorld) {
			w.write()
			w.settle()
		}},
	"ProjectFeed": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().ProjectFeed(ctx, []*blog.Post{w.post, w.long})
	}},
	"ProjectSummaries": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().ProjectSummaries(ctx, w.post, w.long)
	}},
	"RefillFeed": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().RefillFeed(ctx)
	}, prepare: func(w *faultWorld) {
		w.write()
		w.settle()
		w.Remove("feed", "post", w.post.ID)
	}},
	"ReadFull": {prepare: func(*faultWorld) {}, do: func(ctx context.Context, w *faultWorld) (any, error) {
		if err := w.Views().ReadFull(ctx); err != nil {
			return nil, err
		}
		return w.Views().Full(), nil
	}},
	"ProjectTimelines": {believes: entryExists, do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().ProjectTimelines(ctx, w.post, w.long)
	}},
	"ProjectSearch": {believes: itemExists, do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().ProjectSearch(ctx, w.post, w.long)
	}},
	"ProjectSearchItems": {believes: itemExists, do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().ProjectSearchItems(ctx, w.post, w.long)
	}},
	"UpdateEdited": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		w.Views().UpdateEdited(ctx, w.post, projection.Edit{Texts: true})
		return nil, nil
	}},
	"UpdateViews": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		w.Views().UpdateViews(ctx, w.post)
		return nil, nil
	}},
	"UpdateFollowing": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().WriteFollowing(ctx, w.followItem(w.ada.UserID, blog.FollowerID(w.bob.UserID)))
	}},
	"UpdateFollowing/ended": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().WriteFollowing(ctx, w.followItem(w.max.UserID, blog.FollowerID(w.bob.UserID)))
	}},
	"DeleteOrphan": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().DeleteOrphanNow(ctx, blog.TypeLiked, w.max.UserID, w.long.ID)
	}, prepare: func(w *faultWorld) {
		w.write()
		w.Upsert("users", w.max.UserID, string(blog.Encode(w.endedLike())))
	}, believes: []string{"404 in a batch"}},
	"DeleteOrphan/bookmark": {believes: []string{"404 in a batch"}, do: func(ctx context.Context, w *faultWorld) (any, error) {
		return nil, w.Views().DeleteOrphanNow(ctx, blog.TypeBookmark, w.bob.UserID, w.post.ID)
	}, prepare: func(w *faultWorld) {
		w.write()
		w.Upsert("users", w.bob.UserID, string(blog.Encode(blog.NewBookmark(w.bob.UserID, w.post.ID, w.post.CreatedAt))))
	}},
	"BeginLoad": {do: func(ctx context.Context, w *faultWorld) (any, error) {
		end, err := w.Views().BeginLoad(ctx)
		if err != nil {
			return nil, err
		}
		return nil, end(ctx)
	}},
}

// entryExists are the faults that a process that creates an entry of a timeline believes: the entry exists, or the post
// does not.
var entryExists = []string{"409 of a create", "409 in a batch", "404 in a batch"}

// itemExists are the faults that a bulk load believes: the search item exists, or its post does not.
var itemExists = []string{"409 in a batch", "404 in a batch"}

// damages are differences of each kind that Repair repairs.
var damages = map[string]func(*faultWorld){
	string(projection.Summary):   func(w *faultWorld) { w.Remove("users", w.ada.UserID, w.post.ID) },
	string(projection.FeedEntry): func(w *faultWorld) { w.Remove("feed", "post", w.long.ID) },
	string(projection.Count):     func(w *faultWorld) { w.Corrupt("posts", w.long.ID, w.long.ID, "/likeCount", 7) },
	string(projection.Text): func(w *faultWorld) {
		w.Corrupt("posts", w.post.ID, w.post.ID, "/content", strings.Repeat("inline ", 2000))
	},
	string(projection.Text) + " without a post": func(w *faultWorld) {
		w.Upsert("posts", "nothing",
			string(blog.Encode(blog.NewText("nothing", w.ada.UserID, strings.Repeat("x", 11_000)))))
	},
	string(projection.Byline): func(w *faultWorld) {
		w.Corrupt("posts", w.post.ID, w.comment.ID, "/userUsername", "somebody")
	},
	string(projection.Username): func(w *faultWorld) { w.Remove("users", "username:ada", "username:ada") },
	string(projection.Username) + " of two users": func(w *faultWorld) {
		eve := w.AddUser("eve")
		w.Corrupt("users", eve.UserID, eve.UserID, "/username", "rob")
	},
	string(projection.SearchItem): func(w *faultWorld) { w.Remove("search", "2020s", w.post.ID) },
	string(projection.SearchItem) + " of an older text": func(w *faultWorld) {
		w.Corrupt("search", "2020s", w.long.ID, "/text", "old")
	},
	string(projection.SearchItem) + " without a post": func(w *faultWorld) {
		w.Upsert("search", "2020s", string(blog.Encode(search.NewItem(&blog.Post{ID: "nothing", CreatedAt: w.post.CreatedAt,
			Byline: w.post.Byline, Title: "Nothing", Content: "Nothing", Version: 1}))))
	},
	string(projection.Follower): func(w *faultWorld) {
		w.Corrupt("users", w.ada.UserID, blog.FollowerID(w.bob.UserID), "/follower/userUsername", "somebody")
	},
	string(projection.Follower) + " without a user": func(w *faultWorld) {
		nobody := blog.NewFollow(w.ada.UserID, blog.Byline{UserID: "nobody", Username: "nobody"}, w.ada.CreatedAt, 1)
		w.Upsert("users", w.ada.UserID, string(blog.Encode(nobody)))
		w.Corrupt("users", w.ada.UserID, w.ada.UserID, "/followerCount", 2)
	},
	string(projection.Following): func(w *faultWorld) {
		w.Remove("users", w.bob.UserID, blog.FollowingID(w.ada.UserID))
		w.Corrupt("users", w.bob.UserID, w.bob.UserID, "/followingCount", 0)
	},
	string(projection.Following) + " that has ended": func(w *faultWorld) {
		item := blog.NewFollow(w.max.UserID, w.bob.Byline, w.ada.CreatedAt, 1).Following()
		w.Upsert("users", w.bob.UserID, string(blog.Encode(item)))
		w.Corrupt("users", w.bob.UserID, w.bob.UserID, "/followingCount", 2)
	},
	string(projection.Liked): func(w *faultWorld) { w.Remove("users", w.bob.UserID, blog.LikedID(w.post.ID)) },
	string(projection.Liked) + " with another date": func(w *faultWorld) {
		w.Corrupt("users", w.bob.UserID, blog.LikedID(w.post.ID), "/creationDate", "2020-01-01T00:00:00.000Z")
	},
	string(projection.Liked) + " without a user": func(w *faultWorld) {
		ended := blog.Like{PostID: w.post.ID, Byline: blog.Byline{UserID: "nobody"}, CreatedAt: w.post.CreatedAt}
		w.Upsert("users", "nobody", string(blog.Encode(ended.Liked())))
	},
	string(projection.FollowCount): func(w *faultWorld) {
		w.Corrupt("users", w.ada.UserID, w.ada.UserID, "/followerCount", 7)
	},
	string(projection.Deletion):      func(w *faultWorld) { w.markDeleted(w.AddUser("eve")) },
	string(projection.TimelineEntry): func(w *faultWorld) { w.Remove("feed", "tag.post.2026-03", w.post.ID) },
	string(projection.Timeline): func(w *faultWorld) {
		w.Remove("feed", blog.TimelinesKey, string(blog.AllPosts))
	},
	string(projection.Timeline) + " of a tag": func(w *faultWorld) {
		w.Corrupt("feed", blog.TimelinesKey, "tag.post", "/posts", 7)
	},
	string(projection.Timeline) + " by a counter": func(w *faultWorld) {
		w.Corrupt("feed", "tag.post.2026-03", blog.CounterID, "/posts", 7)
	},
	string(projection.Timeline) + " without a counter": func(w *faultWorld) {
		w.Remove("feed", "tag.post.2026-03", blog.CounterID)
	},
}

// verify returns the differences that Verify reports.
func verify(ctx context.Context, w *faultWorld) (any, error) {
	var found []string
	err := w.Views().Verify(ctx, 0, nil, func(d projection.Difference) {
		found = append(found, fmt.Sprintf("%s %s %s: %s, want %s", d.Kind, d.Partition, d.ID, d.Have, d.Want))
	})
	return found, err
}

func newWithPartitions(w *faultWorld, n int) *store.Store {
	s, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now, FeedPartitions: n})
	w.must(err)
	return s
}

// operations returns all operations: of Views, the repair of each damage, the handlers, and the jobs.
func operations() map[string]faultOperation {
	all := maps.Clone(ofViews)
	for name, damage := range damages {
		all["Verify/"+name] = faultOperation{reads: true, do: verify,
			prepare: func(w *faultWorld) {
				w.write()
				w.settle()
				damage(w)
			}}
		var believes []string
		if name == string(projection.Username)+" of two users" {
			// the owner of the name does not exist; the new name is taken
			believes = []string{"404 in a batch", "409 of a create"}
		}
		if strings.HasPrefix(name, string(projection.Following)) ||
			strings.HasPrefix(name, string(projection.Follower)) {
			believes = []string{"404 in a batch", "412 in a batch"} // the user does not exist
		}
		if name == string(projection.TimelineEntry) {
			believes = entryExists
		}
		all["Repair/"+name] = faultOperation{
			believes: believes,
			prepare: func(w *faultWorld) {
				w.write()
				w.settle()
				damage(w)
				w.found = w.Differences(0)
				if len(w.found) == 0 {
					w.T.Fatal("no difference to repair")
				}
			},
			do: func(ctx context.Context, w *faultWorld) (any, error) {
				for _, d := range w.found {
					if err := w.Views().Repair(ctx, d); err != nil {
						return nil, err
					}
				}
				return nil, nil
			}}
	}
	all["job/sweepFiles"] = sweepOfFiles()
	for kind, subject := range map[string]func(w *faultWorld) string{
		"rename":     func(w *faultWorld) string { return w.bob.UserID },
		"deletePost": func(w *faultWorld) string { return deletedPost(w) },
		"deleteUser": func(w *faultWorld) string {
			w.markDeleted(w.bob)
			return w.bob.UserID
		},
	} {
		var id string
		var believes []string
		if kind == "deleteUser" {
			believes = []string{"412 in a batch", "404 of a write"} // the post of others is deleted; an item is deleted
		}
		all["job/"+kind] = faultOperation{
			believes: believes,
			prepare: func(w *faultWorld) {
				w.write()
				id = subject(w)
			},
			do: func(ctx context.Context, w *faultWorld) (any, error) {
				return nil, w.work(ctx, jobs.Job{ID: kind + "." + id, Kind: kind, Subject: id})
			}}
	}
	believed := map[string][]string{"projections-posts": entryExists,
		// a follower who does not exist; a user without a reservation who does not exist
		"projections-users": {"404 in a batch", "412 in a batch", "404 of a point read"}}
	for _, processor := range []string{"projections-posts", "projections-users", "usernames"} {
		all["handler/"+processor] = faultOperation{
			believes: believed[processor],
			prepare: func(w *faultWorld) {
				w.write()
				w.Clock.Millis.Add(2 * username.Grace.Milliseconds())
				w.Upsert("users", "username:left",
					string(blog.Encode(username.New("nobody", "left", w.post.CreatedAt))))
				w.Remove("users", "username:ada", "username:ada")
				_, sources := w.Views().Handlers()
				w.changes = w.items(sources[processor])
			},
			do: func(ctx context.Context, w *faultWorld) (any, error) {
				handlers, _ := w.Views().Handlers()
				return nil, handlers[processor](ctx, w.changes)
			}}
	}
	return all
}

// deletedPost returns the id of the deleted post.
func deletedPost(w *faultWorld) string {
	for _, raw := range w.items("posts") {
		var item blog.Authored
		w.must(json.Unmarshal(raw, &item))
		if item.Type == blog.TypeDeletedPost {
			return item.ID
		}
	}
	w.T.Fatal("no post is deleted")
	return ""
}

// TestFaults_Complete: each method of Views, each handler, each kind of job, and each kind of difference has an
// operation.
func TestFaults_Complete(t *testing.T) {
	covered := map[string]bool{}
	for name := range operations() {
		first, second, _ := strings.Cut(name, "/")
		covered[first], covered[first+"/"+second] = true, true
	}
	for _, name := range []string{
		"Run",               // store: TestFaults_Run
		"Rebuild", "Status", // TestFaults_Rebuild
		"Observer", "Full", "SeeTimeline", // send no request
		"DeleteUser", "Rename", "DeletePost", // jobs
		"WriteFollowing",   // UpdateFollowing
		"DeleteOrphanNow",  // DeleteOrphan
		"Work", "Handlers", // of these tests
	} {
		covered[name] = true
	}
	of := reflect.TypeFor[*projection.Views]()
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; !covered[name] {
			t.Errorf("the method %s is in none of the tables of operations whose requests fail", name)
		}
	}
	w := newFaultWorld(t, store.Options{})
	handlers, _ := w.Views().Handlers()
	for name := range handlers {
		if !covered["handler/"+name] {
			t.Errorf("the handler %s is in none of the tables of operations whose requests fail", name)
		}
	}
	for kind := range w.Views().Work() {
		if !covered["job/"+kind] {
			t.Errorf("the job %s is in none of the tables of operations whose requests fail", kind)
		}
	}
	for _, kind := range []projection.Kind{projection.Summary, projection.FeedEntry, projection.Count, projection.Text,
		projection.Byline, projection.Username, projection.Deletion,
		projection.Follower, projection.Following, projection.FollowCount, projection.Liked,
		projection.TimelineEntry, projection.Timeline} {
		if !covered["Repair/"+string(kind)] {
			t.Errorf("no difference of kind %s is repaired", kind)
		}
	}
}

// If a request fails, an operation returns an error or its result. When it is repeated, and the projections have
// handled all changes, nothing is lost, and the views are as their sources.
func TestFaults(t *testing.T) {
	for name, operation := range operations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cosmostest.NeedsEngine(t, "it runs on the fake clock")
			s := sweep{faultOperation: operation}
			if operation.reads {
				cosmostest.Run(t, func(t *testing.T) {
					w := s.newWorld(t)
					faulttest.Sweep(func(c faulttest.Case) faulttest.Requests { return s.run(w, c) })
				})
				return
			}
			faulttest.Sweep(func(c faulttest.Case) (requests faulttest.Requests) {
				cosmostest.Run(t, func(t *testing.T) {
					w := s.newWorld(t)
					requests = s.run(w, c)
					s.check(w, c, requests)
				})
				return requests
			})
		})
	}
}

// sweep is the sweep of an operation, and what it does without a fault.
type sweep struct {
	faultOperation
	want    any
	sources []string
}

func (s *sweep) newWorld(t testing.TB) *faultWorld {
	w := newFaultWorld(t, s.options)
	if s.prepare == nil {
		w.write()
	} else {
		s.prepare(w)
	}
	return w
}

// run does the operation, and repeats it if it may have had no effect.
func (s *sweep) run(w *faultWorld, c faulttest.Case) faulttest.Requests {
	w.T.Helper()
	w.wire.Begin(c, nil)
	got, err := s.do(w.T.Context(), w)
	requests := w.wire.End()
	if c.N == 0 {
		s.want = got
	}
	if err != nil && (c.N == 0 || !slices.Contains(c.Codes, blog.CodeOf(err))) {
		w.T.Errorf("%v (%s): code %s, want %q or no error: %v", c, requests.Failed, blog.CodeOf(err), c.Codes, err)
	}
	if diff := gocmp.Diff(s.want, got); err == nil && diff != "" && !c.Misleads {
		w.T.Errorf("%v (%s): %s", c, requests.Failed, diff)
	}
	if err != nil || c.Misleads {
		got, err := s.do(w.T.Context(), w)
		if diff := gocmp.Diff(s.want, got); err != nil || diff != "" {
			w.T.Errorf("repetition after %v (%s): %v %s", c, requests.Failed, err, diff)
		}
	}
	return requests
}

// check checks that nothing is lost, and that the views are as their sources.
func (s *sweep) check(w *faultWorld, c faulttest.Case, requests faulttest.Requests) {
	w.T.Helper()
	if c.N > 0 && (len(c.Codes) == 0 || slices.Contains(s.believes, c.Name)) {
		return // the client has repeated the request, or the operation believes the fault
	}
	w.settle()
	for _, d := range w.Differences(0) {
		if s.ignores == nil || !s.ignores(d) {
			w.T.Errorf("after %v (%s): %+v", c, requests.Failed, d)
		}
	}
	if c.N == 0 {
		s.sources = w.sources()
	} else if diff := gocmp.Diff(s.sources, w.sources()); diff != "" {
		w.T.Errorf("after %v (%s): %s", c, requests.Failed, diff)
	}
}

// If a request of Rebuild or Status fails, it returns an error, or has done its work for every range.
func TestFaults_Rebuild(t *testing.T) {
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t, store.Options{})
		w.write()
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		status := func(ctx context.Context) (any, error) {
			all, err := w.Views().Status(ctx)
			var ranges []string
			for _, s := range all {
				ranges = append(ranges,
					fmt.Sprintf("%s %s %v, to rebuild: %v", s.Processor, s.Container, s.Range, s.Replay > 0))
			}
			return ranges, err
		}
		rebuild := func(ctx context.Context) (any, error) {
			if err := w.Views().Rebuild(ctx); err != nil {
				return nil, err
			}
			w.wire.End()
			return status(ctx)
		}
		for name, do := range map[string]func(context.Context) (any, error){"Rebuild": rebuild, "Status": status} {
			var want any
			faulttest.Sweep(func(c faulttest.Case) faulttest.Requests {
				w.wire.Begin(c, nil)
				got, err := do(t.Context())
				requests := w.wire.End()
				if c.N == 0 {
					want = got
				}
				if err != nil && (c.N == 0 || !slices.Contains(c.Codes, blog.CodeOf(err))) {
					t.Errorf("%s, %v (%s): code %s, want %q or no error: %v", name, c, requests.Failed,
						blog.CodeOf(err), c.Codes, err)
				}
				if err == nil && !c.Misleads && gocmp.Diff(want, got) != "" {
					t.Errorf("%s, %v (%s): %s", name, c, requests.Failed, gocmp.Diff(want, got))
				}
				if got, err := do(t.Context()); err != nil || gocmp.Diff(want, got) != "" {
					t.Errorf("%s, repetition after %v (%s): %v %s", name, c, requests.Failed, err,
						gocmp.Diff(want, got))
				}
				return requests
			})
		}
		w.Start()
		w.Rebuilt()
		testkit.Until(t, w.CaughtUp)
		for _, d := range w.Differences(0) {
			t.Errorf("%+v", d)
		}
	})
}

// A unit of a job waits only if it has made no progress because of concurrent writes.
func TestDeletePost_Waits(t *testing.T) {
	cosmostest.NeedsEngine(t, "it injects faults")
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t, store.Options{})
		w.write()
		id := deletedPost(w)
		for i := range 250 {
			item, _ := json.Marshal(map[string]any{"id": fmt.Sprint("late-", i), "type": "comment", "postId": id,
				"userId": w.bob.UserID})
			w.Upsert("posts", id, string(item))
		}
		step := func() jobs.Step {
			s, err := w.Views().DeletePost(t.Context(), jobs.Job{Kind: "deletePost", Subject: id})
			w.must(err)
			return s
		}
		contended := func(r *http.Request) bool {
			return r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" && strings.Contains(body(t, r), "Delete")
		}
		i := slices.IndexFunc(faulttest.Faults, func(f faulttest.Fault) bool { return f.Name == "404 in a batch" })
		w.wire.Begin(faulttest.Case{N: 1, Fault: faulttest.Faults[i]}, contended)
		if s := step(); s.Items != 0 || s.Done || s.Wait <= 0 {
			t.Errorf("without progress: %+v, want a wait", s)
		}
		w.wire.End()
		w.Wire.Intercept(func(r *http.Request) error {
			if contended(r) {
				storetest.Pass(time.Second) // the time of a unit
			}
			return nil
		})
		for left := 251; left > 0; left -= 100 {
			if s := step(); s.Items != min(left, 100) || s.Wait != 0 {
				t.Errorf("with progress: %+v, want %d items and no wait", s, min(left, 100))
			}
		}
		if s := step(); !s.Done || s.Wait != 0 {
			t.Errorf("without items: %+v", s)
		}
	})
}
