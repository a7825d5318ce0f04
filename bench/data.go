package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"byline/bench/article"
	"byline/internal/account"
	"byline/internal/console"
	"byline/store/emulator"
	"byline/store/seed"
	"runtime/debug"
)

// dataFlags are the flags of the account, the data set and the output format.
type dataFlags struct {
	CosmosEndpoint string `name:"cosmos-endpoint" env:"COSMOS_ENDPOINT" placeholder:"URL" help:"Azure Cosmos DB account or emulator to run on; its key is in the environment as COSMOS_KEY; without one, DefaultAzureCredential is used. The databases are called byline-bench-article-..., and are kept."`
	Data           string `name:"data" placeholder:"DIR" help:"Directory of the embedded engine's data, which is kept, so that the next run need not load it; what each run writes is kept, too."`
	Seed           uint64 `name:"seed" default:"1" help:"Seed of the data set."`
	Markdown       bool   `name:"markdown" help:"Print Markdown."`
	JSON           bool   `name:"json" help:"Print JSON."`
	Yes            bool   `name:"yes" help:"Load an account that is not on this machine."`
	Remove         bool   `name:"remove" help:"Delete the databases afterwards, and when interrupted."`
}

// check checks the flags, the number of runs, and the sizes of the data sets.
func (f dataFlags) check(runs int, users ...int) error {
	if runs < 1 {
		return fmt.Errorf("--runs %d: there can be 1 or more", runs)
	}
	if f.Markdown && f.JSON {
		return errors.New("--markdown and --json exclude each other")
	}
	for _, n := range users {
		if err := seed.CheckUsers(n); err != nil {
			return err
		}
	}
	if err := account.CheckEndpoint(f.CosmosEndpoint); err != nil {
		return err
	}
	return account.Flags{CosmosEndpoint: f.CosmosEndpoint}.ConfirmLoad(f.Yes)
}

func (f dataFlags) format() article.Format {
	switch {
	case f.Markdown:
		return article.Markdown
	case f.JSON:
		return article.JSON
	}
	return article.Text
}

// authorsPerPartition is how many authors' posts a physical partition of the embedded engine
// holds: as in an account, more data is on more partitions.
const authorsPerPartition = 50

// engine returns the directory, below dir, and the options of the engine of a data set.
func engine(dir string, o article.Options) (string, emulator.Options) {
	return filepath.Join(dir, fmt.Sprintf("%d-users-seed-%d", o.Users, o.Seed)),
		emulator.Options{Partitions: min(256, (o.Users+authorsPerPartition-1)/authorsPerPartition)}
}

// withSuite loads the missing part of a data set in some versions of the model, and calls do with the
// suite. With --remove, it deletes the databases.
func (f dataFlags) withSuite(
	ctx context.Context, p *console.Progress, o article.Options, versions []string, do func(*article.Suite) error,
) (err error) {
	flags, options := account.Flags{CosmosEndpoint: f.CosmosEndpoint}, account.Options{}
	if flags.Embedded() {
		dir := f.Data
		if dir == "" {
			if dir, err = os.MkdirTemp("", "byline-bench-"); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		}
		flags.Data, options.Engine = engine(dir, o)
	}
	// Writes are not synced while loading, but they are while measuring.
	loading := options
	loading.Engine.NoSync = true
	err = withAccount(ctx, p.Log, flags, loading, func(a *account.Account) error {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
		suite, err := article.New(a.Background(), o) // waits while throttled
		if err != nil {
			return err
		}
		for _, version := range versions {
			blog := o.Blog()
			err := p.Follow("posts of "+version, blog.TotalPosts(), func(progress func(int)) error {
				return suite.Seed(ctx, version, progress)
			})
			if err != nil {
				return errors.Join(err, f.remove(ctx, suite))
			}
		}
		return a.Compact(ctx)
	})
	if err != nil {
		return err
	}
	// --remove has to reach the account after an interrupt, too.
	return withAccount(context.WithoutCancel(ctx), p.Log, flags, options, func(a *account.Account) error {
		suite, err := article.New(a.Account, o)
		if err != nil {
			return err
		}
		return errors.Join(do(suite), f.remove(ctx, suite))
	})
}

// remove deletes the databases if --remove is set, whether or not ctx has ended: they cost
// money.
func (f dataFlags) remove(ctx context.Context, suite *article.Suite) error {
	if !f.Remove {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return suite.Remove(ctx)
}

// withAccount opens an account, calls do, and closes it.
func withAccount(
	ctx context.Context, log *slog.Logger, flags account.Flags, o account.Options, do func(*account.Account) error,
) (err error) {
	a, err := flags.Open(ctx, log, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return do(a)
}

// interrupted returns a short error if ctx has ended, and err otherwise.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}
