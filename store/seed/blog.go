package seed

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"byline/store"
	"byline/store/blog"
	"byline/store/username"
)

// Blog defines the contents of a blog. Equal Blogs have equal contents.
type Blog struct {
	Seed    uint64
	Users   int
	Authors int    // how many of the users write posts: the first ones
	Posts   [2]int // least and most posts of each author
	// Comments and Likes are the most of a post. A user likes it once.
	Comments, Likes int
	Markdown        bool // posts are formatted, and have tags
	Profiles        bool // the users of the demo blog have display names, pictures and biographies
	Articles        bool // the first post of each of the first users is a long one, among the newest
	// Covers takes the covers of articles. Default: they have none.
	Covers *Covers
	// Ends is when the newest post is published, and no comment or like is later. The zero value is 70 days after the
	// fixed date on which the first one is, with comments and likes up to two days later.
	Ends time.Time
	// UserID returns the id of the user who signs in under a username.
	UserID func(username string) string
}

// Demo returns the demo blog: 25 users and 250 posts, with comments and likes.
func Demo(userID func(string) string) Blog {
	n := len(profiles)
	// the year ada was born
	return Blog{Seed: 1815, Users: n, Authors: n, Posts: [2]int{10, 10}, Comments: 6, Likes: 20, Markdown: true,
		Profiles: true, Articles: true, UserID: userID}
}

// Article returns the data set of the article: 5 to 50 posts for each user, with up to 25 comments and 100
// likes each.
func Article(seed uint64, users int, userID func(string) string) Blog {
	return Blog{Seed: seed, Users: users, Authors: users, Posts: [2]int{5, 50}, Comments: 25, Likes: 100,
		UserID: userID}
}

// MaxUsers is the most users of a data set, with some 27 million posts.
const MaxUsers = 1_000_000

// CheckUsers returns an error unless n is a valid number of users.
func CheckUsers(n int) error {
	if n < 1 || n > MaxUsers {
		return fmt.Errorf("%d users: there can be 1 to %d", n, MaxUsers)
	}
	return nil
}

// The first post of a blog is published after start, and the last before the end of span.
var start = time.Date(2026, time.January, 5, 7, 30, 0, 0, time.UTC)

const (
	span      = 70 * 24 * time.Hour
	beforeAll = 30 * 24 * time.Hour // users join in this time before start
)

// User returns a user, from 0 to Users-1.
func (b *Blog) User(i int) *blog.User {
	joined := start.Add(b.shift() - time.Duration(b.random(i, userStream).Int64N(int64(beforeAll))))
	u := &blog.User{Byline: b.byline(i), CreatedAt: blog.NewDate(joined), Revision: 1}
	if b.Profiles && i < len(profiles) {
		u.Bio = profiles[i].bio
	}
	return u
}

// byline returns the byline of a user.
func (b *Blog) byline(i int) blog.Byline {
	name := b.username(i)
	byline := blog.Byline{UserID: b.UserID(name), Username: name}
	if b.Profiles && i < len(profiles) {
		byline.DisplayName, byline.AvatarURL = profiles[i].displayName, username.AvatarPath(name)
	}
	return byline
}

// username returns the name of a user. Every blog begins with the users of the demo blog.
func (b *Blog) username(i int) string {
	if i < len(profiles) {
		return profiles[i].username
	}
	return fmt.Sprintf("%s-%d", profiles[i%len(profiles)].username, i/len(profiles)+1)
}

// PostCount returns the number of posts of a user.
func (b *Blog) PostCount(user int) int {
	if user >= b.Authors {
		return 0
	}
	return b.Posts[0] + b.random(user, userStream+1).IntN(b.Posts[1]-b.Posts[0]+1)
}

// TotalPosts returns the number of posts of all users.
func (b *Blog) TotalPosts() int {
	total := 0
	for i := range b.Authors {
		total += b.PostCount(i)
	}
	return total
}

// entry is the identity and sort key of a post.
type entry struct {
	user, number int
	at           time.Time
	id           string
}

func (b *Blog) entry(user, number int) (entry, *rand.Rand) {
	f := b.random(user, number)
	at := start.Add(time.Duration(f.Uint64() % uint64(span)))
	if b.article(user, number) != nil {
		at = start.Add(span - time.Duration(user+1)*betweenArticles)
	}
	at = at.Add(b.shift()).Truncate(time.Millisecond) // the precision of items
	return entry{user, number, at, postID(f)}, f
}

// shift returns how much later everything is than with the zero value of Ends.
func (b *Blog) shift() time.Duration {
	if b.Ends.IsZero() {
		return 0
	}
	return b.Ends.Sub(start.Add(span))
}

