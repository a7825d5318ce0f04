package server

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"byline/graph/auth"
	"byline/store"
	"byline/store/files"
	"byline/store/seed"
)

// demoBlog loads the demo blog into an empty store.
type demoBlog struct {
	blog   *store.Store
	files  *files.Files // nil: the blog has no pictures
	tokens bool         // demo tokens are accepted
	log    *slog.Logger
	loaded atomic.Bool // or the store was not empty
	failed atomic.Bool
}

// load loads the demo blog if the store is empty, or resumes an interrupted load. It calls ready
// when the first posts are stored, or at the latest when it returns.
func (d *demoBlog) load(ctx context.Context, ready func()) {
	defer ready()
	began := time.Now()
	content := seed.Demo(auth.DemoUserID)
	if d.files != nil {
		content.Covers = &seed.Covers{Files: d.files, Store: d.blog}
	}
	content.Ends = began.UTC().Truncate(24 * time.Hour) // the same on all instances
	content, err := content.WithDatesOf(ctx, d.blog)
	needed := false
	if err == nil {
		needed, err = seed.Needed(ctx, d.blog, content)
	}
	if err == nil && needed {
		d.log.Info("loading the demo blog", "users", content.Users, "posts", content.TotalPosts())
		if err = seed.Load(ctx, content, d.blog, func(int) { ready() }); err == nil {
			err = seed.Follow(ctx, content, d.blog)
		}
	}
	switch {
	case err == nil:
		d.loaded.Store(true)
	case ctx.Err() == nil:
		d.failed.Store(true)
		d.log.Error("loading the demo blog failed", logError, err)
	}
	if err != nil {
		return
	}
	if needed {
		d.log.Info("the demo blog is complete", logTook, time.Since(began).Round(time.Millisecond))
	}
	if !d.tokens {
		return
	}
	if first, err := d.blog.User(ctx, content.User(0).UserID); err == nil && first != nil {
		var names []string
		for i := range content.Users {
			names = append(names, content.User(i).Username)
		}
		d.log.Info("sign in as any of the demo users", "users", strings.Join(names, " "))
	}
}

// check is OK once the demo blog is complete.
func (d *demoBlog) check() check {
	c := check{Name: checkDemo, OK: d.loaded.Load()}
	switch {
	case c.OK:
	case d.failed.Load():
		c.Detail = "loading the demo blog failed; see the log"
	default:
		c.Detail = "loading the demo blog"
	}
	return c
}
