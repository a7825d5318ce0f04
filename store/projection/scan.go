package projection

import (
	"context"
	"encoding/json"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/search"
	"byline/store/stored"
	"byline/store/username"
)

// scan is what Verify has read of the users and posts containers.
type scan struct {
	*base
	progress     func(done, total int)  // may be nil
	items        int                    // read so far
	expected     int                    // in the posts container, by the counts of the summaries
	total        int                    // estimated; 0: unknown
	users        map[string]blog.Byline // by id; without a name of a deleted or malformed user
	deletedUsers []string
	reservations map[string]string // owner by key
	released     map[string]bool   // keys of released reservations
	posts        map[string]*postScan
	summaries    map[summaryKey]string // digests
	wrongBylines []cosmos.Key          // of items with another byline than their author
	follows      followScan
	likes        likeScan
}

// postScan is what a scan has read of a post.
type postScan struct {
	entry          blog.Entry
	author         string
	short          string // digest of the summary
	comments       int32  // as counted on the post, if it is not deleted, minus the items found
	likes          int32
	exists         bool
	deleted        bool
	text, wantText string // digests of the text item; "": none
	inline         bool   // the post has a long text itself
	tags           []string
	search         string // digest of the search item; "" of a long post
	alone          bool   // a short text is an item
}

// summaryKey is a summary in the partition of an author.
type summaryKey struct{ author, post string }

// newScan returns an empty scan.
func newScan(b *base, progress func(done, total int)) *scan {
	return &scan{base: b, progress: progress, users: map[string]blog.Byline{}, reservations: map[string]string{},
		released: map[string]bool{}, posts: map[string]*postScan{}, summaries: map[summaryKey]string{},
		likes:   likeScan{},
		follows: followScan{half: map[followKey]int64{}, uncounted: map[string]followCounts{}}}
}

// read reads all users and posts.
func (s *scan) read(ctx context.Context) error {
	if err := s.readUsers(ctx); err != nil {
		return err
	}
	if err := s.readFollows(ctx); err != nil {
		return err
	}
	s.total = s.items + s.expected + 1 // never reached before the end
	s.reportProgress()
	if err := s.readPosts(ctx); err != nil {
		return err
	}
	s.total = s.items
	s.reportProgress()
	return nil
}

func (s *scan) readUsers(ctx context.Context) error {
	const op = "verify users"
	return s.readAll(ctx, s.base.users, "SELECT * FROM c", func(raw []byte) error {
		var e struct {
			blog.Envelope
			ID string `json:"userId"`
		}
		malformed := json.Unmarshal(raw, &e)
		if e.Type == blog.TypeUser {
			s.users[e.ID] = blog.Byline{}
			if malformed == nil && e.Deleted {
				s.deletedUsers = append(s.deletedUsers, e.ID)
			}
		}
		if malformed != nil || e.Deleted {
			return nil // the projections skip malformed items
		}
		switch e.Type {
		case blog.TypeUser:
			if u, err := blog.DecodeUser(op, raw); err == nil {
				s.users[u.UserID] = u.Byline
				if counts := (followCounts{u.FollowerCount, u.FollowingCount}); counts != (followCounts{}) {
					s.follows.uncounted[u.UserID] = counts
				}
			}
		case blog.TypeUsername:
			if r, _, err := blog.Decode[username.Reservation](op, blog.TypeUsername, raw); err == nil {
				s.reservations[r.ID] = r.OwnerID
				if r.TTL > 0 {
					s.released[r.ID] = true
				}
			}
		case blog.TypeLiked:
			if item, err := blog.DecodeSaved(op, raw); err == nil {
				s.likes.add(item.PostID, item.UserID, item.SavedAt)
			}
		case blog.TypePost:
			if item, _, err := blog.Decode[blog.SummaryItem](op, blog.TypePost, raw); err == nil {
				s.summaries[summaryKey{item.UserID, item.ID}] = describeSummary(item)
				s.expected += 1 + int(item.CommentCount) + int(item.LikeCount)
			}
		}
		return nil
	})
}

// followScan is what a scan has read of follows.
type followScan struct {
	half         map[followKey]int64     // the revisions of follows of which one item was found, or differing ones
	views        []cosmos.Key            // in the partitions of users who do not exist
	wrongBylines []cosmos.Key            // of followers, or without one of the two users
	uncounted    map[string]followCounts // as counted on users, minus the items found
}

