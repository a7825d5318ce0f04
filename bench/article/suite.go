package article

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/uuid"

	"byline/store"
	"byline/store/seed"
)

// Options of a Suite.
type Options struct {
	Seed  uint64 // of the data set
	Users int    // who write posts
	Runs  int    // of each request on each model
}

// readers is how many users there are at least. Who likes a post is one of them, so that
// data sets of different sizes have posts that are as popular.
const readers = 100

// Blog returns the data set.
func (o Options) Blog() seed.Blog {
	b := seed.Article(o.Seed, o.Users, func(username string) string { return store.UserID("bench", username) })
	b.Users = max(b.Users, readers)
	return b
}

// Database returns the name of the database that holds a model with the data set: none
// that anybody would take for their own.
func (o Options) Database(version string) string {
	return fmt.Sprintf("byline-bench-article-%s-%d-users-seed-%d", version, o.Users, o.Seed)
}

// Suite is the article's requests on the three models.
type Suite struct {
	o      Options
	client *azcosmos.Client
	blog   seed.Blog
	models []model // as Versions
}

// New returns a suite on an account, whose client must have a store.Meter
// attached. It does no I/O.
func New(client *azcosmos.Client, o Options) (*Suite, error) {
	s := &Suite{o: o, client: client, blog: o.Blog()}
	for _, version := range Versions() {
		m, err := newModel(client, version, o.Database(version))
		if err != nil {
			return nil, err
		}
		s.models = append(s.models, m)
	}
	return s, nil
}

// Seed provides a model's database and loads the data set into it. What is there is passed
// over. progress is as in seed.Load.
func (s *Suite) Seed(ctx context.Context, version string, progress func(posts int)) error {
	m := s.models[slices.Index(Versions(), version)]
	if err := m.provision(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.o.Database(version), err)
	}
	return seed.Load(ctx, s.blog, m, progress)
}

// Containers returns the names of the containers that hold a model's data.
func (s *Suite) Containers(version string) []string {
	return s.models[slices.Index(Versions(), version)].containers()
}

