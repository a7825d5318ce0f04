package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"byline/internal/cut"
	"byline/store/blog"
	"byline/store/blog/markdown"
)

const maxKey = 100 // characters of an idempotency key

// maxCounted is the most comments and likes of a post. A logical partition holds 20 GB, and then accepts
// only deletes. A comment takes at most 60 KB (blog.MaxComment characters of up to 6 bytes in JSON) and 1 KB of
// other properties, a like less than 1 KB, so all of them together at most 6.4 GB
// (TestLimits_FitIntoALogicalPartition).
var maxCounted = map[string]int{"/commentCount": 100_000, "/likeCount": 1_000_000}

// normalizeLines returns a text with line feeds as its only line breaks. Forms of HTML send CR LF (HTML, section
// 4.10.21.4), files of old may have CR, and texts from mainframes NEL.
func normalizeLines(text string) string {
	if strings.IndexByte(text, '\r') < 0 && !strings.Contains(text, "\u0085") {
		return text
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n").Replace(text)
}

// normalizeLine returns a text of one line without the space around it.
func normalizeLine(text string) string { return strings.TrimSpace(text) }

// normalizedText returns a normalized text; nil for nil.
func normalizedText(text *string, normalize func(string) string) *string {
	if text == nil {
		return nil
	}
	return new(normalize(*text))
}

const lineBreaks = "\n\v\f\r\u0085\u2028\u2029" // of the Unicode Standard, section 5.8

// checkText accepts 1 to limit characters with at least one visible one, and no control characters except
// newlines and tabs if lines is true.
func checkText(op, field, text string, limit int, lines bool) error {
	if !utf8.ValidString(text) {
		return blog.Invalidf(op, field, blog.ReasonFormat, "is not valid UTF-8")
	}
	if !strings.ContainsFunc(text, isVisible) {
		return blog.Invalidf(op, field, blog.ReasonBlank, "must not be blank")
	}
	// A text of at most limit bytes needs no count.
	if len(text) > limit && utf8.RuneCountInString(text) > limit {
		return blog.Invalidf(op, field, blog.ReasonTooLong, "must have at most %d characters", limit)
	}
	for _, c := range text {
		if unicode.IsControl(c) && !(lines && (c == '\n' || c == '\t')) {
			return blog.Invalidf(op, field, blog.ReasonCharacter, "must not contain the control character %U", c)
		}
	}
	return nil
}

// isVisible reports whether a character is neither space nor formatting.
func isVisible(c rune) bool { return unicode.IsGraphic(c) && !unicode.IsSpace(c) }

// ValidateComment returns an Error if the text of a comment is invalid.
func ValidateComment(content string) error {
	return checkComment("edit comment", normalizeLines(content))
}

func checkComment(op, content string) error {
	return checkMarkdown(op, "content", content, blog.MaxComment)
}

func checkContent(op, content string) error {
	if err := checkMarkdown(op, "content", content, blog.MaxContent); err != nil {
		return err
	}
	if len(blog.FilesIn(content)) > blog.MaxFiles {
		return blog.Invalidf(op, "content", blog.ReasonTooMany, "must have at most %d uploaded pictures", blog.MaxFiles)
	}
	return nil
}

// Preview returns a text as it would be stored as the content of a post, and an Error if it is invalid, except that it
// may be empty.
func Preview(text string) (string, error) {
	const op = "render text"
	if text = normalizeLines(text); text == "" {
		return "", nil
	}
	return text, checkMarkdown(op, "text", text, blog.MaxContent)
}

func checkMarkdown(op, field, content string, limit int) error {
	if err := checkText(op, field, content, limit, true); err != nil {
		return err
	}
	if err := markdown.Check(content); err != nil {
		return blog.Invalidf(op, field, blog.ReasonTooComplex, "%v", err)
	}
	return nil
}

func checkDisplayName(op, name string) error {
	return checkLine(op, "displayName", name, blog.MaxDisplayName)
}

// checkLine is checkText for a text of one line.
func checkLine(op, field, text string, limit int) error {
	if strings.ContainsAny(text, lineBreaks) {
		return blog.Invalidf(op, field, blog.ReasonCharacter, "must not contain a line break")
	}
	return checkText(op, field, text, limit, false)
}

func checkBio(op, bio string) error { return checkText(op, "bio", bio, blog.MaxBio, true) }

// checkPictureURL accepts an HTTPS URL, and a path of this server without a query, which would be executed by everyone
// who sees it, but not "//host", nor what browsers read as that. A path of files must be that of a file.
func checkPictureURL(op, field, text string, limit int) error {
	if len(text) > limit {
		return blog.Invalidf(op, field, blog.ReasonTooLong, "must have at most %d characters", limit)
	}
	u := parseURL(text)
	path := u != nil && strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") && !strings.Contains(text, "?")
	if !path && (!isWebURL(u) || u.Scheme != "https") {
		return blog.Invalidf(op, field, blog.ReasonFormat, "must be an https URL without a username, or a path of this "+
			"server that begins with a single / and has no query")
	}
	if _, ok := blog.FileOf(text); !ok && strings.HasPrefix(text, blog.FilePrefix) {
		return blog.Invalidf(op, field, blog.ReasonFormat, "is not the path of a file")
	}
	return nil
}

// parseURL returns nil for what is not a URL as of RFC 3986.
func parseURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || strings.ContainsFunc(text, notOfURL) {
		return nil
	}
	return u
}

