package query

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"byline/store/emulator/internal/fulltext"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
)

// postings are the postings of one term, or the entries of one value in the range index, in the order of the items'
// addresses.
type postings struct {
	r      *Query
	it     *pebble.Iterator
	prefix []byte // of the keys; an address follows
	key    []byte // scratch
	target []byte // of the last seek
	valid  bool   // it is at the first posting from target
	steps  int    // to try before a seek; 0: 1
}

// openPostings opens the postings of a term with addresses in [low, high); an empty bound is none. close closes them.
func (r *Query) openPostings(t *index.Text, term string, low, high []byte) (*postings, error) {
	return r.openKeys(t.TextPrefix(r.c.No, term), low, high)
}

// openKeys opens the postings, or entries, with a prefix.
func (r *Query) openKeys(prefix, low, high []byte) (*postings, error) {
	p := &postings{r: r, prefix: prefix}
	bounds := pebble.IterOptions{LowerBound: append(bytes.Clone(p.prefix), low...),
		UpperBound: append(bytes.Clone(p.prefix), high...)}
	if len(high) == 0 {
		bounds.UpperBound = layout.PrefixEnd(p.prefix)
	}
	var err error
	p.it, err = r.view.Clone(pebble.CloneOptions{IterOptions: &bounds})
	return p, err
}

func (p *postings) close() error { return p.it.Close() }

// address returns the address of the current posting.
func (p *postings) address() []byte { return p.it.Key()[len(p.prefix):] }

// seek moves to the first posting from an address. A later address is found faster than an earlier one.
func (p *postings) seek(address []byte) bool {
	const most = 8 // steps that take less time than a seek
	forward := p.target != nil && bytes.Compare(address, p.target) >= 0
	p.target = append(p.target[:0], address...)
	if p.target == nil {
		p.target = []byte{}
	}
	if forward {
		if !p.valid || bytes.Compare(p.address(), address) >= 0 {
			return p.valid
		}
		for range max(1, p.steps) {
			p.r.postings++
			if p.valid = p.it.Next(); !p.valid || bytes.Compare(p.address(), address) >= 0 {
				p.steps = most
				return p.valid
			}
		}
		p.steps /= 2
	}
	p.r.postings++
	p.key = append(append(p.key[:0], p.prefix...), address...)
	p.valid = p.it.SeekGE(p.key)
	return p.valid
}

// has reports whether there is a posting of an address.
func (p *postings) has(address []byte) bool {
	return p.seek(address) && bytes.Equal(p.address(), address)
}

// positions returns the positions in the current posting.
func (p *postings) positions() []int {
	v, err := p.it.ValueAndErr()
	if err != nil {
		return nil // it has the error
	}
	return index.AppendPositions(nil, v)
}

// candidates are the items that fulfill a condition on texts.
type candidates interface {
	// next returns the first address from the one given, nil for none. It is valid until the next call.
	next(ctx context.Context, from []byte) ([]byte, error)
	// has reports whether the item of an address fulfills the condition.
	has(address []byte) (bool, error)
	close() error
}

// phraseCandidates are the items that have a phrase.
type phraseCandidates struct {
	phrase fulltext.Phrase
	terms  map[string]*postings
	list   []*postings // of terms
	at     []byte
}

func (r *Query) openPhrase(t *index.Text, phrase fulltext.Phrase, low, high []byte) (candidates, error) {
	c := &phraseCandidates{phrase: phrase, terms: map[string]*postings{}}
	for _, term := range phrase {
		if c.terms[term.Text] != nil {
			continue
		}
		p, err := r.openPostings(t, term.Text, low, high)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.terms[term.Text], c.list = p, append(c.list, p)
		if r.plan.shared != nil {
			r.texts.plan(t, term.Text, p)
		}
	}
	return c, nil
}