// suspects returns the items in the partitions of followers that may be wrong or missing.
func (f *followScan) suspects() []Difference {
	all := differences(Following, f.views)
	for k := range f.half {
		all = append(all, Difference{Kind: Following, Partition: k.follower, ID: blog.FollowingID(k.author)})
	}
	return all
}

// readFollows reads the follows, which are compared with the users.
func (s *scan) readFollows(ctx context.Context) error {
	const query = "SELECT * FROM c WHERE c.type IN ('follower', 'following')"
	f := &s.follows
	return s.readAll(ctx, s.base.users, query, func(raw []byte) error {
		item, err := blog.DecodeFollow("verify follows", raw)
		if err != nil {
			return nil // the projections skip malformed items
		}
		k, counts := followKey{item.UserID, item.OwnerID}, f.uncounted[item.UserID]
		_, exists := s.users[item.UserID]
		if item.Type == blog.TypeFollower {
			counts.followers--
			owner, ok := s.users[item.OwnerID]
			if !exists || !ok || owner.Username != "" && (item.Follower == nil || *item.Follower != owner) {
				f.wrongBylines = append(f.wrongBylines, stored.Key(item.UserID, item.ID))
			}
		} else {
			k = followKey{item.OwnerID, item.UserID}
			counts.followed--
			if !exists {
				f.views = append(f.views, stored.Key(item.UserID, item.ID))
			}
		}
		f.uncounted[item.UserID] = counts
		if counts == (followCounts{}) {
			delete(f.uncounted, item.UserID)
		}
		if revision, ok := f.half[k]; ok && revision == item.Revision {
			delete(f.half, k)
		} else {
			f.half[k] = item.Revision
		}
		return nil
	})
}

func (s *scan) readPosts(ctx context.Context) error {
	const op = "verify posts"
	return s.readAll(ctx, s.base.posts, "SELECT * FROM c", func(raw []byte) error {
		var item blog.Authored
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil
		}
		post := s.posts[item.PostID]
		if post == nil {
			post = &postScan{}
			s.posts[item.PostID] = post
		}
		switch {
		case item.Type == blog.TypeText:
			text, ok, err := blog.Decode[blog.TextItem](op, blog.TypeText, raw)
			if err != nil {
				post.text = unreadable
			} else if ok {
				post.text, post.alone = text.Digest, !blog.IsLong(text.Content)
			}
			return nil
		case item.Type == blog.TypePost, item.Type == blog.TypeDeletedPost:
			p, err := blog.DecodePostOrTombstone(op, raw)
			if err != nil {
				return nil
			}
			if item, ok, _ := blog.Decode[blog.PostItem](op, blog.TypePost, raw); ok {
				post.wantText = item.TextDigest
				post.inline = item.TextDigest == "" && blog.IsLong(item.Content)
			}
			post.exists, post.deleted = true, p.Tombstone
			post.entry, post.author = blog.Entry{ID: p.ID, CreatedAt: p.CreatedAt}, p.UserID
			post.short, post.tags = describeSummary(p.Summary()), p.Tags
			if !p.Tombstone && !p.Truncated {
				post.search = describeSearchItem(search.NewItem(p))
			}
			if !p.Tombstone {
				post.comments += p.CommentCount
				post.likes += p.LikeCount
			}
		case item.Deleted:
			return nil
		case item.Type == blog.TypeComment:
			post.comments--
		case item.Type == blog.TypeLike:
			post.likes--
			if like, err := blog.DecodeLike(op, raw); err == nil && like != nil {
				s.likes.add(like.PostID, like.UserID, like.CreatedAt)
			}
		}
		if b := s.users[item.UserID]; b.Username != "" && !item.Deleted && b != item.Byline {
			s.wrongBylines = append(s.wrongBylines, stored.Key(item.PostID, item.ID))
		}
		return nil
	})
}

// readAll reads all items of a container that a query selects.
func (s *scan) readAll(ctx context.Context, c *cosmos.Container, query string, each func(raw []byte) error) error {
	for items, err := range c.Query(ctx, cosmos.Query{Text: query, AllPartitions: true, PageSize: 1000}) {
		if err != nil {
			return stored.Error("verify "+c.Name(), err)
		}
		for _, raw := range items {
			if err := each(raw); err != nil {
				return err
			}
		}
		s.items += len(items)
		if s.total > 0 {
			s.total = max(s.total, s.items+1)
		}
		s.reportProgress()
	}
	return nil
}

// reportProgress reports progress.
func (s *scan) reportProgress() {
	if s.progress != nil {
		s.progress(s.items, s.total)
	}
}
