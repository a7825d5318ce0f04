package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"byline/graph"
	"byline/graph/cost"
	"byline/internal/account"
	"byline/internal/console"
)

type explainCommand struct {
	Args struct {
		File string `positional-arg-name:"FILE" description:"The GraphQL document."`
	} `positional-args:"yes" required:"yes"`
	Variables      string `long:"variables" value-name:"JSON" description:"Variables, as a JSON object. Default: the defaults in the document."`
	FeedPartitions int    `long:"feed-partitions" env:"BYLINE_FEED_PARTITIONS" value-name:"K" description:"Partitions of the feed, as on the server. Default: 1."`
	JSON           bool   `long:"json" description:"One JSON object a line, for each operation, instead of tables."`
}

// Run prints the predicted requests and request units of each operation of a document.
func (c *explainCommand) Run(_ context.Context, s console.Streams) error {
	if err := account.CheckFeedPartitions(c.FeedPartitions); err != nil {
		return err
	}
	document, err := os.ReadFile(c.Args.File)
	if err != nil {
		return err
	}
	all, err := cost.Explain(graph.Schema(true), string(document), []byte(c.Variables), c.FeedPartitions)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Args.File, err)
	}
	for i, e := range all {
		if c.JSON {
			err = json.NewEncoder(s.Stdout).Encode(e)
		} else {
			if i > 0 {
				fmt.Fprintln(s.Stdout)
			}
			err = printExplanation(s.Stdout, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func printExplanation(stdout io.Writer, e cost.Explanation) error {
	fmt.Fprintf(stdout, "%s: %.2f RU predicted", strings.TrimSpace(e.Type+" "+e.Operation), e.PredictedRU)
	if e.Type == "subscription" {
		fmt.Fprint(stdout, " for each event")
	}
	fmt.Fprintln(stdout)
	if len(e.Missing) > 0 {
		fmt.Fprintf(stdout, "without a value: $%s\n", strings.Join(e.Missing, ", $"))
	}
	if e.Wrong != "" {
		fmt.Fprintf(stdout, "refused for its page size or its ids: %s\n", e.Wrong)
	}
	if e.Refused != "" {
		fmt.Fprintf(stdout, "refused by default: %s\n", e.Refused)
	}
	if len(e.Fields) == 0 {
		return nil
	}
	t := table.NewWriter()
	t.AppendHeader(table.Row{"field", "pattern", "times", "RU", "kind", "container", "partition key"})
	for _, f := range e.Fields {
		for i, r := range f.Requests {
			row := table.Row{"", "", "", "", r.Kind, r.Container, r.PartitionKey}
			if i == 0 {
				row[0], row[1], row[2], row[3] = f.Path, f.Pattern, f.Times, fmt.Sprintf("%.2f", f.RU)
			}
			t.AppendRow(row)
		}
	}
	_, err := fmt.Fprintln(stdout, t.Render())
	return err
}