func (c *phraseCandidates) next(ctx context.Context, from []byte) ([]byte, error) {
	if len(c.phrase) == 0 {
		return nil, nil
	}
	c.at = append(c.at[:0], from...)
search:
	for n := 0; ; n++ {
		if n%256 == 255 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		for _, p := range c.list {
			if !p.seek(c.at) {
				return nil, p.it.Error()
			}
			if !bytes.Equal(p.address(), c.at) {
				c.at = append(c.at[:0], p.address()...)
				if p != c.list[0] {
					continue search
				}
			}
		}
		if c.matches() {
			return c.at, nil
		}
		c.at = append(c.at, 0)
	}
}

// matches reports whether the item at which all postings are has the phrase.
func (c *phraseCandidates) matches() bool {
	return len(c.phrase) == 1 ||
		c.phrase.Count(func(term string) []int { return c.terms[term].positions() }) > 0
}

func (c *phraseCandidates) has(address []byte) (bool, error) {
	for _, p := range c.list {
		if !p.has(address) {
			return false, p.it.Error()
		}
	}
	return len(c.phrase) > 0 && c.matches(), nil
}

func (c *phraseCandidates) close() error {
	var err error
	for _, p := range c.list {
		err = errors.Join(err, p.close())
	}
	return err
}

// allCandidates are the items that fulfill all of several conditions.
type allCandidates struct {
	list []candidates
	at   []byte
}

func (c *allCandidates) next(ctx context.Context, from []byte) ([]byte, error) {
	c.at = append(c.at[:0], from...)
	for agreed := 0; agreed < len(c.list); {
		agreed = 0
		for _, one := range c.list {
			found, err := one.next(ctx, c.at)
			if found == nil || err != nil {
				return nil, err
			}
			if bytes.Equal(found, c.at) {
				agreed++
				continue
			}
			c.at = append(c.at[:0], found...)
		}
	}
	return c.at, nil
}

