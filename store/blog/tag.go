package blog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of tags.
const (
	MaxTags      = 5  // of a post
	MaxTagLength = 30 // code points in normalization form C

	maxFormerTags = 20
	maxTagInput   = 1000 // bytes of a tag before it is normalized
)

// The signs of tags besides letters, marks and digits: between them, before the first, and after the last. As Unicode
// Standard Annex 31 advises for words, there are apostrophes, Hebrew punctuation and the middle dots of Catalan and
// Japanese.
const (
	tagSigns      = " ._-+#·'’׳״・"
	tagSignsFirst = "."
	tagSignsLast  = "+#"
)

// ParseTag returns a tag as its author writes it, in normalization form C, with single spaces and none around it; and
// its key, by which posts are found. Tags with the same key are the same tag: it is case-folded, in normalization form
// KC, and has a hyphen for spaces, low lines and hyphens. A key is its own key.
//
// A tag has 1 to MaxTagLength letters, marks and digits of any script, joiners where they change how a word looks, and
// tagSigns. The error says what is wrong, as in "must not contain the invisible character U+200B".
func ParseTag(text string) (tag, key string, err *Error) {
	switch {
	case isPlainKey(text):
		return text, text, nil
	case len(text) > maxTagInput:
		return "", "", errLongTag
	case !utf8.ValidString(text):
		return "", "", refuseTag(ReasonFormat, "must be valid UTF-8")
	}
	isSpace := func(c rune) bool { return unicode.Is(unicode.Zs, c) }
	tag = norm.NFC.String(strings.Join(strings.FieldsFunc(text, isSpace), " "))
	if err := checkTag(tag); err != nil {
		return "", "", err
	}
	key = foldTag(tag)
	return tag, key, checkTag(key) // it may be longer
}

// TagKey returns the key of a tag in any spelling; ok is false for what is not a tag.
func TagKey(text string) (key string, ok bool) {
	_, key, err := ParseTag(text)
	return key, err == nil
}

