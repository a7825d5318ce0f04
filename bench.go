package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"byline/bench/article"
)

// benchConfig is what `byline bench` can be told.
type benchConfig struct {
	Article benchArticle `cmd:"" help:"Run the article's ten requests on the three versions of its data model, and compare with its table. Without an account, on an embedded engine that is thrown away."`
	Growth  benchGrowth  `cmd:"" help:"Run the reads on V3 with a small data set and with a large one, by turns, and compare the latencies. Without an account, on embedded engines that are thrown away."`
	Load    benchLoad    `cmd:"" help:"Ask a server what the readers of a blog ask, and measure the answers and what they cost it."`
}

// benchData is what the benches have in common: where their data are, and how results
// are printed.
type benchData struct {
	CosmosEndpoint string `env:"COSMOS_ENDPOINT" placeholder:"URL" help:"Azure Cosmos DB account, or emulator, to run on; its key is in the environment as COSMOS_KEY, or else DefaultAzureCredential signs in. The databases are called byline-bench-article-..., and stay."`
	Data           string `placeholder:"DIR" help:"Directory in which the embedded engine's data stay, so that the next run need not load them; what each run writes stays, too."`
	Seed           uint64 `default:"1" help:"Of the data set."`
	Markdown       bool   `xor:"format" help:"Print Markdown."`
	JSON           bool   `name:"json" xor:"format" help:"Print JSON."`
	Remove         bool   `help:"Delete the databases afterwards, and when interrupted."`
}

// check finds what is wrong with data sets of so many users, and so many runs, before
// anything is loaded.
func (c benchData) check(runs int, users ...int) error {
	if runs < 1 {
		return fmt.Errorf("--runs %d: there can be 1 or more", runs)
	}
	for _, n := range users {
		if err := checkUsers(n); err != nil {
			return err
		}
	}
	return checkEndpoint(c.CosmosEndpoint)
}

func (c benchData) format() article.Format {
	switch {
	case c.Markdown:
		return article.Markdown
	case c.JSON:
		return article.JSON
	}
	return article.Text
}

// authorsPerPartition is how many authors' posts a physical partition of the embedded
// engine holds here: as in an account, more data are on more of them.
const authorsPerPartition = 50

// ofBench makes the embedded engine's data those of the bench: each data set has a
// directory of its own, and as many physical partitions as its size asks for.
func (c *cosmosConfig) ofBench(o article.Options) {
	c.Data = filepath.Join(c.Data, fmt.Sprintf("%d-users-seed-%d", o.Users, o.Seed))
	c.engine.Partitions = min(256, (o.Users+authorsPerPartition-1)/authorsPerPartition)
}

// loaded loads what is missing of a data set in some versions of the model, and does
// something with it.
func (c benchData) loaded(ctx context.Context, m *meter, o article.Options, versions []string, do func(*article.Suite) error) (err error) {
	where := cosmosConfig{CosmosEndpoint: c.CosmosEndpoint}
	if where.embedded() {
		where.Data = c.Data
		if c.Data == "" {
			if where.Data, err = os.MkdirTemp("", "byline-bench-"); err != nil {
				return err
			}
			temporary := where.Data
			defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
		}
		where.ofBench(o)
	}
	// Writes are not synced while loading, but they are while measuring.
	loading := where
	loading.engine.NoSync = true
	err = loading.connected(ctx, m, func(db *cosmos) error {
		defer collectLess()()
		suite, err := article.New(db.background, o) // which waits while throttled
		if err != nil {
			return err
		}
		for _, version := range versions {
			if err := loadModel(ctx, m, suite, o, version); err != nil {
				return errors.Join(err, c.remove(ctx, suite))
			}
		}
		return db.compact(ctx)
	})
	if err != nil {
		return err
	}
	// Interrupted or not, --remove has to reach the account, which has answered before.
	return where.connected(context.WithoutCancel(ctx), m, func(db *cosmos) error {
		suite, err := article.New(db.client, o)
		if err != nil {
			return err
		}
		return errors.Join(do(suite), c.remove(ctx, suite))
	})
}

