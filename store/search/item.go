package search

import (
	"context"
	"strings"

	"byline/internal/cut"
	"byline/store/blog"
	"byline/store/blog/markdown"
)

// Item is a post in the container search. Comments, likes and new names of the author do not change it.
type Item struct {
	blog.Envelope
	ID        string    `json:"id"`     // of the post
	Decade    string    `json:"decade"` // the partition key
	AuthorID  string    `json:"userId"`
	CreatedAt blog.Date `json:"creationDate,omitempty"` // "" of a tombstone
	Version   int32     `json:"version"`                // of the post, which orders writes of the item
	Tags      []string  `json:"tags,omitempty"`         // keys
	Text      string    `json:"text"`
}

// maxText bounds the text of an item, in bytes, as an item has at most 2 MB. Only other programs write posts that
// exceed it: blog.MaxContent characters have at most 400,000 bytes.
const maxText = 420_000

// afterBody separates the words of a post from its title and its tags, which are lines.
const afterBody = "\n\n"

// NewItem returns the item of a post, which must have its text: the words that its readers see, then its title and its
// tags. The words come first, as a snippet shows those rather than the title.
func NewItem(p *blog.Post) Item {
	html, _ := markdown.Show(context.Background(), p.Content) // which ends with a context alone
	after := afterBody + strings.Join(strings.Fields(p.Title), " ") + "\n" + strings.Join(p.Tags, ", ")
	return Item{Envelope: blog.Envelope{Type: blog.TypePost}, ID: p.ID, Decade: Decade(p.CreatedAt),
		AuthorID: p.UserID, CreatedAt: p.CreatedAt, Version: p.Version, Tags: blog.TagKeys(p.Tags),
		Text: cut.Bytes(html.Text(), max(0, maxText-len(after))) + cut.Bytes(after, maxText)}
}

// NewTombstone returns the item that replaces that of a deleted post for blog.ViewTombstoneTTL. It has no date, text,
// tags or version, so no search finds it, and nothing of the post is left.
func NewTombstone(p *blog.Post) Item {
	return Item{Envelope: blog.Envelope{Type: blog.TombstoneType(blog.TypePost), Deleted: true,
		TTL: blog.ViewTombstoneTTL}, ID: p.ID, Decade: Decade(p.CreatedAt)}
}

// Decade returns the partition of the posts of a date, such as 2020s.
func Decade(d blog.Date) string { return string(d[:min(len(d), len("202"))]) + "0s" }

// Decades returns the partitions of the posts of months, which must be sorted, in the order of the months.
func Decades(months []string) (all []string) {
	for _, month := range months {
		if d := Decade(blog.Date(month)); len(all) == 0 || all[len(all)-1] != d {
			all = append(all, d)
		}
	}
	return all
}
