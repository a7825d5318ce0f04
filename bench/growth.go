package main

import (
	"context"
	"errors"
	"fmt"

	"byline/bench/article"
	"byline/internal/console"
	"byline/store/seed"
)

type growthCommand struct {
	dataFlags
	Users int  `name:"users" default:"100" help:"Number of users of the small data set who write posts; each writes 5 to 50."`
	Times int  `name:"times" default:"10" help:"How many times as many users the large data set has."`
	Runs  int  `name:"runs" default:"1000" help:"Runs of each read on each data set."`
	Check bool `name:"check" help:"Exit status 1 if the median latency of a read is over 1.2 times as long on the large data set."`
}

// Run compares the latencies of reads.
func (c *growthCommand) Run(ctx context.Context, s console.Streams) error {
	if c.Times < 2 || c.Times > seed.MaxUsers {
		return fmt.Errorf("--times %d: there can be 2 to %d", c.Times, seed.MaxUsers)
	}
	if err := c.check(c.Runs, c.Users, c.Times*c.Users); err != nil {
		return err
	}
	p := console.NewProgress(s)
	defer p.Stop()
	options := func(users int) article.Options { return article.Options{Seed: c.Seed, Users: users, Runs: c.Runs} }
	versions := []string{article.V3}
	var latencies *article.Latencies
	err := c.withSuite(ctx, p, options(c.Users), versions, func(small *article.Suite) error {
		return c.withSuite(ctx, p, options(c.Times*c.Users), versions, func(large *article.Suite) error {
			return p.Follow("reads", article.Reads(c.Runs), func(progress func(int)) (err error) {
				latencies, err = article.Compare(ctx, small, large, progress)
				return err
			})
		})
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	p.Stop() // before the results
	err = latencies.Write(s.Stdout, c.format())
	if c.Check {
		err = errors.Join(err, latencies.Check())
	}
	return err
}
