package blog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNormalizeTag(t *testing.T) {
	for text, want := range map[string]string{
		"Go":                      "go",
		"c-sharp-12":              "c-sharp-12",
		"GRÖẞE":                   "grösse",
		"Gro\u0308sse":            "grösse",       // decomposed
		"हिन्दी":                  "हिन्दी",       // letters with marks
		"\uab70\u13a0":            "\u13a0\u13a0", // both cases of a Cherokee letter
		"日本語":                     "日本語",
		"𠀀":                       "𠀀", // beyond the basic plane
		"٣":                       "٣",
		strings.Repeat("x", 30):   strings.Repeat("x", 30),
		"":                        "",
		"-":                       "",
		"two words":               "",
		"#go":                     "",
		"a.b":                     "",
		"a_b":                     "",
		"a/b":                     "",
		"½":                       "",
		"\u0308go":                "", // a mark without a letter
		"go\x00":                  "",
		"\xff":                    "",
		strings.Repeat("x", 31):   "",
		strings.Repeat("x", 9999): "",
	} {
		got, ok := NormalizeTag(text)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%.40q: got %q, %t, want %q", text, got, ok, want)
		}
	}
}

// A normalized tag stays the same, and the name of its timeline is made of characters that every client can send, and
// gives the tag back.
func TestNormalizeTag_Stable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(1, 12, -1), rapid.StringMatching(`[\p{L}\p{Nd}-]{1,12}`)).Draw(t, "text")
		tag, ok := NormalizeTag(text)
		if !ok {
			return
		}
		if again, ok := NormalizeTag(tag); !ok || again != tag {
			t.Errorf("%q, then %q, %t", tag, again, ok)
		}
		timeline := TagTimeline(tag)
		if back, ok := timeline.Tag(); !ok || back != tag || !Addressable(timeline.Partition("2026-11")) {
			t.Errorf("%q: timeline %s of %q, %t", tag, timeline, back, ok)
		}
		if of, month,
			ok := ParseEntryPartition(timeline.Partition("2026-11")); !ok || of != timeline || month != "2026-11" {
			t.Errorf("%q: parsed as %q, %q, %t", timeline, of, month, ok)
		}
		if of, ok := ParseTimelineKey(timeline.Key()); !ok || of != timeline {
			t.Errorf("%q: parsed as %q, %t", timeline, of, ok)
		}
	})
}

func TestParsePartitions_OfOthers(t *testing.T) {
	for _, partition := range []string{"", "post", "post.3", "all", "all.", "all.2026", "all.2026-13", "all.x.2026-11",
		"tag.2026-11", "tag..2026-11",
		"tag.A.2026-11", "tag.a_.2026-11", "tag.a_61_.2026-11", "other.2026-11", "tags", "timeline.all"} {
		if timeline, month, ok := ParseEntryPartition(partition); ok {
			t.Errorf("%s: parsed as the month %s of %s", partition, month, timeline)
		}
	}
	for _, partition := range []string{"timeline", "timeline.", "timeline.tag.", "timeline.tag.A", "timeline.post",
		"all", "tag.a"} {
		if timeline, ok := ParseTimelineKey(partition); ok {
			t.Errorf("%s: parsed as the item of %s", partition, timeline)
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
}
