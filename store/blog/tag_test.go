package blog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseTag(t *testing.T) {
	for text, want := range map[string]struct{ tag, key string }{
		"Go":                          {"Go", "go"},
		"GraphQL":                     {"GraphQL", "graphql"},
		"c":                           {"c", "c"},
		"C++":                         {"C++", "c++"},
		"c#":                          {"c#", "c#"},
		"node.js":                     {"node.js", "node.js"},
		".NET":                        {".NET", ".net"},
		"d_123":                       {"d_123", "d-123"},
		"Web Dev":                     {"Web Dev", "web-dev"},
		" \u00a0Web \u3000 Dev ":      {"Web Dev", "web-dev"},
		"web - dev":                   {"web - dev", "web-dev"},
		"c-sharp-12":                  {"c-sharp-12", "c-sharp-12"},
		"rock ’n’ roll":               {"rock ’n’ roll", "rock-'n'-roll"},
		"l'été":                       {"l'été", "l'été"},
		"col·lecció":                  {"col·lecció", "col·lecció"},
		"coŀlecció":                   {"coŀlecció", "col·lecció"}, // the l with a middle dot
		"GRÖẞE":                       {"GRÖẞE", "grösse"},
		"Gro\u0308sse":                {"Größe"[:4] + "sse", "grösse"}, // decomposed
		"ΣΊΣΥΦΟΣ":                     {"ΣΊΣΥΦΟΣ", "σίσυφοσ"},
		"\uab70\u13a0":                {"\uab70\u13a0", "\u13a0\u13a0"}, // both cases of a Cherokee letter
		"İstanbul":                    {"İstanbul", "i̇stanbul"},
		"नमस्ते":                      {"नमस्ते", "नमस्ते"}, // letters with marks
		"क्\u200dष":                   {"क्\u200dष", "क्\u200dष"},
		"ක්\u200dෂ":                   {"ක්\u200dෂ", "ක්\u200dෂ"},
		"നന്\u200d":                   {"നന്\u200d", "നന്\u200d"}, // a joiner may end a word in Malayalam
		"نرم\u200cافزار":              {"نرم\u200cافزار", "نرم\u200cافزار"},
		"می\u200cخواهم C++":           {"می\u200cخواهم C++", "می\u200cخواهم-c++"},
		"العربية":                     {"العربية", "العربية"},
		"צה״ל":                        {"צה״ל", "צה״ל"},
		"ภาษาไทย":                     {"ภาษาไทย", "ภาษาไทย"},
		"한국어":                         {"한국어", "한국어"},
		"日本語":                         {"日本語", "日本語"},
		"ジョン・レノン":                     {"ジョン・レノン", "ジョン・レノン"},
		"ｶﾞ":                          {"ｶﾞ", "ガ"},      // half width
		"Ｃ＃":                          {"Ｃ＃", "c#"},     // full width
		"二〇二六":                        {"二〇二六", "二〇二六"}, // the zero is a letter number
		"Ⅷ":                           {"Ⅷ", "viii"},
		"m²":                          {"m²", "m2"},
		"葛\U000e0100城":                {"葛\U000e0100城", "葛城"}, // a variant of an ideograph
		"𠀀":                           {"𠀀", "𠀀"},             // beyond the basic plane
		"٣":                           {"٣", "٣"},
		strings.Repeat("x", 30):       {strings.Repeat("x", 30), strings.Repeat("x", 30)},
		strings.Repeat("e\u0301", 30): {strings.Repeat("é", 30), strings.Repeat("é", 30)},
	} {
		t.Run(text, func(t *testing.T) {
			tag, key, err := ParseTag(text)
			if tag != want.tag || key != want.key || err != nil {
				t.Errorf("got %+q, %+q, %v, want %+q, %+q", tag, key, err, want.tag, want.key)
			}
		})
	}
}

func TestParseTag_Refused(t *testing.T) {
	const long = "must have at most 30 characters"
	for text, want := range map[string]string{
		"":                            "must not be blank",
		" \u00a0 ":                    "must not be blank",
		"-":                           "must have a letter or digit",
		"++":                          "must have a letter or digit",
		"..":                          "must have a letter or digit",
		"#go":                         "must not begin with '#' (U+0023)",
		"-go":                         "must not begin with '-' (U+002D)",
		"go.":                         "must not end with '.' (U+002E)",
		"＿go":                         "must not begin with '＿' (U+FF3F)",
		"lŀ":                          "must not end with '·' (U+00B7)", // of the key
		"a/b":                         "must not contain '/' (U+002F)",
		`a\b`:                         `must not contain '\\' (U+005C)`,
		"why?":                        "must not contain '?' (U+003F)",
		"50%":                         "must not contain '%' (U+0025)",
		"a,b":                         "must not contain ',' (U+002C)",
		"½":                           "must have a letter or digit",
		"1½":                          "must not contain '½' (U+00BD)",
		"go🚀":                         "must not contain '🚀' (U+1F680)",
		"\u0308go":                    "must not have the mark U+0308 without a letter",
		"c#\u0308":                    "must not have the mark U+0308 without a letter",
		"go\x00":                      "must not contain the invisible character U+0000",
		"a\nb":                        "must not contain the invisible character U+000A",
		"a\tb":                        "must not contain the invisible character U+0009",
		"a\u00adb":                    "must not contain the invisible character U+00AD",
		"a\u200bb":                    "must not contain the invisible character U+200B",
		"a\u202eb":                    "must not contain the invisible character U+202E",
		"\ufeffgo":                    "must not contain the invisible character U+FEFF",
		"g\u200co":                    "must not contain the invisible character U+200C where it joins or separates nothing",
		"نرم\u200c":                   "must not contain the invisible character U+200C where it joins or separates nothing",
		"نرم\u200d\u200cافزار":        "must not contain the invisible character U+200D where it joins or separates nothing",
		"क\u200dष":                    "must not contain the invisible character U+200D where it joins or separates nothing",
		"\u200d":                      "must have a letter or digit",
		"\xff":                        "must be valid UTF-8",
		strings.Repeat("x", 31):       long,
		strings.Repeat("ß", 16):       long, // the key is longer
		strings.Repeat("e\u0301", 31): long,
		strings.Repeat("x", 9999):     long,
	} {
		t.Run(text, func(t *testing.T) {
			if _, _, err := ParseTag(text); err == nil || err.Message != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if key, ok := TagKey(text); ok {
				t.Errorf("got the key %q", key)
			}
		})
	}
}

