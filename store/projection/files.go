package projection

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/files"
	"byline/store/jobs"
	"byline/store/stored"
)

// fileDeletions deletes files that nothing uses any more. What uses a file is a post or draft of its owner, which
// lists it, or the owner's avatar. Before a write uses a file, it publishes the file, which sets the date. So a file
// whose date is older than any write takes, and that no query finds in use, is deleted unless its date has changed
// since.
type fileDeletions struct{ *base }

const (
	fileGrace     = 24 * time.Hour // how long uploads, and files that nothing uses, are kept
	sweepInterval = 24 * time.Hour
	sweepCheck    = time.Hour // how often an instance deletes old uploads, and looks whether a sweep is due
)

// sweepItem is the item of the leases container that has the date of the last sweep.
type sweepItem struct {
	ID   string    `json:"id"`
	Date blog.Date `json:"date"`
}

const sweepID = "last." + sweepFilesJob

// run deletes old uploads, and enqueues a sweep every sweepInterval, whatever the number of instances, until ctx ends.
func (f *fileDeletions) run(ctx context.Context) error {
	if f.o.Files == nil {
		return nil
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		if _, err := f.o.Files.DeleteUploads(ctx, f.o.Clock().Add(-fileGrace)); err != nil && ctx.Err() == nil {
			f.o.Logger.Warn("old uploads not deleted, retrying", logError, err)
		}
		if err := f.enqueueSweep(ctx); err != nil && ctx.Err() == nil {
			f.o.Logger.Warn("sweep of files not enqueued, retrying", logError, err)
		}
		next.Reset(sweepCheck)
	}
}

// enqueueSweep enqueues a sweep if the last one is sweepInterval ago. Two instances at the same time, or one that is
// killed before it writes the date, cause one sweep more.
func (f *fileDeletions) enqueueSweep(ctx context.Context) error {
	const op = "enqueue sweep of files"
	var last sweepItem
	raw, err := stored.Read(ctx, op, f.leases, stored.Key(sweepID, sweepID))
	if raw != nil && err == nil {
		err = json.Unmarshal(raw, &last)
	}
	now := f.o.Clock()
	if err != nil || blog.ValidDate(string(last.Date)) && now.Sub(last.Date.Time()) < sweepInterval {
		return err
	}
	if err := f.jobs.Enqueue(ctx, sweepFilesJob, "files", now.UnixMilli()); err != nil {
		return stored.Error(op, err)
	}
	item, err := itemjson.Encode(sweepItem{ID: sweepID, Date: blog.NewDate(now)})
	switch {
	case err != nil:
		return err
	case raw == nil:
		err = f.leases.Create(ctx, sweepID, item)
	default:
		_, err = f.leases.Replace(ctx, stored.Key(sweepID, sweepID), item, stored.ETagOf(raw))
	}
	if cosmos.HasStatus(err, http.StatusConflict, http.StatusPreconditionFailed) { // another instance was faster
		return nil
	}
	return stored.Error(op, err)
}

// sweep does a unit of sweepFilesJob: it deletes, user by user, old files that nothing uses. The position is the last
// file that was looked at.
func (f *fileDeletions) sweep(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	const op = "sweep files"
	if f.o.Files == nil {
		return jobs.Step{Done: true}, nil
	}
	page, err := f.o.Files.Page(ctx, blog.FileID(j.Position))
	step := jobs.Step{Position: j.Position, Done: err == nil && len(page) == 0}
	for end := time.Now().Add(deletionUnit); err == nil && len(page) > 0; {
		var of []files.File
		of, page = filesOfOne(page)
		var n int
		n, _, err = f.deleteUnused(ctx, of, fileGrace)
		if step.Items += n; err == nil {
			step.Position = string(of[len(of)-1].ID)
		}
		if !time.Now().Before(end) {
			break
		}
	}
	return step, stored.Error(op, err)
}

// filesOfOne splits files after those of the first one's owner.
func filesOfOne(all []files.File) (of, rest []files.File) {
	n := 1
	for n < len(all) && all[n].ID.Owner() == all[0].ID.Owner() {
		n++
	}
	return all[:n], all[n:]
}

// deleteOf deletes those of the files of a deleted post that nothing else of its author uses. It reports whether some
// are too young to tell.
func (f *fileDeletions) deleteOf(ctx context.Context, p *blog.Post) (n int, young bool, err error) {
	if f.o.Files == nil || len(p.Files) == 0 {
		return 0, false, nil
	}
	var ids []blog.FileID
	for _, id := range p.Files {
		if file := blog.FileID(id); file.Valid() && file.Owner() == p.UserID {
			ids = append(ids, file)
		}
	}
	found, err := f.o.Files.Find(ctx, ids...)
	if err != nil {
		return 0, false, err
	}
	return f.deleteUnused(ctx, found, blog.MaxWriteTime)
}

// deleteUnused deletes those of one user's files that nothing of the user uses. It keeps files that are younger than
// grace, and reports whether there are any.
func (f *fileDeletions) deleteUnused(
	ctx context.Context, of []files.File, grace time.Duration,
) (n int, young bool, err error) {
	before := f.o.Clock().Add(-grace)
	old := slices.DeleteFunc(slices.Clone(of), func(file files.File) bool { return !file.Date.Before(before) })
	young = len(old) < len(of)
	if len(old) == 0 {
		return 0, young, nil
	}
	used, err := f.used(ctx, old[0].ID.Owner())
	if used == nil || err != nil {
		return 0, young, err
	}
	unused := slices.DeleteFunc(old, func(file files.File) bool { return used[string(file.ID)] })
	n, err = f.o.Files.Delete(ctx, unused...)
	return n, young, err
}

// used returns the files that a user uses, by id: those of drafts and posts, and the avatar. Drafts are read first, as
// they become posts. It returns nil for a user who is being deleted, whose job deletes the files, and for one who is
// missing but has posts or drafts.
func (f *fileDeletions) used(ctx context.Context, userID string) (map[string]bool, error) {
	const op = "find used files"
	state, err := f.stateOf(ctx, userID)
	if state == deletedUser || err != nil {
		return nil, err
	}
	owner, err := stored.ReadUser(ctx, op, f.users, userID)
	if err != nil {
		return nil, err
	}
	type user struct {
		Files    []string `json:"files"`
		CoverURL string   `json:"coverUrl"`
	}
	const text = "SELECT c.files, c.coverUrl FROM c WHERE "
	drafts, err := readPages[user](ctx, op, f.users, cosmos.Query{Partition: userID,
		Text: text + "c.userId = @user AND c.type = @type"}.With("@user", userID).With("@type", blog.TypeDraft))
	if err != nil {
		return nil, err
	}
	posts, err := readPages[user](ctx, op, f.posts, cosmos.Query{AllPartitions: true,
		Text: text + "c.filesOf = @user"}.With("@user", userID))
	if err != nil || owner == nil && len(drafts)+len(posts) > 0 {
		return nil, err
	}
	used := map[string]bool{}
	add := func(id blog.FileID, ok bool) {
		if ok {
			used[string(id)] = true
		}
	}
	for _, u := range append(drafts, posts...) {
		for _, id := range u.Files {
			used[id] = true
		}
		add(blog.CoverFile(userID, u.CoverURL))
	}
	if owner != nil {
		add(blog.FileOf(owner.AvatarURL))
	}
	return used, nil
}
