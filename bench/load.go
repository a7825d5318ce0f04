package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"byline/graph/auth"
	"byline/internal/console"
	"byline/internal/load"
	"byline/store/seed"
)

type loadCommand struct {
	URL         string        `name:"url" default:"http://localhost:8080" help:"The server, with the data set of byline seed. For writes it must accept demo tokens."`
	MetricsURL  string        `name:"metrics-url" placeholder:"URL" help:"The server's metrics. Default: /metrics of the server; none disables them."`
	Users       int           `name:"users" default:"100" help:"As for byline seed."`
	Seed        uint64        `name:"seed" default:"1" help:"As for byline seed."`
	Connections int           `name:"connections" default:"16" help:"Concurrent readers; each sends one request after the other."`
	Duration    time.Duration `name:"duration" default:"30s" help:"How long to send requests."`
	Writes      float64       `name:"writes" default:"1" help:"Percentage of requests that like or comment."`
	Skew        float64       `name:"skew" default:"1.1" help:"Exponent of the Zipf distribution over posts, over 1."`
	JSON        bool          `name:"json" help:"Print JSON."`
}

// options checks the flags that load.Run does not.
func (c *loadCommand) options() (load.Options, error) {
	root, err := url.Parse(c.URL)
	if err != nil || root.Host == "" {
		return load.Options{}, fmt.Errorf("--url %s: it must be a URL such as http://localhost:8080", c.URL)
	}
	if err := seed.CheckUsers(c.Users); err != nil {
		return load.Options{}, err
	}
	if !(c.Writes >= 0 && c.Writes <= 100) {
		return load.Options{}, fmt.Errorf("--writes %g: there can be 0 to 100 percent", c.Writes)
	}
	o := load.Options{
		URL:         root.JoinPath("graphql").String(),
		Metrics:     cmp.Or(c.MetricsURL, root.JoinPath("metrics").String()),
		Blog:        seed.Article(c.Seed, c.Users, auth.DemoUserID),
		Token:       func(username string) string { return auth.DemoIssuer + ":" + username },
		Connections: c.Connections, Duration: c.Duration, Writes: c.Writes / 100, Skew: c.Skew,
	}
	if c.MetricsURL == "none" {
		o.Metrics = ""
	}
	return o, nil
}

// Run sends requests to a server and prints the latencies and the cost.
func (c *loadCommand) Run(ctx context.Context, s console.Streams) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	s.Log.Info("sending requests", "url", o.URL, "for", c.Duration)
	report, err := load.Run(ctx, o)
	if report == nil {
		return err
	}
	write := report.WriteText
	if c.JSON {
		write = report.WriteJSON
	}
	return errors.Join(err, write(s.Stdout))
}
