package sql

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// Longest patterns of LIKE and REGEXMATCH, in bytes. A few bytes of a regular expression can
// compile to a thousand instructions.
const (
	maxPattern = 64 << 10
	maxRegex   = 1 << 10
)

// likeExpr is x LIKE pattern.
type likeExpr struct {
	x, pattern expr
	escape     rune // 0: none
	prep       *int // index of the prepared pattern, or nil
}

func (l *likeExpr) eval(e *env) Value { return l.test(e).value() }

func (l *likeExpr) test(e *env) truth {
	x, pattern := l.x.eval(e), l.pattern.eval(e)
	if x.kind != String || pattern.kind != String {
		return unknown
	}
	if l.prep == nil {
		if !e.fits("the pattern of LIKE", len(pattern.text), maxPattern) || !e.spend("LIKE", len(pattern.text)) {
			return unknown
		}
		parts := parseLike(pattern.text, l.escape)
		if parts == nil {
			return unknown
		}
		return e.matchLike(parts, x.text)
	}
	p := &e.prep[*l.prep]
	parts, ok := p.Load().([]likePart)
	if !ok {
		parts = parseLike(pattern.text, l.escape)
		p.Store(parts)
	}
	return e.matchLike(parts, x.text)
}

// likePart matches one character: any number of characters if many, any one if ranges is nil, else
// one in the ranges, or not in them.
type likePart struct {
	many   bool
	not    bool
	ranges [][2]rune
}

// parseLike returns nil if the pattern is invalid.
func parseLike(pattern []byte, escape rune) []likePart {
	parts := make([]likePart, 0, len(pattern))
	rs := []rune(string(pattern))
	for i := 0; i < len(rs); i++ {
		switch r := rs[i]; {
		case escape != 0 && r == escape:
			i++
			if i == len(rs) {
				return nil
			}
			parts = append(parts, likePart{ranges: [][2]rune{{rs[i], rs[i]}}})
		case r == '%':
			parts = append(parts, likePart{many: true})
		case r == '_':
			parts = append(parts, likePart{})
		case r == '[':
			end := i + 1
			for end < len(rs) && rs[end] != ']' {
				end++
			}
			if end >= len(rs) || end == i+1 {
				return nil
			}
			parts = append(parts, likeSet(rs[i+1:end]))
			i = end
		default:
			parts = append(parts, likePart{ranges: [][2]rune{{r, r}}})
		}
	}
	return parts
}

func likeSet(rs []rune) likePart {
	var part likePart
	if len(rs) > 1 && rs[0] == '^' {
		part.not = true
		rs = rs[1:]
	}
	for i := 0; i < len(rs); i++ {
		if i+2 < len(rs) && rs[i+1] == '-' {
			part.ranges = append(part.ranges, [2]rune{rs[i], rs[i+2]})
			i += 2
			continue
		}
		part.ranges = append(part.ranges, [2]rune{rs[i], rs[i]})
	}
	return part
}

func (p likePart) matches(r rune) bool {
	if p.ranges == nil {
		return true
	}
	for _, between := range p.ranges {
		if between[0] <= r && r <= between[1] {
			return !p.not
		}
	}
	return p.not
}

// matchLike backtracks only to the last %, so its time is bounded by the product of the lengths,
// which is still counted.
func (e *env) matchLike(parts []likePart, s []byte) truth {
	const step = 4 // work per step
	steps, most := 0, (maxWork-e.work)/step
	matched := matchLike(parts, s, &steps, most)
	if !e.spend("LIKE", step*steps) {
		return unknown
	}
	return truthOf(matched)
}

// matchLike counts its steps and stops after most.
func matchLike(parts []likePart, s []byte, steps *int, most int) bool {
	i, at := 0, 0
	star, mark := -1, 0
	for at < len(s) && *steps <= most {
		*steps++
		if i < len(parts) {
			*steps += len(parts[i].ranges)
		}
		if i < len(parts) && parts[i].many {
			star, mark = i, at
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[at:])
		if i < len(parts) && parts[i].matches(r) {
			i++
			at += n
			continue
		}
		if star < 0 {
			return false
		}
		_, n = utf8.DecodeRune(s[mark:])
		mark += n
		i, at = star+1, mark
	}
	for i < len(parts) && parts[i].many {
		i++
	}
	return at == len(s) && i == len(parts)
}

// likePrefix returns the literal prefix of the pattern, whether more can follow, and whether only a
// % follows. ok is false for an invalid pattern.
func likePrefix(pattern []byte, escape rune) (prefix []byte, open, whole, ok bool) {
	parts := parseLike(pattern, escape)
	if parts == nil {
		return nil, false, false, false
	}
	for i, p := range parts {
		if p.many || p.not || len(p.ranges) != 1 || p.ranges[0][0] != p.ranges[0][1] {
			return prefix, true, p.many && i == len(parts)-1, true
		}
		prefix = utf8.AppendRune(prefix, p.ranges[0][0])
	}
	return prefix, false, true, true
}

// regexExpr is REGEXMATCH. Its pattern and modifiers are validated.
type regexExpr struct {
	x, pattern, modifiers expr
	prep                  *int
}

func (r *regexExpr) eval(e *env) Value { return r.test(e).value() }

func (r *regexExpr) test(e *env) truth {
	x, pattern := r.x.eval(e), r.pattern.eval(e)
	if x.kind != String || pattern.kind != String {
		return unknown
	}
	p := &e.prep[*r.prep]
	re, ok := p.Load().(*compiledRegex)
	if !ok {
		re, _ = compileRegex(pattern.text, r.modifiers.eval(e).text)
		p.Store(re)
	}
	if !e.spend("REGEXMATCH", product(len(x.text), re.size)) {
		return unknown
	}
	return truthOf(re.Match(x.text))
}

// compiledRegex is a regular expression and its number of instructions: each may run for each
// character of a text.
type compiledRegex struct {
	*regexp.Regexp
	size int
}

// compileRegex compiles a pattern with its modifiers, or returns what is wrong with them.
func compileRegex(pattern, modifiers []byte) (re *compiledRegex, wrong string) {
	if len(pattern) > maxRegex {
		return nil, fmt.Sprintf("is longer than %d bytes", maxRegex)
	}
	for _, c := range modifiers {
		if c != 'i' && c != 'm' && c != 's' {
			return nil, "has a modifier other than i, m, s, which is not supported"
		}
	}
	text := string(pattern)
	if len(modifiers) > 0 {
		text = "(?" + string(modifiers) + ")" + text
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, "is not a supported regular expression"
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, "is not a supported regular expression"
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, "is not a supported regular expression"
	}
	return &compiledRegex{compiled, len(program.Inst)}, ""
}
