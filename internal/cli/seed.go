package cli

import (
	"context"
	"errors"
	"fmt"

	"byline/graph/auth"
	"byline/internal/account"
	"byline/internal/console"
	"byline/store"
	"byline/store/emulator"
	"byline/store/seed"
)

type seedCommand struct {
	account.Flags
	Users  int    `name:"users" default:"100" help:"Number of users; each writes 5 to 50 posts, with up to 25 comments and 100 likes each."`
	Seed   uint64 `name:"seed" default:"1" help:"Seed of the generator. The same seed and number of users give the same blog."`
	Digest bool   `name:"digest" help:"Read everything back, which costs RU, and print a digest of the contents."`
	Yes    bool   `name:"yes" help:"Load an account that is not on this machine. Without it, only the embedded engine and emulators on loopback addresses are loaded."`
	console.LogFlags
}

// Run loads the missing part of the article's data set.
func (c *seedCommand) Run(ctx context.Context, s console.Streams) (err error) {
	if err := errors.Join(c.Check(), seed.CheckUsers(c.Users), c.ConfirmLoad(c.Yes)); err != nil {
		return err
	}
	p := console.NewProgress(s)
	defer p.Stop()
	db, err := c.Open(ctx, p.Log, account.Options{Engine: emulator.Options{NoSync: true}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err = c.load(ctx, db, p); err == nil {
		err = db.Compact(ctx)
	}
	if err == nil && c.Digest {
		var digest seed.Digest
		err = p.Follow("items read for the digest", 0, func(progress func(int)) (err error) {
			digest, err = seed.DigestOf(ctx, db.Background(), c.CosmosDatabase, store.Containers(), progress)
			return err
		})
		if err == nil {
			p.Stop() // before the result
			_, err = fmt.Fprintf(s.Stdout, "database %s: %d items, digest %s\n", c.CosmosDatabase, digest.Items, digest)
		}
	}
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted: run it again to resume")
	}
	return err
}

// load provisions the database and loads the blog.
func (c *seedCommand) load(ctx context.Context, db *account.Account, p *console.Progress) error {
	blog, err := c.Loader(db, p.Log)
	if err != nil {
		return err
	}
	if err = blog.Provision(ctx); err == nil {
		err = blog.Views().FillFeed(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", db.Where, err)
	}
	content := seed.Article(c.Seed, c.Users, auth.DemoUserID)
	if other, err := seed.Other(ctx, blog, content); err != nil {
		return err
	} else if other {
		return fmt.Errorf(
			"%s, database %s: the blog of --seed %d exists with another number of --users: choose another --seed, "+
				"which adds a second blog, or another database", db.Where, c.CosmosDatabase, c.Seed)
	}
	return p.Follow("posts", content.TotalPosts(), func(progress func(int)) error {
		return seed.LoadOffline(ctx, content, blog, progress)
	})
}
