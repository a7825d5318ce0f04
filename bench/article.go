package main

import (
	"context"
	"errors"
	"io"
	"os"

	"byline/bench/article"
	"byline/internal/console"
)

type articleCommand struct {
	dataFlags
	Users  int    `name:"users" default:"300" help:"Number of users who write posts; each writes 5 to 50."`
	Runs   int    `name:"runs" default:"30" help:"Runs of each request on each version."`
	Growth bool   `name:"growth" help:"Run with 10 and 100 times as many users, too, and compare. --users should be small."`
	Chart  string `name:"chart" placeholder:"DIR" help:"Directory to write charts of RU to, as SVG and PNG."`
	Check  bool   `name:"check" help:"Exit status 1 if a request costs over 20 % more RU on V3 than in the article, except for the reservation of the username (C1), the views that are written at once (C2) and the index of the partition key (C3, C4), or if Q2 to Q6 do not cost less from version to version."`
}

// Run measures the article's table.
func (c *articleCommand) Run(ctx context.Context, s console.Streams) error {
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
	p := console.NewProgress(s)
	defer p.Stop()
	var growth article.Growth
	for _, users := range sizes {
		o := article.Options{Seed: c.Seed, Users: users, Runs: c.Runs}
		err := c.withSuite(ctx, p, o, article.Versions(), func(suite *article.Suite) error {
			return p.Follow("requests", suite.Requests(), func(progress func(int)) error {
				report, err := suite.Measure(ctx, progress)
				growth.Reports = append(growth.Reports, report)
				return err
			})
		})
		if err != nil {
			return interrupted(ctx, err)
		}
	}
	p.Stop() // before the results
	return c.report(s.Stdout, &growth)
}

// report prints what was measured and draws the charts.
func (c *articleCommand) report(stdout io.Writer, growth *article.Growth) error {
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
