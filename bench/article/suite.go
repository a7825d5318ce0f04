package article

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/seed"
)

// Options of a Suite.
type Options struct {
	Seed  uint64 // of the data set
	Users int    // who write posts
	Runs  int    // of each request on each model
}

// readers is the minimum number of users. Likes come from these users, so that posts are equally popular
// in data sets of different sizes.
const readers = 100

// Blog returns the data set.
func (o Options) Blog() seed.Blog {
	b := seed.Article(o.Seed, o.Users, func(username string) string { return blog.UserID("bench", username) })
	b.Users = max(b.Users, readers)
	return b
}

// Database returns the name of the database of a model with the data set.
func (o Options) Database(version string) string {
	return fmt.Sprintf("byline-bench-article-%s-%d-users-seed-%d", version, o.Users, o.Seed)
}

// Suite is the article's requests on the three models.
type Suite struct {
	o       Options
	account *cosmos.Account
	blog    seed.Blog
	models  []model // as Versions
}

// New returns a suite on an account. It does no I/O.
func New(account *cosmos.Account, o Options) (*Suite, error) {
	s := &Suite{o: o, account: account, blog: o.Blog()}
	for _, version := range Versions() {
		m, err := newModel(account, version, o.Database(version))
		if err != nil {
			return nil, err
		}
		s.models = append(s.models, m)
	}
	return s, nil
}

// Seed provisions a model's database and loads the missing part of the data set. progress is as in
// seed.Load.
func (s *Suite) Seed(ctx context.Context, version string, progress func(posts int)) error {
	m := s.models[slices.Index(Versions(), version)]
	if err := m.provision(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.o.Database(version), err)
	}
	return seed.Load(ctx, s.blog, m, progress)
}

// Remove deletes the databases of the models.
func (s *Suite) Remove(ctx context.Context) error {
	var err error
	for _, version := range Versions() {
		db, e := s.account.Client().NewDatabase(s.o.Database(version))
		if e == nil {
			_, e = db.Delete(ctx, nil)
		}
		if !hasStatus(e, http.StatusNotFound) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// measuredAt is the date of items written while measuring: older than the data set, so that they are
// never among the newest.
var measuredAt = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// warmUps is the number of runs before those that Measure counts.
const warmUps = 5

// Cell is the measurement of a request on a version of the model, with the article's figures.
type Cell struct {
	Request string `json:"request"`
	What    string `json:"what"`
	Version string `json:"version"`
	Measurement
	ArticleRU float64 `json:"articleRU"`
	ArticleMS float64 `json:"articleMS"`
}

// Requests returns the number of requests that Measure runs on each model.
func (s *Suite) Requests() int { return len(requests) * (warmUps + s.o.Runs) }

// Measure runs each request many times on the loaded models, alternating between them. progress, if set, is called
// with the number of requests done. Their writes are not deleted.
func (s *Suite) Measure(ctx context.Context, progress func(done int)) (*Report, error) {
	work := s.workload(warmUps+s.o.Runs, nil)
	var subjects []subject
	for i, m := range s.models {
		if err := m.begin(ctx); err != nil {
			return nil, err
		}
		subjects = append(subjects, subject{m, work, Versions()[i]})
	}
	report := &Report{Users: s.o.Users, Posts: s.blog.TotalPosts(), Runs: s.o.Runs,
		Cells: make([]Cell, len(requests)*len(s.models))}
	done := 0
	// Reads first, on the data set as loaded.
	order := slices.Clone(requests)
	slices.SortStableFunc(order, func(a, b request) int { return strings.Compare(b.id[:1], a.id[:1]) })
	for _, r := range order {
		measured, err := measure(ctx, []request{r}, subjects, warmUps, s.o.Runs, func() {
			if done++; progress != nil {
				progress(done)
			}
		})
		if err != nil {
			return nil, err
		}
		cells := report.Cells[len(s.models)*slices.IndexFunc(requests, func(x request) bool { return x.id == r.id }):]
		for n := range s.models {
			cells[n] = Cell{Request: r.id, What: r.what, Version: Versions()[n], Measurement: measured[0][n],
				ArticleRU: r.figures[n].ru, ArticleMS: r.figures[n].ms}
		}
	}
	return report, nil
}