// TagKeys returns the keys of the tags that are valid: other programs may have written others.
func TagKeys(tags []string) (keys []string) {
	for _, tag := range tags {
		if key, ok := TagKey(tag); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// HasTag reports whether a post has a tag, given its key.
func (p *Post) HasTag(key string) bool {
	return slices.ContainsFunc(p.Tags, func(tag string) bool {
		k, ok := TagKey(tag)
		return ok && k == key
	})
}

// isPlainKey reports whether a text is a tag and its own key, as most are.
func isPlainKey(text string) bool {
	for i := range len(text) {
		if c := text[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'z') {
			return false
		}
	}
	return 0 < len(text) && len(text) <= MaxTagLength
}

var errLongTag = refuseTag(ReasonTooLong, "must have at most %d characters", MaxTagLength)

func refuseTag(reason Reason, format string, args ...any) *Error {
	return &Error{Code: Invalid, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// checkTag returns what is wrong with a text in normalization form C.
func checkTag(text string) *Error {
	switch {
	case utf8.RuneCountInString(text) > MaxTagLength:
		return errLongTag
	case text == "":
		return refuseTag(ReasonBlank, "must not be blank")
	case !strings.ContainsFunc(text, isTagLetter):
		return refuseTag(ReasonFormat, "must have a letter or digit")
	}
	base := false // whether the last character may have marks
	for _, c := range text {
		switch {
		case isTagLetter(c):
			base = true
		case unicode.In(c, unicode.Mn, unicode.Mc):
			if !base {
				return refuseTag(ReasonCharacter, "must not have the mark %U without a letter", c)
			}
		case c == zwnj, c == zwj: // see checkJoiners
		case isTagSign(c, tagSigns):
			base = false
		case unicode.IsGraphic(c):
			return refuseTag(ReasonCharacter, "must not contain %q (%U)", c, c)
		default:
			return refuseTag(ReasonCharacter, "must not contain the invisible character %U", c)
		}
	}
	first, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRuneInString(text)
	switch {
	case isTagSign(first, tagSigns) && !isTagSign(first, tagSignsFirst):
		return refuseTag(ReasonFormat, "must not begin with %q (%U)", first, first)
	case isTagSign(last, tagSigns) && !isTagSign(last, tagSignsLast):
		return refuseTag(ReasonFormat, "must not end with %q (%U)", last, last)
	}
	return checkJoiners(text)
}

// isTagLetter reports whether a character is a letter or digit, such as a superscript one or a Roman one.
func isTagLetter(c rune) bool {
	if unicode.Is(unicode.No, c) {
		return strings.TrimFunc(norm.NFKC.String(string(c)), unicode.IsDigit) == ""
	}
	return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.Is(unicode.Nl, c)
}

// isTagSign reports whether a character is one of the signs, or the wide form of one.
func isTagSign(c rune, signs string) bool {
	return strings.ContainsRune(signs, c) || strings.Contains(signs, norm.NFKC.String(string(c)))
}

const (
	zwnj = '\u200c' // separates letters that would be joined
	zwj  = '\u200d' // joins letters that would be separated
)

// joiners are checked as RFC 5892, appendix A, and section 2.3 of Unicode Standard Annex 31 say.
var joiners = idna.New(idna.CheckJoiners(true))

// checkJoiners refuses joiners that do not change how a word looks.
func checkJoiners(text string) *Error {
	for _, c := range []rune{zwnj, zwj} {
		if !strings.ContainsRune(text, c) {
			continue
		}
		without := strings.ReplaceAll(text, string(zwnj+zwj-c), "") // the other one, so that the error names this one
		_, err := joiners.ToUnicode(without)
		if err != nil || c == zwnj && strings.HasSuffix(text, string(c)) {
			return refuseTag(ReasonCharacter, "must not contain the invisible character %U where it joins or separates nothing", c)
		}
	}
	return nil
}

// foldTag returns the key of a tag.
func foldTag(tag string) string {
	fold := func(text string) string { return strings.Map(foldCherokee, cases.Fold().String(text)) }
	// As in section 3.13 of the Unicode Standard, compatibility caseless matching.
	tag = norm.NFKC.String(fold(norm.NFKC.String(fold(norm.NFD.String(tag)))))
	tag = strings.Map(func(c rune) rune {
		switch {
		case c == ' ', c == '_':
			return '-'
		case c == '’':
			return '\''
		case unicode.Is(unicode.Variation_Selector, c), c == '\u034f': // the combining grapheme joiner joins nothing
			return -1
		}
		return c
	}, tag)
	for strings.Contains(tag, "--") {
		tag = strings.ReplaceAll(tag, "--", "-")
	}
	return norm.NFKC.String(tag)
}

// foldCherokee completes cases.Fold, which swaps the cases of Cherokee letters. Unicode folds them to upper case.
func foldCherokee(c rune) rune {
	if unicode.Is(unicode.Cherokee, c) {
		return unicode.ToUpper(c)
	}
	return c
}

// Retag sets the tags of a post. Those that it loses become former ones: the projection, which sees only the last
// version of a post, deletes their entries. A post remembers the keys of its last maxFormerTags.
func (p *Post) Retag(tags []string) {
	keys := TagKeys(tags)
	lost := slices.DeleteFunc(slices.Concat(p.FormerTags, TagKeys(p.Tags)), func(t string) bool {
		return slices.Contains(keys, t)
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

// escapeTag returns the key of a tag as part of a partition key: azcosmos escapes characters beyond the basic plane
// wrongly, and ids must not contain "#".
func escapeTag(key string) string {
	var b strings.Builder
	for _, c := range key {
		if c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' {
			b.WriteRune(c)
		} else {
			b.WriteString("_" + strconv.FormatInt(int64(c), 16) + "_")
		}
	}
	return b.String()
}

// unescapeTag returns the key that escapeTag has escaped; ok is false for any other text.
func unescapeTag(text string) (key string, ok bool) {
	var b strings.Builder
	for i, part := range strings.Split(text, "_") {
		if i%2 == 0 {
			b.WriteString(part)
		} else if c, err := strconv.ParseInt(part, 16, 32); err == nil {
			b.WriteRune(rune(c))
		}
	}
	key, ok = TagKey(b.String())
	return key, ok && escapeTag(key) == text
}
