package article

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"

	"byline/store/blog"
)

// workload has the arguments of requests, the same on each model.
type workload struct {
	users   []*blog.User // who act, to be created
	authors []string     // ids of users of the data set, to be read
	wrote   []int        // number of their posts
	posts   []*blog.Post // of the data set, to be read, commented and liked
}

// workload returns the arguments of n requests of each kind: users and posts drawn uniformly,
// each post once as far as there are enough. With another workload, of the same seed, the
// authors have written as many posts as the other's.
func (s *Suite) workload(n int, other *workload) *workload {
	w := &workload{}
	random := rand.New(rand.NewPCG(s.o.Seed, 1))
	run := uuid.NewString()[:8]
	total, drawn := s.blog.TotalPosts(), map[[2]int]bool{}
	for i := range n {
		name := fmt.Sprintf("bench-%s-%d", run, i)
		w.users = append(w.users,
			&blog.User{Byline: blog.Byline{UserID: name, Username: name}, CreatedAt: blog.NewDate(measuredAt),
				Revision: 1})
		author := random.IntN(s.blog.Authors)
		for other != nil && s.blog.PostCount(author) != other.wrote[i] {
			author = random.IntN(s.blog.Authors)
		}
		w.authors, w.wrote = append(w.authors, s.blog.User(author).UserID), append(w.wrote, s.blog.PostCount(author))
		if len(drawn) == total {
			clear(drawn)
		}
		number := s.blog.Posts[1]
		for number >= s.blog.PostCount(author) || drawn[[2]int{author, number}] {
			author, number = random.IntN(s.blog.Authors), random.IntN(s.blog.Posts[1])
		}
		drawn[[2]int{author, number}] = true
		w.posts = append(w.posts, s.blog.Thread(author, number).Post)
	}
	return w
}

// run makes the i-th request of a kind.
func (w *workload) run(ctx context.Context, id string, m model, i int) (err error) {
	user, author, post, now := w.users[i], w.authors[i], w.posts[i], blog.NewDate(measuredAt)
	switch id {
	case "C1":
		return m.createUser(ctx, user)
	case "Q1":
		_, err = m.user(ctx, author)
	case "C2":
		return m.createPost(ctx, &blog.Post{ID: uuid.NewString(), Byline: user.Byline,
			Title: post.Title, Content: post.Content, CreatedAt: now, Version: 1, Revision: 1})
	case "Q2":
		_, err = m.post(ctx, post.ID)
	case "Q3":
		_, err = m.userPosts(ctx, author)
	case "C3":
		return m.createComment(ctx, &blog.Comment{ID: uuid.NewString(), PostID: post.ID, Byline: user.Byline,
			Content: post.Title, CreatedAt: now})
	case "Q4":
		_, err = m.comments(ctx, post.ID)
	case "C4":
		return m.like(ctx, &blog.Like{PostID: post.ID, Byline: user.Byline, CreatedAt: now})
	case "Q5":
		_, err = m.likes(ctx, post.ID)
	case "Q6":
		_, err = m.feed(ctx)
	}
	return err
}
