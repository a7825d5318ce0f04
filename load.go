package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"byline/bench/load"
	"byline/graph"
	"byline/store/seed"
)

// benchLoad is what `byline bench load` can be told.
type benchLoad struct {
	URL         string        `name:"url" default:"http://localhost:8080" help:"The server to ask, which has what byline seed has loaded. Where demo tokens are good there, requests write, too."`
	MetricsURL  string        `name:"metrics-url" placeholder:"URL" help:"Its metrics. Default: /metrics of the server; none looks at none."`
	Users       int           `default:"100" help:"As byline seed was told."`
	Seed        uint64        `default:"1" help:"As byline seed was told."`
	Connections int           `default:"16" help:"How many readers ask, each one request after the other."`
	Duration    time.Duration `default:"30s" help:"How long."`
	Writes      float64       `default:"1" help:"Percent of the requests, which likes and comments are."`
	Skew        float64       `default:"1.1" help:"How much more popular some posts are than others: the exponent of Zipf's law, over 1."`
	JSON        bool          `name:"json" help:"Print JSON."`
}

func (c benchLoad) options() (load.Options, error) {
	root, err := url.Parse(c.URL)
	if err != nil || root.Host == "" {
		return load.Options{}, fmt.Errorf("--url %s: it must be a URL such as http://localhost:8080", c.URL)
	}
	if err := checkUsers(c.Users); err != nil {
		return load.Options{}, err
	}
	if !(c.Writes >= 0 && c.Writes <= 100) {
		return load.Options{}, fmt.Errorf("--writes %g: there can be 0 to 100 percent", c.Writes)
	}
	o := load.Options{URL: root.JoinPath("graphql").String(), Metrics: cmp.Or(c.MetricsURL, root.JoinPath("metrics").String()),
		Blog: seed.Article(c.Seed, c.Users, demoUserID), Token: demoToken,
		Connections: c.Connections, Duration: c.Duration, Writes: c.Writes / 100, Skew: c.Skew}
	if c.MetricsURL == "none" {
		o.Metrics = ""
	}
	return o, nil
}

// demoToken is the bearer token by which a user of the demo signs in.
func demoToken(username string) string { return graph.DemoIssuer + ":" + username }

func (c benchLoad) run(ctx context.Context, log *slog.Logger, stdout io.Writer) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	log.Info("asking", logURL, o.URL, "for", c.Duration)
	report, err := load.Run(ctx, o)
	if report == nil {
		return err
	}
	write := report.WriteText
	if c.JSON {
		write = report.WriteJSON
	}
	return errors.Join(err, write(stdout))
}
