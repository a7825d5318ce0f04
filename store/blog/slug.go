package blog

import (
	"encoding/hex"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/gosimple/slug"
)

// maxSlugTitle is the most characters of a slug that come from the title.
const maxSlugTitle = 80

// Slug returns the address of the post in a front end: the title in lower-case ASCII, "-", and the post's id in a short
// form, such as "hello-world-a3kq…". The end alone identifies the post, so that slugs need no reservation, and every
// slug that the post had under other titles still finds it. No two posts have the same slug.
func (p *Post) Slug() string {
	slug, _ := p.derived().slug.of(p.Title, func() (string, error) { return p.newSlug(), nil })
	return slug
}

func (p *Post) newSlug() string {
	title := slugTitle(p.Title)
	if len(title) > maxSlugTitle {
		if end := strings.LastIndexByte(title[:maxSlugTitle+1], '-'); end > 0 {
			title = title[:end]
		} else { // one long word
			title = title[:maxSlugTitle]
		}
	}
	if title == "" {
		return slugID(p.ID)
	}
	return title + "-" + slugID(p.ID)
}

// slugTitle is slug.Make, which is slow, for the titles that need no transliteration as well.
func slugTitle(title string) string {
	b := make([]byte, 0, len(title))
	for i := range len(title) {
		switch c := title[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_':
			b = append(b, c)
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		case c >= utf8.RuneSelf || c == '&' || c == '@':
			return slug.Make(title)
		case c == '"' || c == '\'': // within a word
		case len(b) > 0 && b[len(b)-1] != '-':
			b = append(b, '-')
		}
	}
	return strings.Trim(string(b), "-_")
}

// PostIDOfSlug returns the id at the end of a slug; "" if its end is not an id.
func PostIDOfSlug(slug string) string { return idOfSlug(slug[strings.LastIndexByte(slug, '-')+1:]) }

// The forms of an id in a slug, which begins with one of these. Forms are never changed, as slugs are in links; a new
// one gets another letter.
const (
	slugUUID     = 'a' // a UUID to base 36
	slugLongUUID = 'b' // of a post with a TextItem: see LongID
	slugOther    = 'c' // the bytes of any other id in hexadecimal
)

const slugBase = 36

func slugID(id string) string {
	name, form := id, slugUUID
	if short, long := strings.CutSuffix(id, longSuffix); long {
		name, form = short, slugLongUUID
	}
	if u, err := uuid.Parse(name); err == nil && u.String() == name {
		return string(form) + new(big.Int).SetBytes(u[:]).Text(slugBase)
	}
	return string(slugOther) + hex.EncodeToString([]byte(id))
}

// idOfSlug is the inverse of slugID. It refuses what slugID does not return.
func idOfSlug(text string) string {
	id := ""
	if text == "" || len(text) > 2*64+1 {
		return ""
	}
	switch rest := text[1:]; text[0] {
	case slugUUID, slugLongUUID:
		n, ok := new(big.Int).SetString(rest, slugBase)
		if !ok || n.Sign() < 0 || n.BitLen() > 128 {
			return ""
		}
		var u uuid.UUID
		n.FillBytes(u[:])
		if id = u.String(); text[0] == slugLongUUID {
			id += longSuffix
		}
	case slugOther:
		b, _ := hex.DecodeString(rest)
		id = string(b)
	}
	if !ValidID(id) || slugID(id) != text {
		return ""
	}
	return id
}
