package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"byline/bench/article"
	"byline/graph"
	"byline/store"
	"byline/store/seed"
)

// seedConfig is what `byline seed` can be told.
type seedConfig struct {
	cosmosConfig `embed:""`
	Users        int    `default:"100" help:"How many users; each writes 5 to 50 posts, with up to 25 comments and 100 likes each."`
	Seed         uint64 `default:"1" help:"Another seed, another blog; the same seed and number of users, the same."`
	Model        string `enum:",v1,v2,v3" default:"" placeholder:"v1|v2|v3" help:"Load the database of 'byline bench article' for this version of the model instead, which has a name of its own and, on the embedded engine, a directory of its own in --data."`
}

// demoUserID is the user of whoever signs in by a demo token.
func demoUserID(username string) string { return store.UserID(graph.DemoIssuer, username) }

// run loads the article's data set. What is there already is passed over.
func (c seedConfig) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Writer) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if err := checkUsers(c.Users); err != nil {
		return err
	}
	if c.Model != "" && c.FeedPartitions != 0 {
		return errors.New("--feed-partitions is not for --model: the bench reads one partition of the feed")
	}
	m := newMeter(log, stderr)
	defer m.stop()
	defer collectLess()()
	c.engine.NoSync = true
	if c.Model != "" && c.embedded() {
		c.ofBench(article.Options{Seed: c.Seed, Users: c.Users})
	}
	db, err := c.connect(ctx, m.log, traces{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	database, containers, err := c.load(ctx, db, m)
	if err == nil {
		err = db.compact(ctx)
	}
	if err == nil {
		var digest seed.Digest
		err = m.follow("items read for the digest", 0, func(progress func(int)) (err error) {
			digest, err = seed.DigestOf(ctx, db.background, database, containers, progress)
			return err
		})
		if err == nil {
			m.stop() // before the result
			_, err = fmt.Fprintf(stdout, "database %s: %d items, digest %s\n", database, digest.Items, digest)
		}
	}
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted: run it again to go on")
	}
	return err
}

// maxUsers is how many users a data set may have: some 27 million posts.
const maxUsers = 1_000_000

func checkUsers(n int) error {
	if n < 1 || n > maxUsers {
		return fmt.Errorf("%d users: there can be 1 to %d", n, maxUsers)
	}
	return nil
}

// collectLess makes garbage collections rarer until the returned function is called: a load
// makes much and keeps next to nothing, so that its heap is small and would be gone through
// all the time.
func collectLess() (asBefore func()) {
	const percent = 400
	if toldWhenToCollect() {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}

// load loads the blog, or a database of the bench, and returns where it is.
func (c seedConfig) load(ctx context.Context, db *cosmos, m *meter) (database string, containers []string, err error) {
	if c.Model != "" {
		o := article.Options{Seed: c.Seed, Users: c.Users}
		suite, err := article.New(db.background, o)
		if err != nil {
			return "", nil, err
		}
		return o.Database(c.Model), suite.Containers(c.Model), loadModel(ctx, m, suite, o, c.Model)
	}
	blog, err := c.open(&cosmos{client: db.background, background: db.background}, m.log, time.Now) // which waits while throttled
	if err != nil {
		return "", nil, err
	}
	if err = blog.Provision(ctx); err == nil {
		err = blog.FillFeed(ctx)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", db.where, err)
	}
	content := seed.Article(c.Seed, c.Users, demoUserID)
	if other, err := seed.Other(ctx, blog, content); err != nil {
		return "", nil, err
	} else if other {
		return "", nil, fmt.Errorf("%s, database %s: there is a blog of --seed %d with another number of --users: choose another --seed, which comes beside it, or another database", db.where, c.CosmosDatabase, c.Seed)
	}
	return c.CosmosDatabase, store.Containers(), m.follow("posts", content.TotalPosts(), func(progress func(int)) error {
		return seed.Load(ctx, content, blog, progress)
	})
}

// loadModel loads a database of the bench.
func loadModel(ctx context.Context, m *meter, suite *article.Suite, o article.Options, version string) error {
	blog := o.Blog()
	return m.follow("posts of "+version, blog.TotalPosts(), func(progress func(int)) error {
		return suite.Seed(ctx, version, progress)
	})
}