// Remove deletes the databases of the models.
func (s *Suite) Remove(ctx context.Context) error {
	var err error
	for _, version := range Versions() {
		db, e := s.client.NewDatabase(s.o.Database(version))
		if e == nil {
			_, e = db.Delete(ctx, nil)
		}
		if !hasStatus(e, http.StatusNotFound) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// measuredAt dates what is written while measuring: before everything else, so that it
// is never among the newest.
var measuredAt = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// warmUps is how many runs come before those that count.
const warmUps = 5

// Cell is what a request took on a model.
type Cell struct {
	Request string `json:"request"`
	What    string `json:"what"`
	Version string `json:"version"`
	// RU is the mean charge of the request as the article has it, in request units.
	RU float64 `json:"ru"`
	// BesideRU is what else the request was charged: the article's clients know the
	// author's name, its names are not unique, and its copies are written later.
	BesideRU float64 `json:"besideRU"`
	// P50 and P99 are latencies, in milliseconds, of everything the request does.
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
	ArticleRU float64 `json:"articleRU"`
	ArticleMS float64 `json:"articleMS"`
}

// Requests returns how many requests Measure runs, on each model.
func (s *Suite) Requests() int { return len(requests) * (warmUps + s.o.Runs) }

// Measure runs each request many times on each of the models, which are loaded, by turns.
// progress, if set, is called with the number of requests done. What the requests write
// stays.
func (s *Suite) Measure(ctx context.Context, progress func(done int)) (*Report, error) {
	for _, m := range s.models {
		if err := m.begin(ctx); err != nil {
			return nil, err
		}
	}
	w := s.workload(warmUps+s.o.Runs, nil)
	report := &Report{Users: s.o.Users, Posts: s.blog.TotalPosts(), Runs: s.o.Runs, Cells: make([]Cell, len(requests)*len(s.models))}
	done := 0
	// Reads first: they find the data set as it was loaded.
	order := slices.Clone(requests)
	slices.SortStableFunc(order, func(a, b request) int { return strings.Compare(b.id[:1], a.id[:1]) })
	for _, r := range order {
		took := make([][]time.Duration, len(s.models))
		cells := report.Cells[len(s.models)*slices.IndexFunc(requests, func(x request) bool { return x.id == r.id }):]
		runtime.GC() // of what came before
		for i := range warmUps + s.o.Runs {
			for n, m := range s.models {
				d, charges, err := w.timed(ctx, r.id, m, i)
				if err != nil {
					return nil, fmt.Errorf("%s of %s: %w", r.id, Versions()[n], err)
				}
				if i >= warmUps {
					ru, beside := charges.of(r.id)
					took[n] = append(took[n], d)
					cells[n].RU += ru / float64(s.o.Runs)
					cells[n].BesideRU += beside / float64(s.o.Runs)
				}
			}
			if done++; progress != nil {
				progress(done)
			}
		}
		for n := range s.models {
			c := &cells[n]
			c.Request, c.What, c.Version = r.id, r.what, Versions()[n]
			c.P50, c.P99 = percentile(took[n], 50), percentile(took[n], 99)
			c.ArticleRU, c.ArticleMS = r.figures[n].ru, r.figures[n].ms
		}
	}
	return report, nil
}

// percentile returns the p-th percentile (nearest rank), in milliseconds.
func percentile(took []time.Duration, p int) float64 {
	slices.Sort(took)
	return float64(took[(len(took)*p+99)/100-1]) / float64(time.Millisecond)
}

// workload is what requests are about: the same on each model.
type workload struct {
	users   []*store.User // who act, to be created
	authors []string      // ids of users of the data set, to be read
	wrote   []int         // how many posts those have
	posts   []*store.Post // of the data set, to be read, commented and liked
}

// workload returns what n requests of each kind are about: users and posts that are drawn
// uniformly, posts once each as far as there are enough. With another workload, of the same
// seed, it is users who have written as much as the other's.
func (s *Suite) workload(n int, other *workload) *workload {
	w := &workload{}
	random := rand.New(rand.NewPCG(s.o.Seed, 1))
	run := uuid.NewString()[:8]
	total, drawn := s.blog.TotalPosts(), map[[2]int]bool{}
	for i := range n {
		name := fmt.Sprintf("bench-%s-%d", run, i)
		w.users = append(w.users, &store.User{ID: name, Username: name, CreatedAt: store.NewDate(measuredAt), Revision: 1})
		author := random.IntN(s.blog.Authors)
		for other != nil && s.blog.PostCount(author) != other.wrote[i] {
			author = random.IntN(s.blog.Authors)
		}
		w.authors, w.wrote = append(w.authors, s.blog.User(author).ID), append(w.wrote, s.blog.PostCount(author))
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

// timed makes the i-th request of a kind, and returns how long it took, and what it was
// charged.
func (w *workload) timed(ctx context.Context, id string, m model, i int) (time.Duration, *charges, error) {
	ctx, c := charged(ctx)
	began := time.Now()
	err := w.run(ctx, id, m, i)
	return time.Since(began), c, err
}

// run makes the i-th request of a kind.
func (w *workload) run(ctx context.Context, id string, m model, i int) (err error) {
	user, author, post, now := w.users[i], w.authors[i], w.posts[i], store.NewDate(measuredAt)
	switch id {
	case "C1":
		return m.createUser(ctx, user)
	case "Q1":
		_, err = m.user(ctx, author)
	case "C2":
		return m.createPost(ctx, &store.Post{ID: uuid.NewString(), AuthorID: user.ID, AuthorUsername: user.Username,
			Title: post.Title, Content: post.Content, CreatedAt: now, Version: 1, Revision: 1})
	case "Q2":
		_, err = m.post(ctx, post.ID)
	case "Q3":
		_, err = m.userPosts(ctx, author)
	case "C3":
		return m.createComment(ctx, &store.Comment{ID: uuid.NewString(), PostID: post.ID, AuthorID: user.ID, AuthorUsername: user.Username,
			Content: post.Title, CreatedAt: now})
	case "Q4":
		_, err = m.comments(ctx, post.ID)
	case "C4":
		return m.like(ctx, &store.Like{PostID: post.ID, UserID: user.ID, Username: user.Username, CreatedAt: now})
	case "Q5":
		_, err = m.likes(ctx, post.ID)
	case "Q6":
		_, err = m.feed(ctx)
	}
	return err
}
