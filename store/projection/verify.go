package projection

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
	"byline/store/username"
)

// Verify compares all summaries, counts, texts, bylines, reservations, timelines and the feed with their sources,
// looks for items of deleted users and posts without a job that deletes them, and calls report with each
// difference. It can run beside instances that serve: it compares again until a difference is gone or the
// settle time is over. The summary of a post that keeps changing is correct once it has the revision that
// the post had first.
//
// Verify reads all items, and keeps some hundred bytes of memory per post. progress, if not nil, gets the
// number of items read and the estimated total, which is 0 until the users container has been read.
func (v *Views) Verify(
	ctx context.Context, settle time.Duration, progress func(done, total int), report func(Difference),
) error {
	ctx = v.account.Begin(ctx, Verify)
	if err := v.CheckFeed(ctx); err != nil {
		return err
	}
	r := verifier{Views: v, progress: progress, users: map[string]blog.Byline{}, reservations: map[string]string{},
		released: map[string]bool{},
		posts:    map[string]*postSummary{}, summaries: map[summaryKey]string{}}
	if err := r.readUsers(ctx); err != nil {
		return err
	}
	r.total = r.items + r.expected + 1 // never reached before the end
	r.reportProgress()
	if err := r.readPosts(ctx); err != nil {
		return err
	}
	r.total = r.items
	r.reportProgress()
	suspects, err := r.suspects(ctx)
	if err != nil {
		return err
	}
	settled := time.NewTimer(settle)
	defer settled.Stop()
	over := false
	for {
		if suspects, err = v.stillDifferent(ctx, suspects); err != nil {
			return err
		}
		if over {
			for _, d := range suspects {
				report(d)
			}
		}
		if over || len(suspects) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return stored.Error("verify", ctx.Err())
		case <-settled.C:
			over = true
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stillDifferent compares possible differences again, several at a time: during a rename there are
// thousands.
func (v *Views) stillDifferent(ctx context.Context, suspects []Difference) ([]Difference, error) {
	found := make([]*Difference, len(suspects))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, d := range suspects {
		g.Go(func() (err error) {
			found[i], err = v.compare(ctx, d)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var still []Difference
	for _, d := range found {
		if d != nil {
			still = append(still, *d)
		}
	}
	return still, nil
}

// verifier is the state of one Verify.
type verifier struct {
	*Views
	progress     func(done, total int)
	items        int                    // read so far
	expected     int                    // in the posts container, by the counts of the summaries
	total        int                    // estimated; 0: unknown
	users        map[string]blog.Byline // by id; without a name of a deleted or malformed user
	deletions    []Difference           // of deleted users
	reservations map[string]string      // owner by key
	released     map[string]bool        // keys of released reservations
	posts        map[string]*postSummary
	summaries    map[summaryKey]string // digests
	wrongBylines []Difference

	formerSummaries, formerTombstones []Difference // see isFormerTombstone
}

type postSummary struct {
	entry          feedEntry
	author         string
	short          string // a digest
	comments       int32  // as counted on the post, if it is not deleted, minus the items found
	likes          int32
	exists         bool
	deleted        bool
	text, wantText string // digests of the text item; "": none
	inline         bool   // the post has a long text itself
	tags           []string
	alone          bool // a short text is an item
}

type summaryKey struct{ author, post string }

// scan reads all items of a container.
func (v *verifier) scan(ctx context.Context, c *cosmos.Container, each func(raw []byte) error) error {
	for items, err := range c.Query(ctx, cosmos.Query{Text: "SELECT * FROM c", AllPartitions: true, PageSize: 1000}) {
		if err != nil {
			return stored.Error("verify "+c.Name(), err)
		}
		for _, raw := range items {
			if err := each(raw); err != nil {
				return err
			}
		}
		v.items += len(items)
		if v.total > 0 {
			v.total = max(v.total, v.items+1)
		}
		v.reportProgress()
	}
	return nil
}

// reportProgress reports progress.
func (v *verifier) reportProgress() {
	if v.progress != nil {
		v.progress(v.items, v.total)
	}
}

func (v *verifier) readUsers(ctx context.Context) error {
	const op = "verify users"
	return v.scan(ctx, v.Views.users, func(raw []byte) error {
		var e struct {
			blog.Envelope
			ID     string `json:"userId"`
			ItemID string `json:"id"`
		}
		malformed := json.Unmarshal(raw, &e)
		if e.Type == blog.TypeUser {
			v.users[e.ID] = blog.Byline{}
			if malformed == nil && e.Deleted {
				v.deletions = append(v.deletions, Difference{Kind: Deletion, Partition: e.ID, ID: e.ID})
			}
		}
		if malformed == nil && isFormerTombstone(raw) {
			v.formerSummaries = append(v.formerSummaries, Difference{Kind: Summary, Partition: e.ID, ID: e.ItemID})
		}
		if malformed != nil || e.Deleted {
			return nil // the projections skip malformed items
		}
		switch e.Type {
		case blog.TypeUser:
			if u, err := blog.DecodeUser(op, raw); err == nil {
				v.users[u.UserID] = u.Byline
			}
		case blog.TypeUsername:
			if r, _, err := blog.Decode[username.Reservation](op, blog.TypeUsername, raw); err == nil {
				v.reservations[r.ID] = r.OwnerID
				if r.TTL > 0 {
					v.released[r.ID] = true
				}
			}
		case blog.TypePost:
			if item, _, err := blog.Decode[blog.SummaryItem](op, blog.TypePost, raw); err == nil {
				v.summaries[summaryKey{item.UserID, item.ID}] = describe(item)
				v.expected += 1 + int(item.CommentCount) + int(item.LikeCount)
			}
		}
		return nil
	})
}

func (v *verifier) readPosts(ctx context.Context) error {
	const op = "verify posts"
	return v.scan(ctx, v.Views.posts, func(raw []byte) error {
		var item blog.Authored
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil
		}
		summary := v.posts[item.PostID]
		if summary == nil {
			summary = &postSummary{}
			v.posts[item.PostID] = summary
		}
		if isFormerTombstone(raw) {
			v.formerTombstones = append(v.formerTombstones,
				Difference{Kind: Tombstone, Partition: item.PostID, ID: item.ID})
		}
		switch {
		case item.Type == blog.TypeText:
			text, ok, err := blog.Decode[blog.TextItem](op, blog.TypeText, raw)
			if err != nil {
				summary.text = unreadable
			} else if ok {
				summary.text, summary.alone = text.Digest, !blog.IsLong(text.Content)
			}
			return nil
		case item.Type == blog.TypePost, item.Type == blog.TypeDeletedPost:
			p, err := blog.DecodePostOrTombstone(op, raw)
			if err != nil {
				return nil
			}
			if stored, ok, _ := blog.Decode[blog.PostItem](op, blog.TypePost, raw); ok {
				summary.wantText = stored.TextDigest
				summary.inline = stored.TextDigest == "" && blog.IsLong(stored.Content)
			}
			summary.exists, summary.deleted = true, p.Tombstone
			summary.entry, summary.author, summary.short = entryOf(p), p.UserID, describe(p.Summary())
			summary.tags = p.Tags
			if !p.Tombstone {
				summary.comments += p.CommentCount
				summary.likes += p.LikeCount
			}
		case item.Deleted:
			return nil
		case item.Type == blog.TypeComment:
			summary.comments--
		case item.Type == blog.TypeLike:
			summary.likes--
		}
		if b := v.users[item.UserID]; b.Username != "" && !item.Deleted && b != item.Byline {
			v.wrongBylines = append(v.wrongBylines, Difference{Kind: Byline, Partition: item.PostID, ID: item.ID})
		}
		return nil
	})
}

// suspects lists the differences found by reading, which concurrent writes may have caused.
func (v *verifier) suspects(ctx context.Context) ([]Difference, error) {
	var found []Difference
	for _, view := range v.all() {
		some, err := view.scanned(ctx, v)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.ID, b.ID))
	})
	return slices.Compact(found), nil // a former tombstone may be missing as an entry, too
}

// newest returns the newest posts, at most blog.FeedKept.
func (v *verifier) newest() []feedEntry {
	var all []feedEntry
	for _, p := range v.posts {
		if p.exists && !p.deleted {
			all = append(all, p.entry)
		}
	}
	slices.SortFunc(all, newestFirst)
	return all[:min(len(all), blog.FeedKept)]
}
