package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"byline/bench"
)

// benchConfig is what `byline bench` can be told.
type benchConfig struct {
	Article benchArticle `cmd:"" help:"Run the article's ten requests on the three versions of its data model, and compare with its table. Without an account, on an embedded engine that is thrown away."`
}

type benchArticle struct {
	CosmosEndpoint string `env:"COSMOS_ENDPOINT" placeholder:"URL" help:"Azure Cosmos DB account, or emulator, to run on; its key is in the environment as COSMOS_KEY, or else DefaultAzureCredential signs in. The databases are called byline-bench-article-..., and stay."`
	Users          int    `default:"300" placeholder:"N" help:"How many users write posts; each writes 5 to 50."`
	Seed           uint64 `default:"1" placeholder:"S" help:"Of the data set."`
	Runs           int    `default:"30" placeholder:"N" help:"How often each request is run on each version."`
	Growth         bool   `help:"Run on 10 and 100 times as many users, too, and show what grows."`
	Markdown       bool   `xor:"format" help:"Print Markdown."`
	JSON           bool   `name:"json" xor:"format" help:"Print JSON."`
	Chart          string `placeholder:"DIR" help:"Write charts of RU there, as SVG and PNG."`
	Check          bool   `help:"Exit status 1 if a request costs over 20 %% more RU on V3 than in the article."`
	Remove         bool   `help:"Delete the databases afterwards."`
}

func (c benchArticle) check() error {
	if c.Users < 1 || c.Runs < 1 {
		return fmt.Errorf("--users %d --runs %d: there can be 1 or more", c.Users, c.Runs)
	}
	return cosmosConfig{CosmosEndpoint: c.CosmosEndpoint}.check()
}

func (c benchArticle) format() bench.Format {
	switch {
	case c.Markdown:
		return bench.Markdown
	case c.JSON:
		return bench.JSON
	}
	return bench.Text
}

func (c benchArticle) run(ctx context.Context, log *slog.Logger, stdout, stderr io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	m := newMeter(log, stderr)
	defer m.stop()
	sizes := []int{c.Users}
	if c.Growth {
		sizes = append(sizes, 10*c.Users, 100*c.Users)
	}
	var growth bench.Growth
	for _, users := range sizes {
		report, err := c.measure(ctx, m, bench.Options{Seed: c.Seed, Users: users, Runs: c.Runs})
		if err != nil {
			return err
		}
		growth.Reports = append(growth.Reports, report)
	}
	m.stop() // before the results
	return c.report(stdout, &growth)
}

// report prints what was measured and draws the charts.
func (c benchArticle) report(stdout io.Writer, growth *bench.Growth) error {
	report := growth.Reports[0]
	var result interface {
		Write(io.Writer, bench.Format) error
		Chart(dir string) error
	} = report
	if c.Growth {
		result = growth
	}
	err := result.Write(stdout, c.format())
	if c.Chart != "" {
		err = errors.Join(err, os.MkdirAll(c.Chart, 0o755), result.Chart(c.Chart))
	}
	if c.Check {
		err = errors.Join(err, report.Check())
	}
	return err
}

// authorsPerPartition is how many authors' posts a physical partition of the embedded
// engine holds here: as in an account, more data are on more of them.
const authorsPerPartition = 50

// measure loads what is missing, and measures.
func (c benchArticle) measure(ctx context.Context, m *meter, o bench.Options) (report *bench.Report, err error) {
	where := cosmosConfig{CosmosEndpoint: c.CosmosEndpoint}
	if where.embedded() {
		if where.Data, err = os.MkdirTemp("", "byline-bench-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(where.Data)) }()
		where.engine.Partitions = min(256, (o.Users+authorsPerPartition-1)/authorsPerPartition)
	}
	// Writes are not synced while loading, but they are while measuring.
	loading := where
	loading.engine.NoSync = true
	err = loading.connected(m, func(db *cosmos) error {
		suite, err := bench.New(db.background, o) // which waits while throttled
		if err != nil {
			return err
		}
		for _, version := range bench.Versions() {
			if err := loadModel(ctx, m, suite, o, version); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = where.connected(m, func(db *cosmos) error {
		suite, err := bench.New(db.client, o)
		if err != nil {
			return err
		}
		err = m.follow("requests", suite.Requests(), func(progress func(int)) (err error) {
			report, err = suite.Measure(ctx, progress)
			return err
		})
		if c.Remove {
			err = errors.Join(err, suite.Remove(ctx))
		}
		return err
	}, bench.Charges())
	return report, err
}

// connected does something on a connection, with policies for the client of requests.
func (c cosmosConfig) connected(m *meter, do func(*cosmos) error, policies ...policy.Policy) (err error) {
	db, err := c.connect(m.log, traces{}, policies...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	return do(db)
}
