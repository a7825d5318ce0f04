package site

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed documents
var documentFiles embed.FS

// documents are the texts of the queries of pages, by their ids.
var documents = func() map[string]string {
	read := func(name string) string {
		text, err := documentFiles.ReadFile("documents/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		return string(text)
	}
	entries, err := fs.ReadDir(documentFiles, "documents")
	if err != nil {
		panic(err)
	}
	texts, card := map[string]string{}, read("card.graphql")
	for _, e := range entries {
		name, text := strings.TrimSuffix(e.Name(), ".graphql"), read(e.Name())
		if strings.Contains(text, "...Card") {
			text += card
		}
		if name != "card" {
			texts[documentID(name)] = text
		}
	}
	return texts
}()

// documentID returns the id of a query of this package. No hash has a colon.
func documentID(name string) string { return "site:" + name }

// The data of the queries.
type (
	post struct {
		ID, Slug, Title, Excerpt string
		Tags                     []string
		LikeCount, CommentCount  int
		CreatedAt                string
		UpdatedAt                string // "" if it was not edited
		Author                   author
		CoverImage               *cover

		SEOTitle, SEODescription, CanonicalURL string // "" unless the author has set them

		ReadingMinutes int
		ContentHTML    *string // null if the post was deleted a moment ago
		Content        *string // likewise
	}

	cover struct {
		URL, Alt      string
		Width, Height int // pixels; 0: unknown
	}

	author struct {
		Username, DisplayName string // "" while a deletion is under way
		AvatarURL, Bio        string
		CreatedAt             string
		PostCount             int
		Posts                 connection
	}

	tag struct {
		Name      string
		PostCount int
		Posts     connection
	}

	connection struct {
		Edges    []struct{ Node post }
		PageInfo pageInfo
	}

	found struct {
		Edges []struct {
			Node    post
			Snippet snippet
		}
		PageInfo pageInfo
	}

	snippet struct {
		Text    string
		Matches []struct{ Start, End int } // UTF-16 code units
	}

	month struct {
		Month     string
		PostCount int
	}

	pageInfo struct {
		HasNextPage bool
		EndCursor   string
	}

	// data is that of every query: each has some of the fields.
	data struct {
		Tags   []tag
		Months []month
		Posts  connection
		Post   *post
		Tag    *tag
		Author *author
		Search found
	}
)

// posts returns the posts of the connection.
func (c connection) posts() (all []post) {
	for _, e := range c.Edges {
		all = append(all, e.Node)
	}
	return all
}

// hasSize reports whether the size of a cover is known.
func (c *cover) hasSize() bool { return c.Width > 0 && c.Height > 0 }

// updated returns when the post was edited last, or else created.
func (p *post) updated() string {
	if p.UpdatedAt != "" {
		return p.UpdatedAt
	}
	return p.CreatedAt
}