// A key is its own key, as is the tag in normalization form C, and the name of its timeline is made of characters that
// every client can send, and gives the key back.
func TestParseTag_Stable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(1, 12, -1),
			rapid.StringMatching(`[\p{L}\p{Nd}\p{M}\p{No}\p{Nl} ._+#·'’״・\x{200c}\x{200d}-]{1,12}`)).Draw(t, "text")
		tag, key, err := ParseTag(text)
		if err != nil {
			return
		}
		if againTag, again, err := ParseTag(tag); againTag != tag || again != key || err != nil {
			t.Errorf("%+q, then %+q with the key %+q, %v", tag, againTag, again, err)
		}
		if again, ok := TagKey(key); !ok || again != key {
			t.Errorf("%+q, then %+q, %t", key, again, ok)
		}
		timeline := TagTimeline(key)
		if back, ok := timeline.Tag(); !ok || back != key || !Addressable(timeline.Partition("2026-11")) {
			t.Errorf("%q: timeline %s of %q, %t", key, timeline, back, ok)
		}
		if of, month,
			ok := ParseEntryPartition(timeline.Partition("2026-11")); !ok || of != timeline || month != "2026-11" {
			t.Errorf("%q: parsed as %q, %q, %t", timeline, of, month, ok)
		}
		if of, ok := ParseTimeline(string(timeline)); !ok || of != timeline {
			t.Errorf("%q: parsed as %q, %t", timeline, of, ok)
		}
	})
}

// Keys that differ have partitions that differ, also those with dots.
func TestTagTimeline_Distinct(t *testing.T) {
	seen := map[Timeline]string{}
	for _, key := range []string{"c", "c++", "c#", "c-", "node.js", "node", "node.js.2026-11", "2026-11", "a.b", "a-b", "_"} {
		if key, ok := TagKey(key); ok {
			if other, twice := seen[TagTimeline(key)]; twice {
				t.Errorf("%q and %q have the timeline %s", key, other, TagTimeline(key))
			}
			seen[TagTimeline(key)] = key
		}
	}
	if len(seen) != 9 {
		t.Errorf("got the timelines %v", seen)
	}
}

func TestParsePartitions_OfOthers(t *testing.T) {
	for _, partition := range []string{"", "post", "post.3", "all", "all.", "all.2026", "all.2026-13", "all.x.2026-11",
		"tag.2026-11", "tag..2026-11",
		"tag.A.2026-11", "tag.a_.2026-11", "tag.a_61_.2026-11", "other.2026-11", "tags", "timelines"} {
		if timeline, month, ok := ParseEntryPartition(partition); ok {
			t.Errorf("%s: parsed as the month %s of %s", partition, month, timeline)
		}
	}
	for _, name := range []string{"", "timeline", "tag", "tag.", "tag.A", "tag.a_", "tags", "all.2026-11", "post"} {
		if timeline, ok := ParseTimeline(name); ok {
			t.Errorf("%s: parsed as the timeline %s", name, timeline)
		}
	}
}

// A post remembers the tags that it lost last, and no tag that it has.
func TestRetag(t *testing.T) {
	p := &Post{Tags: []string{"a", "b"}}
	for _, step := range []struct{ tags, former string }{
		{"b c", "a"}, {"a", "b c"}, {"", "b c a"}, {"b", "c a"}, {"a b c", ""},
	} {
		p.Retag(strings.Fields(step.tags))
		if got := strings.Join(p.FormerTags, " "); got != step.former || strings.Join(p.Tags, " ") != step.tags ||
			p.FormerTags == nil {
			t.Errorf("%q: got %q, former %q, want %q", step.tags, p.Tags, got, step.former)
		}
	}
	for i := range 2 * maxFormerTags {
		p.Retag([]string{fmt.Sprint(i)})
	}
	if got, want := fmt.Sprint(p.FormerTags[0], " ", len(p.FormerTags)),
		fmt.Sprint(2*maxFormerTags-1-maxFormerTags, " ", maxFormerTags); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if slices.Contains(p.FormerTags, p.Tags[0]) {
		t.Errorf("%q is a former tag", p.Tags[0])
	}
	p = &Post{Tags: []string{"Web Dev", "C#"}}
	if p.Retag([]string{"web_dev", "C"}); !slices.Equal(p.Tags, []string{"web_dev", "C"}) ||
		!slices.Equal(p.FormerTags, []string{"c#"}) {
		t.Errorf("other spellings: got %q, former %q", p.Tags, p.FormerTags)
	}
}
