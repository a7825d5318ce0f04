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
	File           string `arg:"" help:"The GraphQL document; - reads it from stdin."`
	Variables      string `name:"variables" placeholder:"JSON" help:"Variables, as a JSON object. Default: the defaults in the document."`
	FeedPartitions int    `name:"feed-partitions" env:"BYLINE_FEED_PARTITIONS" placeholder:"K" help:"Partitions of the feed, as on the server. Default: 1."`
	JSON           bool   `name:"json" help:"One JSON object a line, for each operation, instead of tables."`
}

// Run prints the predicted requests and request units of each operation of a document. It returns an error
// if a server with the default limits refuses one.
func (c *explainCommand) Run(_ context.Context, s console.Streams) error {
	if err := account.CheckFeedPartitions(c.FeedPartitions); err != nil {
		return err
	}
	document, err := c.read()
	if err != nil {
		return err
	}
	all, err := cost.Explain(graph.Schema(true), string(document), []byte(c.Variables), c.FeedPartitions)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	refused := 0
	for i, e := range all {
		if e.Wrong != "" || e.Refused != "" {
			refused++
		}
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
	if refused > 0 {
		return fmt.Errorf("%s: %d of %d operations would be refused", c.name(), refused, len(all))
	}
	return nil
}

// fromStdin is the name of a file that means stdin.
const fromStdin = "-"

func (c *explainCommand) read() ([]byte, error) {
	if c.File == fromStdin {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(c.File)
}

// name returns the name of the document for errors.
func (c *explainCommand) name() string {
	if c.File == fromStdin {
		return "stdin"
	}
	return c.File
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
		rows := []table.Row{{f.Path, f.Pattern, f.Times, fmt.Sprintf("%.2f", f.RU)}}
		for i, r := range f.Requests {
			if i > 0 {
				rows = append(rows, table.Row{"", "", "", ""})
			}
			rows[i] = append(rows[i], r.Kind, r.Container, r.PartitionKey)
		}
		t.AppendRows(rows)
	}
	_, err := fmt.Fprintln(stdout, t.Render())
	return err
}