func (c *allCandidates) has(address []byte) (bool, error) {
	for _, one := range c.list {
		if ok, err := one.has(address); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (c *allCandidates) close() error { return closeAll(c.list) }

// anyCandidates are the items that fulfill one of several conditions.
type anyCandidates struct {
	list []candidates
	at   []byte
}

func (c *anyCandidates) next(ctx context.Context, from []byte) ([]byte, error) {
	c.at = append(c.at[:0], from...)
	found := false
	var least []byte
	for _, one := range c.list {
		address, err := one.next(ctx, c.at)
		if err != nil {
			return nil, err
		}
		if address != nil && (!found || bytes.Compare(address, least) < 0) {
			found, least = true, append(least[:0], address...)
		}
	}
	if !found {
		return nil, nil
	}
	c.at = append(c.at[:0], least...)
	return c.at, nil
}

func (c *anyCandidates) has(address []byte) (bool, error) {
	for _, one := range c.list {
		if ok, err := one.has(address); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (c *anyCandidates) close() error { return closeAll(c.list) }

func closeAll(list []candidates) error {
	var err error
	for _, one := range list {
		err = errors.Join(err, one.close())
	}
	return err
}

// openCondition opens the items that fulfill a condition, with addresses in [low, high).
func (r *Query) openCondition(cond sql.TextCondition, low, high []byte) (candidates, error) {
	t := r.c.Indexes.Text(cond.Path)
	var list []candidates
	for _, phrase := range cond.Phrases {
		one, err := r.openPhrase(&t, phrase, low, high)
		if err != nil {
			return nil, errors.Join(err, closeAll(list))
		}
		list = append(list, one)
	}
	switch {
	case len(list) == 1:
		return list[0], nil
	case cond.Any:
		return &anyCandidates{list: list}, nil
	}
	return &allCandidates{list: list}, nil
}

// openValue opens the items that have a value, given the prefix of its entries in the range index.
func (r *Query) openValue(prefix, low, high []byte) (candidates, error) {
	p, err := r.openKeys(prefix, low, high)
	return &phraseCandidates{phrase: fulltext.Phrase{{}}, list: []*postings{p}}, err
}

// openConditions opens the items that fulfill all conditions and have the values of the query: all items if there are
// no conditions.
func (r *Query) openConditions(conds []sql.TextCondition, low, high []byte) (candidates, error) {
	if len(conds) == 0 {
		i := slices.IndexFunc(r.c.Indexes.Texts, func(t index.Text) bool { return t.Indexed })
		return r.openPhrase(&r.c.Indexes.Texts[i], fulltext.Phrase{{}}, low, high)
	}
	var list []candidates
	for _, cond := range conds {
		one, err := r.openCondition(cond, low, high)
		if err != nil {
			return nil, errors.Join(err, closeAll(list))
		}
		list = append(list, one)
	}
	for _, prefix := range r.values {
		one, err := r.openValue(prefix, low, high)
		if err != nil {
			return nil, errors.Join(err, closeAll(list))
		}
		list = append(list, one)
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return &allCandidates{list: list}, nil
}

// maxTermsOpen is how many terms' postings itemTexts keeps open.
const maxTermsOpen = 32

// itemTexts is the sql.TextIndex of the item at an address.
type itemTexts struct {
	r       *Query
	address []byte
	low     []byte // bounds of the addresses; empty: none
	high    []byte
	open    map[openTerm]*postings
	planned map[openTerm]*postings // those of the plan: they are at the item, or beyond if it does not have the term
	err     error                  // the first
}

// plan adds postings of the plan.
func (x *itemTexts) plan(t *index.Text, term string, p *postings) {
	if x.planned == nil {
		x.planned = map[openTerm]*postings{}
	}
	x.planned[openTerm{x.indexed(t.Path), term}] = p
}

// openTerm is a term of the texts with a number in Indexes.Texts.
type openTerm struct {
	text int
	term string
}

// indexed returns the number of an indexed path, or -1.
func (x *itemTexts) indexed(path sql.Path) int {
	return slices.IndexFunc(x.r.c.Indexes.Texts, func(t index.Text) bool {
		return t.Indexed && slices.Equal(t.Path, path)
	})
}

// Words implements sql.TextIndex.
func (x *itemTexts) Words(path sql.Path) (n int, indexed bool) {
	text := x.indexed(path)
	if text < 0 {
		return 0, false
	}
	return x.headerOf(text).Words, true
}

// header returns what the indexes know of the item besides its texts.
func (x *itemTexts) header() index.TextHeader {
	return x.headerOf(slices.IndexFunc(x.r.c.Indexes.Texts, func(t index.Text) bool { return t.Indexed }))
}

func (x *itemTexts) headerOf(text int) index.TextHeader {
	p := x.postings(openTerm{text, ""})
	if p == nil {
		return index.TextHeader{Words: -1}
	}
	v, err := p.it.ValueAndErr()
	x.fail(err)
	return index.ReadTextHeader(v)
}

// Positions implements sql.TextIndex.
func (x *itemTexts) Positions(path sql.Path, term string) []int {
	p := x.postings(openTerm{x.indexed(path), term})
	if p == nil {
		return nil
	}
	found := p.positions()
	x.fail(p.it.Error())
	return found
}

// postings returns the postings of a term at the item, or nil if it has none.
func (x *itemTexts) postings(term openTerm) *postings {
	p := x.planned[term]
	if p == nil {
		p = x.open[term]
	}
	if p == nil {
		if len(x.open) >= maxTermsOpen {
			x.fail(x.close())
		}
		var err error
		if p, err = x.r.openPostings(&x.r.c.Indexes.Texts[term.text], term.term, x.low, x.high); err != nil {
			x.fail(err)
			return nil
		}
		if x.open == nil {
			x.open = map[openTerm]*postings{}
		}
		x.open[term] = p
	}
	read := x.r.postings
	found := p.has(x.address)
	if x.r.postings = read; !found {
		x.fail(p.it.Error())
		return nil
	}
	if x.r.plan.shared == nil || term.term != "" && x.planned[term] != p { // else it is counted, or a header
		x.r.postings++
	}
	return p
}

func (x *itemTexts) fail(err error) {
	if x.err == nil {
		x.err = err
	}
}

func (x *itemTexts) close() error {
	var err error
	for _, p := range x.open {
		err = errors.Join(err, p.close())
	}
	clear(x.open)
	return err
}
