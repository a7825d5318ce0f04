package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"byline/store/changefeed"
	"byline/store/cosmos"
)

// Names of log attributes.
const (
	logContainer = "container"
	logItem      = "item"
	logKind      = "kind"
	logPartition = "partition"
	logError     = "error"
	logUser      = "user"
	logPost      = "post"
	logCount     = "count"
	logWritten   = "written"
)

// Run keeps the copies true, and the streams supplied, until ctx ends: it follows
// the change feeds of posts and users, from where it stopped last. It also releases
// usernames whose owners do not carry them. It returns nil when ctx ends.
//
// Every write of a copy is conditional and may be repeated, so that a change that
// is handled twice, or late, or by two processes, never takes a copy back.
func (s *Store) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	running := &running{projections: map[string]*changefeed.Processor{}, subscribers: s.Streams}
	for _, p := range s.processors() {
		processor, err := changefeed.New(p.source.ChangeFeed(), s.leases.ChangeFeed(), p.handle, changefeed.Options{
			Name: p.name, Owner: s.o.Instance, PollInterval: p.poll, MaxItems: changesAtOnce, Expiry: max(leaseExpiry, leasePolls*p.poll), Logger: s.o.Logger,
			Observe: s.metrics.observer(p.name)})
		if err != nil {
			return &Error{Code: Internal, Op: "run projections", Err: err}
		}
		running.projections[p.name] = processor
		g.Go(func() error { return processor.Run(cosmos.WithPattern(ctx, p.pattern)) })
	}
	s.metrics.running.Store(running)
	defer s.metrics.running.CompareAndSwap(running, nil)
	g.Go(func() error { return s.runEvents(ctx) })
	if s.users.Caches() {
		g.Go(func() error { return s.tail("cache-users", s.background.users, "userId", nil).Run(ctx) })
		g.Go(func() error { return s.tail("cache-feed", s.background.feed, "type", nil).Run(ctx) })
	}
	if err := g.Wait(); err != nil {
		return cosmosError("run projections", err)
	}
	return nil
}

// processor follows one container for one purpose.
type processor struct {
	name    string
	pattern cosmos.Pattern
	source  *cosmos.Container
	handle  changefeed.Handler
	poll    time.Duration
}

func (s *Store) projections() []processor {
	return []processor{
		{"projections-posts", ProjectPosts, s.background.posts, s.projectPosts, s.o.PollInterval},
		{"projections-users", ProjectUsers, s.background.users, s.projectUsers, s.o.PollInterval},
	}
}

func (s *Store) processors() []processor {
	return append(s.projections(), processor{"usernames", ProjectUsernames, s.background.users, s.sweepUsernames, sweepPolls * s.o.PollInterval})
}

// When a process is killed, its copies stand still until its leases expire, which is
// noticed within 4/3 of that time. A lease costs three writes in it, so the time is
// longer where polling is slower, to save request units.
const (
	leaseExpiry = 3 * time.Second
	leasePolls  = 15
)

// changesAtOnce bounds a page of the change feed: the more changes come together,
// the fewer writes of copies and looks at the feed they cost.
const changesAtOnce = 1000

// sweepPolls is how many times more seldom the sweep of usernames polls: what it
// looks for is no use to it before the grace has passed.
const sweepPolls = 10

// ProjectionStatus is how far a processor has come with one feed range of a
// container.
type ProjectionStatus struct {
	Processor string // "projections-posts", "projections-users", or "usernames", the sweep
	Container string
	changefeed.RangeStatus
}

// Projections tells how far the projections and the sweep of usernames have come,
// and who is at work. It takes part in nothing. Before they have ever run it
// returns nothing.
func (s *Store) Projections(ctx context.Context) ([]ProjectionStatus, error) {
	ctx = s.account.Begin(ctx, Verify)
	var all []ProjectionStatus
	for _, p := range s.processors() {
		ranges, err := changefeed.Status(ctx, p.source.ChangeFeed(), s.leases.ChangeFeed(), p.name)
		if err != nil {
			return nil, cosmosError("read status of projections", err)
		}
		for _, r := range ranges {
			all = append(all, ProjectionStatus{p.name, p.source.Name(), r})
		}
	}
	return all, nil
}

