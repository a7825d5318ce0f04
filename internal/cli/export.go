package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"byline/internal/account"
	"byline/internal/console"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

type exportCommand struct {
	account.Flags
	account.FilesFlags
	User         string `name:"user" required:"" placeholder:"NAME" help:"Name of the user, or a former name that is kept for them."`
	BackgroundRU int    `name:"background-ru" default:"1000" env:"BYLINE_BACKGROUND_RU" help:"Request units per second that the export may spend; 0 for no limit."`
	To           string `name:"to" placeholder:"FILE" help:"File to write to. If it has an interrupted export of the user, that is resumed. Default: stdout, which cannot be resumed."`
	console.LogFlags
}

// Run exports everything that is stored about a user.
func (c *exportCommand) Run(ctx context.Context, s console.Streams) error {
	if c.BackgroundRU < 0 {
		return errors.New("--background-ru must be at least 0")
	}
	if c.BackgroundRU > 0 {
		ctx = cosmos.NewRate(float64(c.BackgroundRU)).Limit(ctx)
	}
	blogFlags := viewsFlags{Flags: c.Flags, FilesFlags: c.FilesFlags}
	return blogFlags.withBlog(ctx, s, func(st *store.Store, m *console.Progress) (err error) {
		id, err := st.UserIDOf(ctx, c.User)
		if err == nil && id == "" {
			err = fmt.Errorf("--user %q: no user has this name", c.User)
		}
		if err != nil {
			return err
		}
		out := &export{w: s.Stdout}
		if c.To != "" {
			if out, err = openExport(c.To, id); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, out.file.Close()) }()
		}
		if out.complete {
			s.Log.Info("the export is complete already: remove the file to export again", "file", c.To)
			return nil
		}
		err = out.all(ctx, st, id, func() { m.Show("items exported", out.items, 0, 0) })
		switch {
		case err == nil || c.To == "" && ctx.Err() == nil:
			return err
		case c.To == "":
			return errors.New("interrupted: the export is incomplete")
		case ctx.Err() != nil:
			return errors.New("interrupted: run it again to resume")
		case blog.CodeOf(err) == blog.Invalid:
			return fmt.Errorf("%s cannot be resumed, remove it to begin again: %w", c.To, err)
		}
		return fmt.Errorf("%w: run it again to resume", err)
	})
}

// exportLine is a line of an export: an item, a position, or the end. A position follows all items that were
// exported up to it. The items after the last position are exported again when the export is resumed, so they
// are removed first. On stdout there are no positions.
type exportLine struct {
	Container string         `json:"container,omitzero"`
	Item      jsontext.Value `json:"item,omitzero"`

	UserID   string  `json:"userId,omitzero"`
	Position *string `json:"position,omitzero"` // see store.Store.Export; the first line has the beginning

	Complete bool  `json:"complete,omitzero"`
	Items    int64 `json:"items,omitzero"`
}

func (l exportLine) encode() ([]byte, error) {
	b, err := jsonv2.Marshal(l, blog.Lenient)
	return append(b, '\n'), err
}

// export writes an export to a file or to stdout.
type export struct {
	w        io.Writer
	file     *os.File // nil: stdout
	position string
	items    int64
	complete bool
}

// all writes all items from the position on, and the line of a complete export.
func (e *export) all(ctx context.Context, st *store.Store, userID string, progress func()) error {
	for page, err := range st.Export(ctx, userID, e.position) {
		if err != nil {
			return err
		}
		var lines []exportLine
		for _, item := range page.Items {
			lines = append(lines, exportLine{Container: page.Container, Item: item})
		}
		if e.file != nil {
			lines = append(lines, exportLine{UserID: userID, Position: &page.Position})
		}
		if err := e.write(lines...); err != nil {
			return err
		}
		e.items += int64(len(page.Items))
		progress()
	}
	if e.file != nil { // a power failure must not keep the last line and lose others
		if err := e.file.Sync(); err != nil {
			return err
		}
	}
	err := e.write(exportLine{Complete: true, Items: e.items})
	if e.file != nil && err == nil {
		err = e.file.Sync()
	}
	return err
}

func (e *export) write(lines ...exportLine) error {
	var all []byte
	for _, l := range lines {
		b, err := l.encode()
		if err != nil {
			return err
		}
		all = append(all, b...)
	}
	_, err := e.w.Write(all)
	return err
}

// openExport opens the file of a new or an interrupted export. It refuses any other file.
func openExport(name, userID string) (*export, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	e := &export{w: f, file: f}
	if err := e.resume(userID); err != nil {
		return nil, errors.Join(fmt.Errorf("--to %s: %w", name, err), f.Close())
	}
	return e, nil
}

// resume reads the file, and truncates it after the last position.
func (e *export) resume(userID string) error {
	beginning := exportLine{UserID: userID, Position: new(string)}
	first, err := beginning.encode()
	if err != nil {
		return err
	}
	var kept, read int64 // bytes up to the last position, and in all
	var items int64      // after the last position
	lines := bufio.NewReader(e.file)
	for n := 1; !e.complete; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // the last line is torn, if there is one
			if n == 1 && !strings.HasPrefix(string(first), string(line)) {
				return errors.New("the file is not an export")
			}
			break
		}
		if err != nil {
			return err
		}
		read += int64(len(line))
		var l exportLine
		if err := jsonv2.Unmarshal(line, &l, blog.Lenient, jsonv2.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("line %d is not of an export: %w", n, err)
		}
		switch {
		case l.Position != nil && l.UserID != userID:
			return errors.New("the file is an export of another user")
		case l.Position != nil:
			e.position, e.items, kept, items = *l.Position, e.items+items, read, 0
		case n == 1:
			return errors.New("the file is not an export")
		case l.Item != nil && l.Container != "":
			items++
		case l.Complete && items == 0 && l.Items == e.items:
			e.complete, kept = true, read
		default:
			return fmt.Errorf("line %d is not of an export", n)
		}
	}
	if e.complete {
		if _, err := lines.ReadByte(); err != io.EOF {
			return errors.New("the file has more than a complete export")
		}
		return nil
	}
	if err := e.file.Truncate(kept); err != nil {
		return err
	}
	if _, err := e.file.Seek(kept, io.SeekStart); err != nil {
		return err
	}
	if kept > 0 {
		return nil
	}
	return e.write(beginning)
}