// notOfURL reports whether a character cannot be in a URL as of RFC 3986.
func notOfURL(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("\"<>\\^`{|}", c) }

// isWebURL reports whether a URL, which may be nil, is an absolute one of a web page or picture.
func isWebURL(u *url.URL) bool {
	return u != nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil
}

// checkTags accepts tags that blog.ParseTag accepts, at most blog.MaxTags different ones.
func checkTags(op string, tags []string) error {
	var errs []error
	for i, tag := range tags {
		if _, _, err := blog.ParseTag(tag); err != nil {
			refused := *err
			refused.Op, refused.Field = op, fmt.Sprintf("tags[%d]", i)
			refused.Message = fmt.Sprintf("%q %s", cut.Characters(tag, 100), err.Message)
			errs = append(errs, &refused)
		}
		if len(errs) == blog.MaxTags {
			return errors.Join(errs...)
		}
	}
	if len(distinct(tags)) > blog.MaxTags {
		errs = append(errs, blog.Invalidf(op, "tags", blog.ReasonTooMany, "must have at most %d entries", blog.MaxTags))
	}
	return errors.Join(errs...)
}

// distinct returns valid tags as they are stored: each once, in the first spelling, in their order.
func distinct(tags []string) (all []string) {
	var keys []string
	for _, tag := range tags {
		tag, key, err := blog.ParseTag(tag)
		if err == nil && len(all) <= blog.MaxTags && !slices.Contains(keys, key) {
			all, keys = append(all, tag), append(keys, key)
		}
	}
	return all
}

func checkKey(op, key string) error {
	if key == "" {
		return nil
	}
	return checkText(op, "idempotencyKey", key, maxKey, false)
}

// newID returns a new id.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// newPostID returns the id of a post or draft to create, as createID does.
func newPostID(key string, scope ...string) string {
	var random [10]byte
	if key == "" {
		_, _ = rand.Read(random[:]) // never fails
	} else {
		sum := blog.Digest(append(scope, key)...)
		copy(random[:], sum[:])
	}
	return blog.PostID(random)
}