// remove deletes the databases if --remove says so, whatever has happened, and also if the
// run is interrupted: they cost money.
func (c benchData) remove(ctx context.Context, suite *article.Suite) error {
	if !c.Remove {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return suite.Remove(ctx)
}

// connected does something on a connection.
func (c cosmosConfig) connected(ctx context.Context, m *meter, do func(*cosmos) error) (err error) {
	db, err := c.connect(ctx, m.log, traces{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	return do(db)
}

// interrupted says so of what has ended because the context has.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

type benchArticle struct {
	benchData `embed:""`
	Users     int    `default:"300" help:"How many users write posts; each writes 5 to 50."`
	Runs      int    `default:"30" help:"How often each request is run on each version."`
	Growth    bool   `help:"Run on 10 and 100 times as many users, too, and show what grows: --users should be few."`
	Chart     string `placeholder:"DIR" help:"Write charts of RU there, as SVG and PNG."`
	Check     bool   `help:"Exit status 1 if a request costs over 20 % more RU on V3 than in the article, all that it does included but the reservation of the username (C1) and the copies that show at once (C2), or if Q2 to Q6 do not cost less from version to version."`
}

func (c benchArticle) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Writer) error {
	sizes := []int{c.Users}
	if c.Growth {
		sizes = append(sizes, 10*c.Users, 100*c.Users)
	}
	if err := c.check(c.Runs, sizes...); err != nil {
		return err
	}
	if c.Chart != "" {
		if err := os.MkdirAll(c.Chart, 0o755); err != nil {
			return err
		}
	}
	m := newMeter(log, stderr)
	defer m.stop()
	var growth article.Growth
	for _, users := range sizes {
		o := article.Options{Seed: c.Seed, Users: users, Runs: c.Runs}
		err := c.loaded(ctx, m, o, article.Versions(), func(suite *article.Suite) error {
			return m.follow("requests", suite.Requests(), func(progress func(int)) error {
				report, err := suite.Measure(ctx, progress)
				growth.Reports = append(growth.Reports, report)
				return err
			})
		})
		if err != nil {
			return interrupted(ctx, err)
		}
	}
	m.stop() // before the results
	return c.report(stdout, &growth)
}

// report prints what was measured and draws the charts.
func (c benchArticle) report(stdout io.Writer, growth *article.Growth) error {
	report := growth.Reports[0]
	var result interface {
		Write(io.Writer, article.Format) error
		Chart(dir string) error
	} = report
	if c.Growth {
		result = growth
	}
	err := result.Write(stdout, c.format())
	if c.Chart != "" {
		err = errors.Join(err, result.Chart(c.Chart))
	}
	if c.Check {
		err = errors.Join(err, report.Check())
	}
	return err
}

type benchGrowth struct {
	benchData `embed:""`
	Users     int  `default:"100" help:"How many users of the small data set write posts; each writes 5 to 50."`
	Times     int  `default:"10" help:"How many times as many write those of the large one."`
	Runs      int  `default:"1000" help:"How often each read is run on each data set."`
	Check     bool `help:"Exit status 1 if the median latency of a read is over 1.2 times as long on the large data set."`
}

func (c benchGrowth) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Writer) error {
	if c.Times < 2 || c.Times > maxUsers {
		return fmt.Errorf("--times %d: there can be 2 to %d", c.Times, maxUsers)
	}
	if err := c.check(c.Runs, c.Users, c.Times*c.Users); err != nil {
		return err
	}
	m := newMeter(log, stderr)
	defer m.stop()
	options := func(users int) article.Options { return article.Options{Seed: c.Seed, Users: users, Runs: c.Runs} }
	versions := []string{article.V3}
	var latencies *article.Latencies
	err := c.loaded(ctx, m, options(c.Users), versions, func(small *article.Suite) error {
		return c.loaded(ctx, m, options(c.Times*c.Users), versions, func(large *article.Suite) error {
			return m.follow("reads", article.Reads(c.Runs), func(progress func(int)) (err error) {
				latencies, err = article.Compare(ctx, small, large, progress)
				return err
			})
		})
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	m.stop() // before the results
	err = latencies.Write(stdout, c.format())
	if c.Check {
		err = errors.Join(err, latencies.Check())
	}
	return err
}
