package blog

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of tags.
const (
	MaxTags      = 5  // of a post
	MaxTagLength = 30 // characters

	maxFormerTags = 20
	maxTagInput   = 1000 // bytes of a tag before it is normalized
)

// NormalizeTag returns the form of a tag in which it is stored and compared: case-folded, in normalization form C.
// It returns false unless that has 1 to MaxTagLength characters, which are letters with their marks and digits of any
// script, and hyphens, with at least one letter or digit.
func NormalizeTag(text string) (tag string, ok bool) {
	if len(text) > maxTagInput || !utf8.ValidString(text) {
		return "", false
	}
	// As in section 3.13 of the Unicode Standard, canonical caseless matching.
	tag = norm.NFC.String(strings.Map(foldCherokee, cases.Fold().String(norm.NFD.String(text))))
	return tag, isTag(tag)
}

// foldCherokee completes cases.Fold, which swaps the cases of Cherokee letters. Unicode folds them to upper case.
func foldCherokee(c rune) rune {
	if unicode.Is(unicode.Cherokee, c) {
		return unicode.ToUpper(c)
	}
	return c
}

// isTag reports whether a normalized text is a tag.
func isTag(text string) bool {
	if len(text) > MaxTagLength*utf8.UTFMax || utf8.RuneCountInString(text) > MaxTagLength {
		return false
	}
	named, base := false, false // base: the last character may have marks
	for _, c := range text {
		switch {
		case unicode.IsLetter(c), unicode.IsDigit(c):
			named, base = true, true
		case c == '-':
			base = false
		case !base || !unicode.In(c, unicode.Mn, unicode.Mc):
			return false
		}
	}
	return named
}

// Retag sets the tags of a post. Those that it loses become former ones: the projection, which sees only the last
// version of a post, deletes their entries. A post remembers its last maxFormerTags.
func (p *Post) Retag(tags []string) {
	lost := slices.DeleteFunc(slices.Concat(p.FormerTags, p.Tags), func(t string) bool {
		return slices.Contains(tags, t)
	})
	slices.Reverse(lost)         // the later of two equal ones counts
	former := p.FormerTags[:0:0] // nil only if there were none, so that an edit also removes the last
	for _, t := range lost {
		if !slices.Contains(former, t) && len(former) < maxFormerTags {
			former = append(former, t)
		}
	}
	slices.Reverse(former)
	p.Tags, p.FormerTags = tags, former
}

// escapeTag returns a tag as part of a partition key: azcosmos escapes characters beyond the basic plane wrongly.
func escapeTag(tag string) string {
	var b strings.Builder
	for _, c := range tag {
		if c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' {
			b.WriteRune(c)
		} else {
			b.WriteString("_" + strconv.FormatInt(int64(c), 16) + "_")
		}
	}
	return b.String()
}

// unescapeTag returns the tag that escapeTag has escaped; ok is false for any other text.
func unescapeTag(text string) (tag string, ok bool) {
	var b strings.Builder
	for i, part := range strings.Split(text, "_") {
		if i%2 == 0 {
			b.WriteString(part)
		} else if c, err := strconv.ParseInt(part, 16, 32); err == nil {
			b.WriteRune(rune(c))
		}
	}
	tag = b.String()
	return tag, isTag(tag) && escapeTag(tag) == text
}

// TopTagsKey is the id and the partition key of the TopTagsItem, in the feed container.
const TopTagsKey = "tags"

// MaxTopTags is the most tags of a TopTagsItem.
const MaxTopTags = 200

// TopTagsItem lists the tags that most posts have, the most used first.
type TopTagsItem struct {
	Envelope
	ID   string     `json:"id"`
	Tags []TagCount `json:"tags"`
	ETag string     `json:"_etag,omitempty"`
}

// TagCount is the approximate number of the posts with a tag.
type TagCount struct {
	Name  string `json:"name"`
	Posts int64  `json:"posts"`
}
