package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"

	"byline/internal/account"
	"byline/internal/console"
	"byline/store"
	"byline/store/cosmos/provision"
)

type provisionCommand struct {
	account.Flags
	Compare       bool   `name:"check" help:"Compare the account with what Byline needs, change nothing, and print the differences. Exit status 1 if Byline would not serve."`
	Template      string `name:"template" placeholder:"arm|bicep|az" help:"Print the definitions as the resources of an ARM template (arm), in Bicep (bicep), or as commands of the Azure CLI (az), and connect to nothing."`
	MaxThroughput *int   `name:"max-throughput" placeholder:"RU/s" help:"Autoscale throughput that the containers of a new database share, at most; a serverless account has none. 0: each new container has the account's default, 400 RU/s. Default: 1000; --check compares it only if it is given."`
	console.LogFlags
}

// Run creates the missing containers, compares the existing ones, or prints the definitions.
func (c *provisionCommand) Run(ctx context.Context, s console.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	spec := store.DatabaseSpec(c.CosmosDatabase, c.maxThroughput())
	if c.Template != "" {
		text, err := spec.Template(c.Template)
		if err != nil {
			return fmt.Errorf("--template %q: %w", c.Template, err)
		}
		_, err = fmt.Fprint(s.Stdout, text)
		return err
	}
	db, err := c.Open(ctx, s.Log, account.Options{})
	if err != nil {
		return err
	}
	if c.Compare {
		err = c.compare(ctx, s, db, spec)
	} else if err = store.Provision(ctx, db.Account, spec); err == nil {
		s.Log.Info("the database and its containers exist, as Byline needs them", "database", spec.Name)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", db.Where, err)
	}
	return errors.Join(err, db.Close())
}

// maxThroughput returns the throughput of the spec: 0, which is not compared, with --check alone.
func (c *provisionCommand) maxThroughput() int {
	switch {
	case c.MaxThroughput != nil:
		return *c.MaxThroughput
	case c.Compare:
		return 0
	}
	return store.DefaultMaxThroughput
}

// check returns an error that names the invalid flag.
func (c *provisionCommand) check() error {
	switch n := c.maxThroughput(); {
	case n < 0 || n%1000 != 0:
		return fmt.Errorf("--max-throughput %d: autoscale throughput is a multiple of 1000 RU/s", n)
	case c.CosmosDatabase == "":
		return account.ErrNoDatabase
	case c.Compare && c.Template != "":
		return errors.New("--check and --template exclude each other")
	case c.Template != "": // Run checks the format
		return nil
	case c.Embedded():
		return errors.New("--cosmos-endpoint is missing: the embedded engine needs no provisioning")
	case !c.Compare && os.Getenv(account.KeyVariable) == "":
		return errors.New(
			"COSMOS_KEY is missing: only the account's key may create containers. Without a key, run the commands " +
				"that \"byline provision --template az\" prints")
	}
	return c.Flags.Check()
}

// compare prints the differences. It fails if Byline would not serve.
func (c *provisionCommand) compare(
	ctx context.Context, s console.Streams, db *account.Account, spec provision.DatabaseSpec,
) error {
	all, err := provision.Compare(ctx, db.Account, spec)
	if err != nil {
		return err
	}
	t := table.NewWriter()
	t.AppendHeader(table.Row{"container", "property", "difference", "serves"})
	broken := 0
	for _, d := range all {
		serves := "yes"
		if d.Breaks {
			serves, broken = "no", broken+1
		}
		t.AppendRow(table.Row{d.Container, d.Property, d.Text, serves})
	}
	if len(all) > 0 {
		if _, err := fmt.Fprintln(s.Stdout, t.Render()); err != nil {
			return err
		}
	}
	if broken > 0 {
		return fmt.Errorf("database %s: Byline would not serve, because of %d differences", spec.Name, broken)
	}
	s.Log.Info("Byline would serve", "database", spec.Name, "differences", len(all))
	return nil
}
