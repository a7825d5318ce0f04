package blog

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The fast path reads every page that Cosmos DB writes, whatever its texts. What it accepts it decodes like
// the fallback.
func TestFastPath_Pages(t *testing.T) {
	t.Run("likes", func(t *testing.T) {
		checkPage(t, Likes, Like{PostID: "p"})
	})
	t.Run("comments", func(t *testing.T) {
		checkPage(t, Comments, Comment{PostID: "p"})
	})
	t.Run("posts", func(t *testing.T) {
		checkPage(t, Summaries, Post{})
	})
}

// The fast path reads every item that Cosmos DB writes. What it accepts it decodes like the fallback.
func TestFastPath_Items(t *testing.T) {
	t.Run("users", func(t *testing.T) {
		checkItem[UserItem](t,
			"id, type, userId, username, userDisplayName, userAvatarUrl, bio, creationDate, revision, "+
				"spreadRevision, inputDigest, formerUsernames, renames, changes")
	})
	t.Run("texts", func(t *testing.T) {
		checkItem[TextItem](t, "id, type, postId, userId, content, textDigest, deleted, ttl")
	})
	t.Run("posts", func(t *testing.T) {
		checkItem[PostItem](t,
			"id, type, postId, "+strings.Join(bylineNames, ", ")+
				postTextFields+", content, textDigest, commentCount, likeCount, creationDate, editDate, version, "+
				"revision, tags, formerTags, deleted, ttl")
	})
	t.Run("summaries", func(t *testing.T) {
		checkItem[SummaryItem](t,
			"id, type, postId, "+strings.Join(bylineNames, ", ")+
				postTextFields+", content, truncated, commentCount, likeCount, creationDate, editDate, version, "+
				"revision, tags, ttl")
	})
	t.Run("changes", func(t *testing.T) {
		checkItem[Change](t,
			"type, id, postId, "+strings.Join(bylineNames, ", ")+", creationDate, deleted, content, ttl, tags, other")
	})
}

func checkItem[T any, P interface {
	*T
	fastReadable
}](t *testing.T, fields string) {
	rapid.Check(t, func(t *rapid.T) {
		item := "{" + strings.Join(rapid.Permutation(members(t, fields+systemFields)).Draw(t, "members"), ",") + "}"
		if !fastItem([]byte(item), P(new(T))) {
			t.Fatalf("the fast path rejects %s", item)
		}
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			item = fault(t, item)
		}
		var got, want T
		if !fastItem([]byte(item), P(&got)) {
			return
		}
		if err := jsonv2.Unmarshal([]byte(item), &want, jsontext.AllowDuplicateNames(true)); err != nil {
			t.Fatalf("the fast path reads %s, the fallback fails: %v", item, err)
		}
		if diff := cmp.Diff(want, got,
			cmp.AllowUnexported(Post{}, PostItem{}, TextItem{}, SummaryItem{}, UserItem{}, Change{}, Authored{},
				Envelope{})); diff != "" {
			t.Fatalf("%s (-fallback +fast):\n%s", item, diff)
		}
	})
}

const systemFields = ", _rid, _self, _etag, _attachments, _ts, _lsn"

func checkPage[T any](t *testing.T, l Format[T], defaults T) {
	rapid.Check(t, func(t *rapid.T) {
		page := generatePage(t, l.Fields)
		if _, ok := fastItems([]byte(page), defaults, l.fast); !ok {
			t.Fatalf("the fast path rejects %s", page)
		}
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			page = fault(t, page)
		}
		got, ok := fastItems([]byte(page), defaults, l.fast)
		if !ok {
			return
		}
		want, err := l.decodeAny([]byte(page), defaults, MaxPage)
		if err != nil {
			t.Fatalf("the fast path reads %s, the fallback fails: %v", page, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Post{}), cmpEmpty); diff != "" {
			t.Fatalf("%s (-fallback +fast):\n%s", page, diff)
		}
	})
}

// cmpEmpty makes nil equal to an empty slice.
var cmpEmpty = cmp.FilterValues(func(a, b any) bool {
	return fmt.Sprint(a) == "[]" && fmt.Sprint(b) == "[]"
}, cmp.Ignore())

// generatePage returns a page of items with the fields.
func generatePage(t *rapid.T, fields string) string {
	var items []string
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		items = append(items, "{"+strings.Join(members(t, fields), ",")+"}")
	}
	return fmt.Sprintf(`{"_rid":"x","Documents":[%s],"_count":%d}`, strings.Join(items, ","), len(items))
}

