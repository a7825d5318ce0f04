package seed

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
)

// articleFiles are the long posts of the demo blog: the first is the first user's, and the newest of the blog.
//
//go:embed articles/*.md
var articleFiles embed.FS

// article is a long post.
type article struct {
	title, content string
	tags           []string
	cover          string   // describes its picture, which package covers draws
	comments       []string // what readers say about it
}

// betweenArticles is the time between two articles.
const betweenArticles = 110 * time.Minute

// articles returns the articles in the order of their files. A file begins with the title as a heading, the tags, what
// the cover shows and the comments; the content is after an empty line.
var articles = sync.OnceValue(func() []article {
	files, err := fs.Glob(articleFiles, "articles/*.md")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	all := make([]article, len(files))
	for i, file := range files {
		text, err := articleFiles.ReadFile(file)
		if err != nil {
			panic(err) // it is embedded
		}
		head, content, _ := strings.Cut(string(text), "\n\n")
		a := article{content: strings.TrimSpace(content)}
		for line := range strings.SplitSeq(head, "\n") {
			switch key, value, _ := strings.Cut(line, " "); key {
			case "#":
				a.title = value
			case "tags:":
				a.tags = strings.Split(value, ", ")
			case "cover:":
				a.cover = value
			case "comment:":
				a.comments = append(a.comments, value)
			default:
				panic(fmt.Sprintf("%s: %s", file, line))
			}
		}
		all[i] = a
	}
	return all
})

// article returns the article that is the post of a user, or nil.
func (b *Blog) article(user, number int) *article {
	if !b.Articles || number != 0 || user >= len(articles()) {
		return nil
	}
	return &articles()[user]
}

// comment returns the n-th comment on the article: its own come first. "" if it has no more.
func (a *article) comment(n int) string {
	if n < len(a.comments) {
		return a.comments[n]
	}
	return ""
}