// authored is what every item of the posts container says of its author.
type authored struct {
	envelope
	ID       string `json:"id"`
	PostID   string `json:"postId"`
	UserID   string `json:"userId"`
	Username string `json:"userUsername"`
	ETag     string `json:"_etag"`
	Written  int64  `json:"_ts"` // seconds
}

func (a *authored) plain(p *plain, name string) bool {
	switch name {
	case "id":
		a.ID = p.quoted()
	case "postId":
		a.PostID = p.quoted()
	case "userId":
		a.UserID = p.quoted()
	case "userUsername":
		a.Username = p.quoted()
	case "_etag":
		a.ETag = p.quoted()
	case "_ts":
		a.Written = p.integer(64)
	default:
		return a.plainEnvelope(p, name)
	}
	return true
}

// projectPosts handles changes of the posts container: it brings the short forms
// of changed posts to their author's partition and to the feed, and mends names
// that were written just as their owner was renamed.
func (s *Store) projectPosts(ctx context.Context, items [][]byte) error {
	const op = "project posts"
	posts := map[string]*Post{} // of many changes to one post the last counts
	var changed []authored
	for _, raw := range items {
		item, ok := s.decodeChange(postsContainer, raw)
		if !ok {
			continue
		}
		if item.Type == typePost {
			p, err := decodeChangedPost(op, raw)
			if err != nil {
				s.setAside(postsContainer, raw, err)
				continue
			}
			posts[p.ID] = p
		}
		if !item.Deleted {
			changed = append(changed, item)
		}
	}
	for _, p := range posts {
		if p.deleted {
			if err := cascade(ctx, s.background.posts, p.ID, math.MaxInt); err != nil {
				return err
			}
		}
	}
	if err := s.mendNames(ctx, changed); err != nil {
		return err
	}
	if err := s.projectCopies(ctx, posts); err != nil || !changefeed.Replaying(ctx) {
		return err
	}
	return s.remendPosts(ctx, posts)
}