// createID returns the id of an item to create. With an idempotency key it is derived from the
// key and its scope (type, author, parent), so that a repetition conflicts with the first
// attempt's item.
func createID(key string, scope ...string) string {
	if key == "" {
		return newID()
	}
	sum := blog.Digest(append(scope, key)...)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: derived by the application, RFC 9562 section 5.8
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// inputDigest identifies the input of a create with an idempotency key; "" without one.
func inputDigest(key string, input ...string) string {
	if key == "" {
		return ""
	}
	sum := blog.Digest(input...)
	return hex.EncodeToString(sum[:8])
}

// keyUsed returns the Conflict of an idempotency key that was used for another item or, if exists is false,
// for a deleted one.
func keyUsed(op string, exists bool) error {
	e := &blog.Error{Code: blog.Conflict, Op: op, Field: "idempotencyKey", Reason: blog.ReasonKeyUsed,
		Message: "was already used with a different input"}
	if !exists {
		e.Message = "was already used for an item that has been deleted"
	}
	return e
}

// NewPost is a post or draft to create. It has a field for each of blog.PostTexts.
type NewPost struct {
	AuthorID       string // the acting user
	Title          string
	Content        string
	SEOTitle       string
	SEODescription string
	CanonicalURL   string
	CoverURL       string // an https URL, or the path of a file or upload of the author
	CoverAlt       string
	Tags           []string // each kept once, in the first spelling
	Key            string   // the idempotency key, or ""
}

// PostEdit is a change of a post or draft. Nil fields stay as they are, and "" removes an optional text. It has a field
// for each of blog.PostTexts.
type PostEdit struct {
	Title          *string
	Content        *string
	SEOTitle       *string
	SEODescription *string
	CanonicalURL   *string
	CoverURL       *string
	CoverAlt       *string
	Tags           *[]string // all tags that the post has afterwards
	Version        *int32    // if not nil, the version that the edit requires
}

// inputOf returns the field of an input for a text of posts.
func inputOf[F, I any](input *I, t blog.PostText) *F {
	return reflect.ValueOf(input).Elem().FieldByName(t.Field).Addr().Interface().(*F)
}

// normalizePostText returns a normalized text of posts. A picture has no fragment: that of a file is its dimensions.
func normalizePostText(t blog.PostText, text string) string {
	if t.Picture {
		text, _, _ = strings.Cut(text, "#")
	}
	return normalizeLine(text)
}

// checkPostText accepts a text of posts.
func checkPostText(op string, t blog.PostText, text string) error {
	field := t.InputPath()
	switch {
	case t.Optional && text == "":
		return nil
	case t.Picture:
		return checkPictureURL(op, field, text, t.Max)
	}
	if err := checkLine(op, field, text, t.Max); err != nil {
		return err
	}
	if t.URL && !isWebURL(parseURL(text)) {
		return blog.Invalidf(op, field, blog.ReasonFormat, "must be an https or http URL with a host and without a username")
	}
	return nil
}

// Validate returns an Error for each invalid field, joined.
func (n NewPost) Validate() error {
	const op = "create post"
	n = n.normalized()
	var errs []error
	for _, t := range blog.PostTexts {
		errs = append(errs, checkPostText(op, t, *inputOf[string](&n, t)))
	}
	return errors.Join(append(errs, checkContent(op, n.Content), checkTags(op, n.Tags), checkKey(op, n.Key))...)
}

// normalized returns the post with normalized texts.
func (n NewPost) normalized() NewPost {
	for _, t := range blog.PostTexts {
		text := inputOf[string](&n, t)
		*text = normalizePostText(t, *text)
	}
	n.Content = normalizeLines(n.Content)
	return n
}

// post returns the new post.
func (n NewPost) post(id string, author blog.Byline, now blog.Date) *blog.Post {
	p := &blog.Post{ID: id, Byline: author, Content: n.Content, Tags: distinct(n.Tags), CreatedAt: now, Version: 1,
		Revision: 1}
	for _, t := range blog.PostTexts {
		*t.Of(p) = *inputOf[string](&n, t)
	}
	return p
}

// digest returns the InputDigest of the post. An optional text that is missing does not change it, so that it is the
// same before and after an upgrade that adds the text.
func (n NewPost) digest() string {
	parts := append([]string{n.Title, n.Content}, distinct(n.Tags)...)
	for _, t := range blog.PostTexts {
		if text := *inputOf[string](&n, t); t.Name != "title" && text != "" {
			parts = append(parts, "\x00"+t.Name, text) // no tag begins so
		}
	}
	return inputDigest(n.Key, parts...)
}

// Validate returns an Error for each invalid field, joined.
func (e PostEdit) Validate() error {
	const op = "edit post"
	e = e.normalized()
	var errs []error
	for _, t := range blog.PostTexts {
		if text := *inputOf[*string](&e, t); text != nil {
			errs = append(errs, checkPostText(op, t, *text))
		}
	}
	if e.Content != nil {
		errs = append(errs, checkContent(op, *e.Content))
	}
	if e.Tags != nil {
		errs = append(errs, checkTags(op, *e.Tags))
	}
	return errors.Join(errs...)
}

// normalized returns the edit with normalized texts.
func (e PostEdit) normalized() PostEdit {
	for _, t := range blog.PostTexts {
		text := inputOf[*string](&e, t)
		*text = normalizedText(*text, func(text string) string { return normalizePostText(t, text) })
	}
	e.Content = normalizedText(e.Content, normalizeLines)
	return e
}

// isEmpty reports whether an edit sets nothing.
func (e PostEdit) isEmpty() bool {
	e.Version = nil
	return e == PostEdit{}
}

// of returns an edited copy of a post or draft, and whether it differs. Content of which only the beginning is known
// differs.
func (e PostEdit) of(p *blog.Post, date blog.Date) (edited *blog.Post, differs bool) {
	c := *p
	for _, t := range blog.PostTexts {
		if text := *inputOf[*string](&e, t); text != nil && !(t.Picture && p.HasCover(*text)) {
			differs = differs || *t.Of(p) != *text
			*t.Of(&c) = *text
		}
	}
	if e.Tags != nil {
		c.Retag(distinct(*e.Tags))
	}
	if e.Content != nil {
		c.Content, c.Truncated, c.ReadingMinutes = *e.Content, false, 0
	}
	differs = differs || c.Content != p.Content || c.Truncated != p.Truncated || !slices.Equal(c.Tags, p.Tags)
	c.UpdatedAt = &date
	c.Version++
	return &c, differs
}

// isEdited reports whether a post or draft, which may be nil, is the result of an edit.
func (e PostEdit) isEdited(p *blog.Post, date blog.Date) bool {
	if p == nil || p.UpdatedAt == nil || *p.UpdatedAt != date {
		return false
	}
	_, differs := e.of(p, date)
	return !differs
}
