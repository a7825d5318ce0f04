package projection

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/files"
	"byline/store/jobs"
	"byline/store/stored"
)

// fileDeletions deletes files that nothing uses any more. What uses a file is a post or draft of its owner, which lists
// it, or the owner's avatar. A file is published before what uses it is written, so files are kept for fileGrace.
type fileDeletions struct{ *base }

const (
	fileGrace     = 24 * time.Hour // also of uploads
	sweepInterval = 24 * time.Hour
	sweepCheck    = time.Hour // how often an instance looks whether a sweep is due
)

// sweepItem is the item of the leases container that has the date of the last sweep.
type sweepItem struct {
	ID   string    `json:"id"`
	Date blog.Date `json:"date"`
}

const sweepID = "last." + sweepFilesJob

// run enqueues a sweep every sweepInterval, whatever the number of instances, until ctx ends.
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

// sweep does a unit of sweepFilesJob: it deletes old uploads, and then, user by user, old files that nothing uses. The
// position is the last file that was looked at.
func (f *fileDeletions) sweep(ctx context.Context, j jobs.Job) (jobs.Step, error) {
	const op = "sweep files"
	if f.o.Files == nil {
		return jobs.Step{Done: true}, nil
	}
	step, end, old := jobs.Step{Position: j.Position}, time.Now().Add(deletionUnit), f.o.Clock().Add(-fileGrace)
	if j.Position == "" {
		n, err := f.o.Files.DeleteUploads(ctx, old)
		if step.Items = n; err != nil {
			return step, stored.Error(op, err)
		}
	}
	page, err := f.o.Files.Page(ctx, blog.FileID(j.Position))
	if err != nil {
		return step, err
	}
	for len(page) > 0 && time.Now().Before(end) {
		var candidates []string
		var of []files.File
		of, page = filesOfOne(page)
		for _, file := range of {
			if file.CreatedAt.Before(old) {
				candidates = append(candidates, string(file.ID))
			}
		}
		n, err := f.deleteUnused(ctx, of[0].ID.Owner(), candidates)
		if step.Items += n; err != nil {
			return step, stored.Error(op, err)
		}
		step.Position = string(of[len(of)-1].ID)
	}
	step.Done = step.Position == j.Position
	return step, nil
}

// filesOfOne splits files after those of the first one's owner.
func filesOfOne(all []files.File) (of, rest []files.File) {
	n := 1
	for n < len(all) && all[n].ID.Owner() == all[0].ID.Owner() {
		n++
	}
	return all[:n], all[n:]
}

// deleteUnused deletes those of a user's files that nothing of the user uses.
func (f *fileDeletions) deleteUnused(ctx context.Context, userID string, ids []string) (n int, err error) {
	if len(ids) == 0 || f.o.Files == nil {
		return 0, nil
	}
	used, err := f.used(ctx, userID)
	if used == nil || err != nil {
		return 0, err
	}
	var unused []blog.FileID
	for _, id := range ids {
		if file := blog.FileID(id); file.Valid() && file.Owner() == userID && !used[id] {
			unused = append(unused, file)
		}
	}
	return f.o.Files.Delete(ctx, unused...)
}

// used returns the files that a user uses, by id: those of posts and drafts, and the avatar. It returns nil if there is
// no user: the job of the user's deletion deletes the files.
func (f *fileDeletions) used(ctx context.Context, userID string) (map[string]bool, error) {
	const op = "find used files"
	owner, err := stored.ReadUser(ctx, op, f.users, userID)
	if owner == nil || err != nil {
		return nil, err
	}
	type user struct {
		Files    []string `json:"files"`
		CoverURL string   `json:"coverUrl"`
	}
	const text = "SELECT c.files, c.coverUrl FROM c WHERE "
	posts, err := readPages[user](ctx, op, f.posts, cosmos.Query{AllPartitions: true,
		Text: text + "c.filesOf = @user"}.With("@user", userID))
	if err != nil {
		return nil, err
	}
	drafts, err := readPages[user](ctx, op, f.users, cosmos.Query{Partition: userID,
		Text: text + "c.userId = @user AND c.type = @type"}.With("@user", userID).With("@type", blog.TypeDraft))
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	add := func(id blog.FileID, ok bool) {
		if ok {
			used[string(id)] = true
		}
	}
	for _, u := range append(posts, drafts...) {
		for _, id := range u.Files {
			used[id] = true
		}
		add(blog.CoverFile(userID, u.CoverURL))
	}
	add(blog.FileOf(owner.AvatarURL))
	return used, nil
}