// projectCopies writes the copies of the posts.
func (s *Store) projectCopies(ctx context.Context, posts map[string]*Post) error {
	if len(posts) == 0 {
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(projectionWorkers)
	var all []*Post
	byAuthor := map[string][]*Post{}
	for _, p := range posts {
		all = append(all, p)
		byAuthor[p.AuthorID] = append(byAuthor[p.AuthorID], p)
	}
	for author, posts := range byAuthor {
		writeCopies(gctx, g, s.background.users, author, posts)
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return s.projectFeed(ctx, all)
}

// projectionWorkers bounds how many copies are written at a time.
const projectionWorkers = 8

// lenient is for what is read of items that others may have written: what is wrong
// elsewhere in them is no matter.
var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decodeChange reads what every item of the posts container has. An item that
// cannot be read is set aside: it would stop the projections for ever.
func (s *Store) decodeChange(container string, raw []byte) (authored, bool) {
	var item authored
	err := unmarshal(raw, &item, lenient)
	if err == nil && item.Type != typePost && item.Type != typeComment && item.Type != typeLike {
		err = fmt.Errorf("unknown type %q", item.Type)
	}
	if err == nil && (!validID(item.ID) || !validID(item.PostID) || !validID(item.UserID)) {
		err = fmt.Errorf("malformed id, postId or userId")
	}
	if err != nil {
		s.setAside(container, raw, err)
		return item, false
	}
	return item, true
}

// cascade deletes what belongs to a deleted post, in batches of at most 100, so
// that it may stop anywhere and go on later.
func cascade(ctx context.Context, c *cosmos.Container, postID string, batches int) error {
	const op = "delete what belonged to a post"
	for range batches {
		items, err := readPages[authored](ctx, op, c, cosmos.Query{Text: "SELECT TOP 100 c.id FROM c WHERE c.type IN ('comment', 'like')", Partition: postID})
		if len(items) == 0 || err != nil {
			return err
		}
		_, failed, status, err := batch(ctx, c, postID, func(b *cosmos.Batch) {
			for _, item := range items {
				b.Delete(item.ID)
			}
		})
		if err != nil {
			return cosmosError(op, err)
		}
		if failed >= 0 && status != http.StatusNotFound { // somebody else deleted it: look again
			return &Error{Code: codeOfStatus(status), Op: op}
		}
	}
	return nil
}

// setAside leaves an item out that cannot be read, and returns its id.
func (s *Store) setAside(container string, raw []byte, err error) string {
	var item struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &item) // every item has one
	s.metrics.skipped.Inc()
	s.o.Logger.Error("item set aside: it cannot be projected", logContainer, container, logItem, item.ID, logError, err)
	return item.ID
}

// decodeAnyUser is decodeUser for work that goes on past a user that cannot be read:
// it has an id alone.
func (s *Store) decodeAnyUser(op string, raw []byte) (*User, error) {
	u, err := decodeUser(op, raw)
	if err != nil {
		return &User{ID: s.setAside(usersContainer, raw, err)}, nil
	}
	return u, nil
}

// decodeAnyPost is decodePost for work that goes on past a post that cannot be read:
// it is absent.
func (s *Store) decodeAnyPost(op string, raw []byte) (*Post, error) {
	p, err := decodePost(op, raw)
	if err != nil {
		s.setAside(postsContainer, raw, err)
		return nil, nil
	}
	return p, nil
}

// mendNames compares the author's name on every changed item with the name that
// the author has now. They differ on what was written just before a rename and
// arrived just after its sweep.
func (s *Store) mendNames(ctx context.Context, items []authored) error {
	var ids []string
	seen := map[string]bool{}
	for _, item := range items {
		if !seen[item.UserID] {
			seen[item.UserID] = true
			ids = append(ids, item.UserID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	users, err := readUsers(ctx, s.background.users, ids, s.decodeAnyUser)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for i, u := range users {
		if u != nil && u.Username != "" {
			names[ids[i]] = u.Username
		}
	}
	for _, item := range items {
		if name, ok := names[item.UserID]; ok && name != item.Username {
			err := s.renameItem(ctx, item, name)
			if refused(err) {
				s.setAside(postsContainer, encode(item), err)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// refused reports whether an item cannot be renamed: its revision, say, is no number.
func refused(err error) bool { return cosmos.HasStatus(err, http.StatusBadRequest) }

// renameItem puts the author's name on a post, comment or like, if the item is
// still what was read. An item that has changed meanwhile comes by again: its
// change is in the feed.
func (s *Store) renameItem(ctx context.Context, item authored, name string) error {
	p := cosmos.Patch{IfMatch: cosmos.ETag(item.ETag)}
	p.Set("/userUsername", name)
	if item.Type == typePost {
		p.Increment("/revision", 1)
	}
	_, err := s.background.posts.Patch(ctx, key(item.PostID, item.ID), p)
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return cosmosError("rename item", err)
	}
	return nil
}

// ofAnyType is what every item has.
type ofAnyType struct{ envelope }

func (e *ofAnyType) plain(p *plain, name string) bool { return e.plainEnvelope(p, name) }

// projectUsers handles changes of the users container: a renamed user's new name
// goes onto everything that the user has written, and the name is reserved if it is
// not: a process that stood still in the middle of a rename may have been taken for
// dead. In a rebuild, it mends whatever passes by.
func (s *Store) projectUsers(ctx context.Context, items [][]byte) error {
	const op = "project users"
	renamed := map[string]bool{}
	var suspects []Difference
	for _, raw := range items {
		var e ofAnyType
		err := unmarshal(raw, &e, lenient)
		if err == nil && e.Type == "" {
			err = errors.New("no type")
		}
		if err != nil {
			s.setAside(usersContainer, raw, err)
			continue
		}
		if e.Type != typeUser {
			if changefeed.Replaying(ctx) {
				suspects = append(suspects, suspectOf(e.envelope, raw)...)
			}
			continue
		}
		u, err := decodeUser(op, raw)
		if err != nil {
			s.setAside(usersContainer, raw, err)
			continue
		}
		if u == nil {
			continue
		}
		if u.Revision > 1 { // whoever is new has written nothing
			renamed[u.ID] = true
		}
		suspects = append(suspects, Difference{Kind: Username, Partition: usernameKey(u.Username), ID: u.ID})
	}
	if err := s.mend(ctx, suspects); err != nil {
		return err
	}
	for id := range renamed {
		if err := s.sweepName(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// sweepName puts the user's present name on everything the user has written. It
// looks only for what differs, so that running it again goes on where it stopped.
// It is done when a sweep finds nothing and the user has not been renamed since.
func (s *Store) sweepName(ctx context.Context, userID string) error {
	const op = "sweep name"
	count, aside := 0, map[authored]bool{}
	for {
		u, err := readUser(ctx, op, s.background.users, userID)
		if u == nil || errors.Is(err, errMalformed) {
			return nil // a change that is in the feed, too
		}
		if err != nil {
			return err
		}
		items, err := s.misnamed(ctx, u, aside)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			if count > 0 {
				s.o.Logger.Info("renamed everything a user has written", logUser, userID, logCount, count)
			}
			return nil
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(projectionWorkers)
		refusals := make([]error, len(items))
		for i, item := range items {
			g.Go(func() error {
				err := s.renameItem(gctx, item, u.Username)
				if refused(err) {
					refusals[i], err = err, nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for i, item := range items {
			if refusals[i] != nil {
				aside[item] = true
				s.setAside(postsContainer, encode(item), refusals[i])
			}
		}
		count += len(items)
	}
}

// misnamed returns items of the user that carry another name, at most some
// hundreds of them, without those that were set aside. It looks in all partitions:
// never on the request path.
func (s *Store) misnamed(ctx context.Context, u *User, aside map[authored]bool) ([]authored, error) {
	const op = "find misnamed items"
	query := cosmos.Query{
		Text:          "SELECT c.id, c.type, c.postId, c.userId, c.userUsername, c._etag FROM c WHERE c.userId = @user AND c.userUsername != @name AND NOT IS_DEFINED(c.deleted)",
		AllPartitions: true, PageSize: 500}.With("@user", u.ID).With("@name", u.Username)
	var items []authored
	for page, err := range s.background.posts.Query(ctx, query) {
		if err != nil {
			return nil, cosmosError(op, err)
		}
		for _, raw := range page {
			if item, ok := s.decodeChange(postsContainer, raw); ok && !aside[item] {
				items = append(items, item)
			}
		}
		if len(items) > 0 { // pages may be empty
			break
		}
	}
	return items, nil
}

// showNow writes the copies of a post that was just written, so that its author
// sees it at once. Failing is no error of the request: the change feed does the
// same a moment later.
func (s *Store) showNow(ctx context.Context, p *Post) {
	var g errgroup.Group
	g.Go(func() error {
		return writeCopy(ctx, s.users, p.AuthorID, p)
	})
	for _, partition := range s.feedPartitions {
		g.Go(func() error {
			if p.Revision == 1 { // nothing is newer: it belongs into the feed
				return writeCopy(ctx, s.feed, partition, p)
			}
			err := updateCopy(ctx, s.feed, partition, p)
			if cosmos.HasStatus(err, http.StatusNotFound) {
				return nil // not among the newest
			}
			return err
		})
	}
	if p.deleted {
		g.Go(func() error { return cascade(ctx, s.posts, p.ID, 1) })
	}
	if err := g.Wait(); err != nil {
		s.o.Logger.Warn("copies are late", logPost, p.ID, logError, err)
	}
}
