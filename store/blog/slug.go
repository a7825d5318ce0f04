package blog

import (
	"encoding/hex"
	"math/big"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"byline/internal/cut"
)

// maxSlugTitle is the most characters of a slug that come from the title.
const maxSlugTitle = 80

// Slug returns the address of the post in a front end: the words of the title in lower case, in their script, and the
// post's id, such as "hello-world-p3kq…". The end alone identifies the post, so that slugs need no reservation, and
// every slug that the post had under other titles still finds it. No two posts have the same slug.
func (p *Post) Slug() string {
	slug, _ := p.derived().slug.of(p.Title, func() (string, error) { return p.newSlug(), nil })
	return slug
}

func (p *Post) newSlug() string {
	words := cut.Characters(slugWords(p.Title), maxSlugTitle)
	if words == "" {
		return slugID(p.ID)
	}
	return strings.ReplaceAll(words, " ", "-") + "-" + slugID(p.ID)
}

// slugWords returns the words of a title, separated by spaces: letters with their marks, and digits.
func slugWords(title string) string {
	words := strings.FieldsFunc(norm.NFC.String(strings.ToLower(title)), func(c rune) bool {
		return !unicode.In(c, unicode.Letter, unicode.Number, unicode.Mn, unicode.Mc) && !withinWord(c)
	})
	kept := words[:0]
	for _, word := range words {
		word = strings.Map(func(c rune) rune {
			if withinWord(c) {
				return -1
			}
			return c
		}, word)
		if word = strings.TrimLeftFunc(word, unicode.IsMark); word != "" {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}

// withinWord reports whether a character is left out of a slug without ending a word: an apostrophe, a joiner, or one
// that selects the shape of the one before.
func withinWord(c rune) bool {
	return c == '\'' || c == '’' || c == '\u200d' || unicode.Is(unicode.Variation_Selector, c)
}

// PostIDOfSlug returns the id at the end of a slug; "" if its end is not an id.
func PostIDOfSlug(slug string) string { return idOfSlug(slug[strings.LastIndexByte(slug, '-')+1:]) }

// The forms of an id in a slug: the id of a new post is its own, and others begin with one of these. Forms are never
// changed, as slugs are in links; a new one gets another letter.
const (
	slugUUID  = 'a' // a UUID to base 36
	slugOther = 'c' // the bytes of any other id in hexadecimal
)

const slugBase = 36

func slugID(id string) string {
	if isPostID(id) {
		return id
	}
	if u, err := uuid.Parse(id); err == nil && u.String() == id {
		return string(slugUUID) + new(big.Int).SetBytes(u[:]).Text(slugBase)
	}
	return string(slugOther) + hex.EncodeToString([]byte(id))
}

// idOfSlug is the inverse of slugID. It refuses what slugID does not return.
func idOfSlug(text string) string {
	id := ""
	if isPostID(text) {
		return text
	}
	if text == "" || len(text) > 2*64+1 {
		return ""
	}
	switch rest := text[1:]; text[0] {
	case slugUUID:
		n, ok := new(big.Int).SetString(rest, slugBase)
		if !ok || n.Sign() < 0 || n.BitLen() > 128 {
			return ""
		}
		var u uuid.UUID
		n.FillBytes(u[:])
		id = u.String()
	case slugOther:
		b, _ := hex.DecodeString(rest)
		id = string(b)
	}
	if !ValidID(id) || slugID(id) != text {
		return ""
	}
	return id
}
