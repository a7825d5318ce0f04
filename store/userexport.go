package store

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator/jsonpart"
	"byline/store/projection"
	"byline/store/stored"
	"byline/store/username"
)

// exporter reads everything that is stored about a user.
type exporter struct{ *base }

// exportPageSize is the most items in a page of an export: few enough that a page takes a small part of
// a second's RU.
const exportPageSize = 100

// ExportPage is a part of what is stored about a user.
type ExportPage struct {
	Container string   // exportedFiles: not a container of Cosmos DB
	Items     [][]byte // JSON objects, without the system properties of Cosmos DB except _ts
	Position  string   // the position at which the export continues after this page
}

// exportPart is a query for items of a user.
type exportPart struct {
	name      string
	container *cosmos.Container
	query     cosmos.Query
}

// exportedFiles is the last part: a list of the user's files, without their bytes.
const exportedFiles = "files"

// exportEnd is the position after the last part.
const exportEnd = "end"

// exportParts returns the queries that find everything about a user, in the order of an export. In the partitions of
// others, reservations and follows are found by owner: a crash may have left reservations of names that the user does
// not have.
func (e *exporter) exportParts(userID string) []exportPart {
	all := func(text string) cosmos.Query {
		return cosmos.Query{Text: text, AllPartitions: true, PageSize: exportPageSize}.With("@user", userID)
	}
	return []exportPart{
		{"account", e.background.users,
			cosmos.Query{Text: "SELECT * FROM c", Partition: userID, PageSize: exportPageSize}},
		{"owned", e.background.users, all("SELECT * FROM c WHERE c.ownerId = @user")},
		{"posts", e.background.posts, all("SELECT * FROM c WHERE c.userId = @user")},
		{"feed", e.background.feed, all("SELECT * FROM c WHERE " + projection.NotEntries + " AND c.userId = @user")},
		{"timelines", e.background.feed, all("SELECT * FROM c WHERE c.authorId = @user")},
		{"search", e.background.search, all("SELECT * FROM c WHERE c.userId = @user")},
		{"jobs", e.background.leases, all("SELECT * FROM c WHERE c.subject = @user")},
	}
}

// Export returns everything that is stored about a user, tombstones included, in pages that may be
// empty. It begins at a position, or at the beginning if that is "". An item that does not change in the
// meantime is in exactly one page; one that was written in the last seconds may be missing, as replicas
// lag. Requests have low priority and wait while throttled. Invalid (Field is
// "position") if the position is not one of an export of this user, or is no longer valid.
func (e *exporter) Export(ctx context.Context, userID, position string) iter.Seq2[ExportPage, error] {
	return func(yield func(ExportPage, error) bool) {
		ctx := e.account.Begin(ctx, Export)
		for position != exportEnd {
			page, err := e.exportPage(ctx, userID, position)
			if !yield(page, err) || err != nil {
				return
			}
			position = page.Position
		}
	}
}

// exportPage returns the page at a position.
func (e *exporter) exportPage(ctx context.Context, userID, position string) (ExportPage, error) {
	const op = "export user"
	if position == exportedFiles {
		return e.exportFiles(ctx, userID)
	}
	parts := e.exportParts(userID)
	name, continuation, _ := strings.Cut(position, ":")
	i := slices.IndexFunc(parts, func(p exportPart) bool { return p.name == name })
	if position == "" {
		i = 0
	}
	if i < 0 {
		return ExportPage{}, invalidPosition(op, nil)
	}
	part := parts[i]
	part.query.Continuation = continuation
	items, continuation, err := part.container.QueryPage(ctx, part.query)
	if cosmos.ErrorOf(err).InvalidContinuation() && part.query.Continuation != "" {
		return ExportPage{}, invalidPosition(op, err)
	}
	if err != nil && !(part.name == "search" && cosmos.ErrorOf(err).NoContainer()) {
		return ExportPage{}, stored.Error(op, err)
	}
	page := ExportPage{Container: part.container.Name(), Position: exportedFiles}
	if continuation != "" {
		page.Position = part.name + ":" + continuation
	} else if i+1 < len(parts) {
		page.Position = parts[i+1].name
	}
	for _, item := range items {
		page.Items = append(page.Items, exported(item, userID))
	}
	return page, nil
}

// exportFiles returns the last page.
func (e *exporter) exportFiles(ctx context.Context, userID string) (ExportPage, error) {
	page := ExportPage{Container: exportedFiles, Position: exportEnd}
	if e.o.Files == nil {
		return page, nil
	}
	all, err := e.o.Files.OfUser(ctx, userID)
	for _, f := range all {
		item, _ := json.Marshal(exportedFile{f.ID, f.ID.Path(), f.ID.Type(), f.ID.Size(), blog.NewDate(f.Date)})
		page.Items = append(page.Items, item)
	}
	return page, err
}

// exportedFile is a file in an export.
type exportedFile struct {
	ID          blog.FileID `json:"id"`
	Path        string      `json:"path"`
	ContentType string      `json:"contentType"`
	Size        int64       `json:"size"` // bytes
	Date        blog.Date   `json:"date"` // of the last use
}

func invalidPosition(op string, err error) error {
	return &blog.Error{Code: blog.Invalid, Op: op, Field: "position", Reason: blog.ReasonFormat,
		Message: "is not one of an export of this user, or is no longer valid", Err: err}
}

// exported returns an item without Cosmos DB's system properties, except _ts, the time of the last write, from which a
// ttl counts. Of a follower of the user it has the id: the byline is another user's.
func exported(item []byte, userID string) []byte {
	var follow struct{ Type, UserID string }
	isFollower := json.Unmarshal(item, &follow) == nil && follow.Type == blog.TypeFollower && follow.UserID == userID
	out := []byte{'{'}
	for m := (jsonpart.Members{Text: item, At: jsonpart.SkipSpace(item, 0) + 1}); ; {
		name, start, end, ok := m.Next()
		if !ok {
			return append(out, '}')
		}
		switch string(name) {
		case "_rid", "_self", "_etag", "_attachments":
			continue
		case "follower":
			if isFollower {
				continue
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), `":`...)
		out = append(out, item[start:end]...)
	}
}

// UserIDOf returns the id of the user who has a name or for whom a released name is kept, ignoring case,
// even while the user is being deleted. It returns "" if no user has the name.
func (e *exporter) UserIDOf(ctx context.Context, name string) (string, error) {
	const op = "find user by username"
	ctx = e.account.Begin(ctx, Export)
	if username.Check(op, name) != nil {
		return "", nil
	}
	users, k := e.background.users, username.Key(name)
	raw, err := stored.Read(ctx, op, users, stored.Key(k, k))
	if raw == nil || err != nil {
		return "", err
	}
	r, ok, err := blog.Decode[username.Reservation](op, blog.TypeUsername, raw)
	if !ok || !blog.ValidID(r.OwnerID) {
		return "", err
	}
	if raw, err = stored.Read(ctx, op, users, stored.Key(r.OwnerID, r.OwnerID)); raw == nil || err != nil {
		return "", err
	}
	owner, _, err := blog.Decode[blog.UserItem](op, blog.TypeUser, raw)
	if err != nil || username.Key(owner.Username) != k && !r.Kept(e.o.Clock()) {
		return "", err // reserved for a create or rename that has not ended
	}
	return owner.UserID, nil
}