// members returns JSON members with the names and values of their types.
func members(t *rapid.T, fields string) (members []string) {
	text := rapid.OneOf(rapid.StringOf(rapid.SampledFrom([]rune("a\"\\/\n\x00\x1f\x7fü€𝄞<"))), rapid.String())
	date := rapid.Map(rapid.Int64Range(-62135596800, 253402300799), func(s int64) string {
		return string(NewDate(time.Unix(s, 0)))
	})
	for field := range strings.SplitSeq(fields, ", ") {
		var v any
		switch name := strings.TrimPrefix(field, "c."); name {
		case "editDate":
			if rapid.Bool().Draw(t, "unedited") {
				continue
			}
			fallthrough
		case "creationDate":
			v = date.Draw(t, name)
		case "tags", "formerTags", "formerUsernames", "renames", "changes":
			if rapid.Bool().Draw(t, "none") {
				continue
			}
			if name == "renames" || name == "changes" {
				v = rapid.SliceOfN(date, 0, 3).Draw(t, name)
			} else {
				v = rapid.SliceOfN(text, 0, 3).Draw(t, name)
			}
		case "truncated", "deleted":
			v = rapid.Bool().Draw(t, name)
		case "readingMinutes":
			if rapid.Bool().Draw(t, "unknown") {
				continue
			}
			fallthrough
		case "commentCount", "likeCount", "version":
			v = rapid.Int32Min(0).Draw(t, name)
		case "revision", "spreadRevision", "ttl", "_ts", "_lsn":
			v = rapid.Int64Min(0).Draw(t, name)
		case "userDisplayName", "userAvatarUrl":
			if rapid.Bool().Draw(t, "none") {
				continue
			}
			v = text.Draw(t, name)
		case "title", "content":
			v = "x" + text.Draw(t, name) // only tombstones of earlier versions have none
		default:
			if slices.ContainsFunc(PostTexts, func(t PostText) bool { return t.Optional && t.Name == name }) &&
				rapid.Bool().Draw(t, "none") {
				continue
			}
			v = text.Draw(t, name)
		}
		encoded, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, fmt.Sprintf(`"%s":%s`, strings.TrimPrefix(field, "c."), encoded))
	}
	return members
}

// fault returns a page or an item with one fault.
func fault(t *rapid.T, page string) string {
	if page == "" {
		return page
	}
	tokens := []string{"null", "true", "false", "0", "-0", "-1", "01", "1.0", "1e2", "2147483648",
		"9223372036854775808", `""`, `"a"`, "{}", "[]", "[1]",
		`"\ud800"`, `"\ud834\udd1e"`, "\"\xff\"", "\"\n\"", `"2026-02-29T00:00:00.000Z"`, `"2024-02-29T24:00:00.000Z"`,
		`"2026-01-01T00:00:00,000Z"`, `"\u0061"`}
	members := []string{`,"id":"b"`, `,"userId":"b"`, `,"other":1`, ",", " ", `"`, `\`, "}", "]", "\x00", "\xc3"}
	at := rapid.IntRange(0, len(page)-1).Draw(t, "at")
	switch rapid.IntRange(0, 4).Draw(t, "fault") {
	case 0: // truncate
		return page[:at]
	case 1: // remove or repeat a part
		to := rapid.IntRange(at, min(len(page), at+40)).Draw(t, "to")
		if rapid.Bool().Draw(t, "twice") {
			return page[:to] + page[at:]
		}
		return page[:at] + page[to:]
	case 2: // replace a value
		if i := strings.IndexByte(page[at:], ':'); i >= 0 {
			at += i + 1
			if end := strings.IndexAny(page[at:], ",}"); end >= 0 {
				return page[:at] + rapid.SampledFrom(tokens).Draw(t, "token") + page[at+end:]
			}
		}
		return page
	case 3: // swap members
		members := strings.Split(page, ",")
		i, j := rapid.IntRange(0, len(members)-1).Draw(t, "i"), rapid.IntRange(0, len(members)-1).Draw(t, "j")
		members[i], members[j] = members[j], members[i]
		return strings.Join(members, ",")
	}
	return string(slices.Insert([]byte(page), at, []byte(rapid.SampledFrom(members).Draw(t, "insert"))...))
}

func TestValidDate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := []byte(NewDate(time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "at"), 0)))
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			s[rapid.IntRange(0, len(s)-1).Draw(t, "i")] = rapid.SampledFrom([]byte("0123459-:TZ. ")).Draw(t, "to")
		}
		at, err := time.Parse(DateLayout, string(s)) // also accepts "05.-00" and "05,000"
		if got, want := ValidDate(string(s)), err == nil && NewDate(at) == Date(s); got != want {
			t.Errorf("%s: got %v, want %v", s, got, want)
		}
	})
}

// A kept id does not keep its item in memory.
func TestFastPath_IDsDoNotKeepItems(t *testing.T) {
	const items, content = 100, 100_000
	ids := make([]string, 0, 3*items)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range items {
		raw := fmt.Appendf(nil,
			`{"id":"post %[1]d","type":"post","userId":"user %[1]d","userUsername":"name %[1]d","content":%[2]q}`, i,
			strings.Repeat("x", content))
		var n Change
		var p PostItem
		if !fastItem(raw, &n) || !fastItem(raw, &p) {
			t.Fatal("the fast path rejects the item")
		}
		ids = append(ids, n.ID, p.ID, p.UserID, p.Username)
	}
	if kept := int64(heap()) - int64(before); kept > items*content/2 {
		t.Errorf("%d ids keep %d bytes", len(ids), kept)
	}
	runtime.KeepAlive(ids)
}

// AnyItem ignores all properties but the envelope's.
func TestAnyItem(t *testing.T) {
	for raw, want := range map[string]string{
		`{"id":"u","type":"user","postId":["x"],"_ts":1.5}`: "user",
		`{"type":"user","userUsername":{},"type":"post"}`:   "post",
		`{"id":"u"}`: "",
		`{"type":1}`: "error",
	} {
		var e AnyItem
		err := Unmarshal([]byte(raw), &e, Lenient)
		if (err != nil) != (want == "error") || err == nil && e.Type != want {
			t.Errorf("%s: %q, %v", raw, e.Type, err)
		}
	}
}