// later returns when a comment on a post, or a like, is written.
func (b *Blog) later(f *rand.Rand, post time.Time) blog.Date {
	after := time.Duration(60+upTo(f, 2*24*3600-60)) * time.Second
	if !b.Ends.IsZero() {
		after %= max(1, b.Ends.Sub(post))
	}
	return blog.NewDate(post.Add(after))
}

// PostID returns the id of a post of a user, from 0 to PostCount-1.
func (b *Blog) PostID(user, number int) string {
	e, _ := b.entry(user, number)
	return e.id
}

// Thread returns a post of a user, from 0 to PostCount-1, with its comments and likes, and without a cover.
func (b *Blog) Thread(user, number int) store.Thread {
	e, f := b.entry(user, number)
	author := b.User(user)
	topic := &topics[f.IntN(len(topics))]
	t := store.Thread{
		Comments: make([]*blog.Comment, upTo(f, b.Comments)),
		Likes:    make([]*blog.Like, upTo(f, min(b.Likes, b.Users))),
	}
	t.Post = &blog.Post{ID: e.id, Byline: author.Byline, CreatedAt: blog.NewDate(e.at),
		Version:      1,
		CommentCount: int32(len(t.Comments)), LikeCount: int32(len(t.Likes)),
		Revision: int64(1 + len(t.Comments) + len(t.Likes))}
	t.Post.Title, t.Post.Content = topic.post(f)
	if b.Markdown {
		t.Post.Content, t.Post.Tags = inMarkdown(t.Post.Content, number), topic.tags
	}
	article := b.article(user, number)
	if article != nil {
		t.Post.Title, t.Post.Content, t.Post.Tags = article.title, article.content, article.tags
	}
	for i := range t.Comments {
		author := b.byline(upTo(f, b.Users-1))
		t.Comments[i] = &blog.Comment{ID: id(f), PostID: e.id, Byline: author, Content: topic.comment(f)}
		if article != nil {
			t.Comments[i].Content = cmp.Or(article.comment(i), oneOf(f, remarks))
		}
		t.Comments[i].CreatedAt = b.later(f, e.at)
	}
	for i, user := range choose(f, len(t.Likes), b.Users) {
		t.Likes[i] = &blog.Like{PostID: e.id, Byline: b.byline(user),
			CreatedAt: b.later(f, e.at)}
	}
	return t
}

// newest returns the newest n posts, newest first.
func (b *Blog) newest(n int) []entry {
	var all []entry
	order := func(x, y entry) int {
		return cmp.Or(y.at.Compare(x.at), cmp.Compare(y.id, x.id))
	}
	for user := range b.Authors {
		for number := range b.PostCount(user) {
			e, _ := b.entry(user, number)
			if len(all) < n || order(e, all[n-1]) < 0 {
				at, _ := slices.BinarySearchFunc(all, e, order)
				all = slices.Insert(all, at, e)
				all = all[:min(n, len(all))]
			}
		}
	}
	return all
}

// userStream is the first random stream of a user. Those below are of the user's posts.
const userStream = 1 << 20

// random returns the random numbers of a stream: a post number, or userStream and above for the user itself.
func (b *Blog) random(user, stream int) *rand.Rand {
	n := uint64(user)<<32 | uint64(stream)
	n = (n ^ n>>31) * 0x9e3779b97f4a7c15 // decorrelate neighbouring streams
	return rand.New(rand.NewPCG(b.Seed, n^n>>29))
}

// upTo returns a random number from 0 to n. It draws none if n is 0.
func upTo(f *rand.Rand, n int) int {
	if n == 0 {
		return 0
	}
	return f.IntN(n + 1)
}

// postID returns the random id of a post.
func postID(f *rand.Rand) string {
	var random [10]byte
	binary.BigEndian.PutUint64(random[:], f.Uint64())
	binary.BigEndian.PutUint16(random[8:], uint16(f.Uint64()))
	return blog.PostID(random)
}

// id returns a random UUID.
func id(f *rand.Rand) string {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:], f.Uint64())
	binary.BigEndian.PutUint64(u[8:], f.Uint64())
	u[6] = u[6]&0x0f | 0x80 // version 8, RFC 9562 section 5.8
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}

// choose returns n distinct random numbers below all (Floyd's algorithm).
func choose(f *rand.Rand, n, all int) []int {
	chosen := make(map[int]bool, n)
	list := make([]int, 0, n)
	for j := all - n; j < all; j++ {
		k := upTo(f, j)
		if chosen[k] {
			k = j
		}
		chosen[k] = true
		list = append(list, k)
	}
	return list
}
