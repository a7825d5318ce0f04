package index

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/store/emulator/internal/sql"
)

func TestParsePath(t *testing.T) {
	for text, want := range map[string]sql.Path{
		"/": nil, "/a": {"a"}, "/a/b": {"a", "b"}, `/"a b"`: {"a b"}, `/"a/b"/c`: {"a/b", "c"}, `/a/"b"`: {"a", "b"},
		"/a/?": {"a", "?"}, "/a/[]/b/*": {"a", "[]", "b", "*"}, "/ä": {"ä"},
	} {
		if got, err := ParsePath(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a", "a/b", "//", "/a//b", `/"a`, `/""`, `/a/"`} {
		if got, err := ParsePath(text); err == nil {
			t.Errorf("%q is the path %q", text, got)
		}
	}
}

func paths(all ...string) (paths []indexPath) {
	for _, path := range all {
		paths = append(paths, indexPath{Path: path})
	}
	return paths
}

// indexes parses a policy, completed as that of a client.
func indexes(t *testing.T, p Policy) Indexes {
	t.Helper()
	if err := p.Complete(); err != nil {
		t.Fatal(err)
	}
	x, err := New(&p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// The most specific path decides; system properties are not in the range index, and some sort under every policy.
func TestIndexes_Includes(t *testing.T) {
	for name, tt := range map[string]struct {
		included, excluded []string
		mode               string
		yes, no, sorts     []string // paths
	}{
		"default": {yes: []string{"/a", "/a/b", "/id"}, no: []string{"/_ts", "/_etag", "/a/0", "/"},
			sorts: []string{"/a", "/id", "/_ts"}},
		"only what is included": {included: []string{"/a/?", "/b/*"}, excluded: []string{"/*"},
			yes: []string{"/a", "/b", "/b/c/d"}, no: []string{"/a/b", "/c"}, sorts: []string{"/a", "/id", "/_ts"}},
		"all but what is excluded": {included: []string{"/*"}, excluded: []string{"/a/*", "/b/?"},
			yes: []string{"/c", "/b/c"}, no: []string{"/a", "/a/b", "/b"}, sorts: []string{"/c"}},
		"included within excluded": {included: []string{"/*", "/a/b/?"}, excluded: []string{"/a/*"},
			yes: []string{"/a/b", "/c"}, no: []string{"/a", "/a/c", "/a/b/c"}, sorts: []string{"/a/b"}},
		"excluded within included": {included: []string{"/a/*"}, excluded: []string{"/*", "/a/b/*"},
			yes: []string{"/a", "/a/c"}, no: []string{"/a/b", "/a/b/c", "/c"}, sorts: []string{"/a/c"}},
		"none": {mode: "none", no: []string{"/a", "/id"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := indexes(t, Policy{Mode: tt.mode, Included: paths(tt.included...), Excluded: paths(tt.excluded...)})
			check := func(what string, does func(sql.Path) bool, all []string, want bool) {
				for _, text := range all {
					path, err := ParsePath(text)
					if err != nil {
						t.Fatal(err)
					}
					if does(path) != want {
						t.Errorf("%s %s: %t, want %t", what, text, !want, want)
					}
				}
			}
			check("includes", x.Includes, tt.yes, true)
			check("includes", x.Includes, tt.no, false)
			check("sorts by", x.SortsBy, tt.sorts, true)
			if tt.mode == "none" {
				check("sorts by", x.SortsBy, []string{"/id", "/_ts", "/a"}, false)
			}
		})
	}
}

func TestPolicy_Complete(t *testing.T) {
	no := false
	columns := func(n int, order string) []compositePath { return slices.Repeat([]compositePath{{"/a", order}}, n) }
	for name, tt := range map[string]struct {
		policy Policy
		ok     bool
	}{
		"empty":                     {Policy{}, true},
		"modes in any case":         {Policy{Mode: "Consistent"}, true},
		"lazy":                      {Policy{Mode: "lazy"}, true},
		"unknown mode":              {Policy{Mode: "eager"}, false},
		"none, not automatic":       {Policy{Mode: "none", Automatic: &no}, true},
		"consistent, not automatic": {Policy{Automatic: &no}, false},
		"without the root":          {Policy{Included: paths("/a/?")}, false},
		"with the root excluded":    {Policy{Included: paths("/a/?"), Excluded: paths("/*")}, true},
		"as many paths as allowed":  {Policy{Included: slices.Repeat(paths("/*"), 1500)}, true},
		"too many paths":            {Policy{Included: slices.Repeat(paths("/*"), 1501)}, false},
		"one excluded too many":     {Policy{Excluded: slices.Repeat(paths("/*"), 1500)}, false}, // /_etag is added
		"one column":                {Policy{Composite: [][]compositePath{columns(1, "")}}, false},
		"two columns":               {Policy{Composite: [][]compositePath{columns(2, "Descending")}}, true},
		"eight columns":             {Policy{Composite: [][]compositePath{columns(8, "")}}, true},
		"nine columns":              {Policy{Composite: [][]compositePath{columns(9, "")}}, false},
		"an unknown order":          {Policy{Composite: [][]compositePath{columns(2, "up")}}, false},
		"as many composites":        {Policy{Composite: slices.Repeat([][]compositePath{columns(2, "")}, 100)}, true},
		"too many composites": {Policy{Composite: slices.Repeat([][]compositePath{columns(2, "")}, 101)},
			false},
		"none checks no other member": {Policy{Mode: "none", Composite: [][]compositePath{columns(1, "")}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tt.policy.Complete(); (err == nil) != tt.ok {
				t.Errorf("got %v, want allowed: %t", err, tt.ok)
			}
		})
	}
	var p Policy
	if err := p.Complete(); err != nil {
		t.Fatal(err)
	}
	yes := true
	want := Policy{Mode: "consistent", Automatic: &yes, Included: paths("/*"), Excluded: paths(`/"_etag"/?`)}
	if d := cmp.Diff(want, p); d != "" {
		t.Errorf("the default: -want +got\n%s", d)
	}
}

// ORDER BY is served by a composite index of exactly its columns, in its directions or all reversed.
func TestIndexes_HasComposite(t *testing.T) {
	x := indexes(t, Policy{Composite: [][]compositePath{{{"/a", ""}, {"/b", "descending"}}}})
	for order, want := range map[string]bool{
		"a,b-": true, "a-,b": true, "a,b": false, "a-,b-": false, "b-,a": false, "a": false, "a,b-,c": false,
		"a,c-": false,
	} {
		var orders []sql.Order
		for _, one := range strings.Split(order, ",") {
			name, desc := strings.CutSuffix(one, "-")
			orders = append(orders, sql.Order{Path: sql.Path{name}, Desc: desc})
		}
		if got := x.HasComposite(orders); got != want {
			t.Errorf("%s: %t, want %t", order, got, want)
		}
	}
}

func TestUniqueKeys(t *testing.T) {
	type key = struct {
		Paths []string `json:"paths"`
	}
	keys := func(all ...[]string) *UniqueKeys {
		u := &UniqueKeys{}
		for _, paths := range all {
			u.UniqueKeys = append(u.UniqueKeys, key{paths})
		}
		return u
	}
	for name, tt := range map[string]struct {
		keys *UniqueKeys
		ok   bool
	}{
		"none": {nil, true}, "empty": {keys(), true}, "one": {keys([]string{"/a", "/b"}), true},
		"ten":               {keys(slices.Repeat([][]string{{"/a"}}, 10)...), true},
		"eleven":            {keys(slices.Repeat([][]string{{"/a"}}, 11)...), false},
		"of sixteen paths":  {keys(slices.Repeat([]string{"/a"}, 16)), true},
		"of seventeen":      {keys(slices.Repeat([]string{"/a"}, 17)), false},
		"of no path":        {keys([]string{}), false},
		"of the whole item": {keys([]string{"/"}), false},
		"of no valid path":  {keys([]string{"a"}), false},
	} {
		if err := tt.keys.Check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want allowed: %t", name, err, tt.ok)
		}
	}
	a, b := keys([]string{"/a"}), keys([]string{"/b"})
	for name, same := range map[string]bool{
		"same": a.Same(keys([]string{"/a"})), "missing": (*UniqueKeys)(nil).Same(a),
		"empty beside none": keys().Same(nil),
	} {
		if !same {
			t.Errorf("%s: not the same", name)
		}
	}
	if a.Same(b) || a.Same(nil) {
		t.Error("another policy is the same")
	}
}

// A long value is cut and completed by its hash, so that it is found by equality, and a bound that is cut includes it.
func TestAppendRangeValue_Long(t *testing.T) {
	value := func(n int, end string) sql.Value {
		return sql.ValueOf([]byte(`"` + strings.Repeat("x", n) + end + `"`))
	}
	short := AppendRangeValue(nil, value(10, ""))
	if !slices.Equal(short, sql.AppendKey(nil, value(10, ""))) {
		t.Error("a short value is not kept whole")
	}
	a, b := AppendRangeValue(nil, value(1000, "a")), AppendRangeValue(nil, value(1000, "b"))
	if slices.Equal(a, b) || !slices.Equal(a, AppendRangeValue(nil, value(1000, "a"))) {
		t.Error("long values are not told apart, or not found again")
	}
	if len(a) != maxRangeValue+8 || !slices.Equal(a[:maxRangeValue], b[:maxRangeValue]) {
		t.Errorf("a long value takes %d bytes", len(a))
	}
	low, high := RangeBounds(nil, sql.Range{Low: value(1000, "a"), LowSet: true, High: value(1000, "b"), HighSet: true})
	for _, key := range [][]byte{a, b} {
		if slices.Compare(key, low) < 0 || slices.Compare(key, high) >= 0 {
			t.Error("a bound that is cut excludes a value with its prefix")
		}
	}
}
