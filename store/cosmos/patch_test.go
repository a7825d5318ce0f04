package cosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
)

// text is a named string type.
type text string

// TestPatch_MatchesAzcosmos: a patch is encoded as by azcosmos, except that its condition is escaped.
func TestPatch_MatchesAzcosmos(t *testing.T) {
	var p Patch
	var want azcosmos.PatchOperations
	for _, value := range []any{"", "a \"text\" \u2028 é <b> \\", text("2026-01-02T03:04:05.678Z"), 7, int32(-8),
		int64(9), true, false} {
		p.Set("/a b", value)
		want.AppendSet("/a b", value)
	}
	p.Increment("/n", -1)
	want.AppendIncrement("/n", -1)
	for _, condition := range []string{"", `from c where c.a = 'b'`} {
		if p.Condition = condition; condition != "" {
			want.SetCondition(condition)
		}
		var sent, azure any
		b, err := json.Marshal(want)
		if err := errors.Join(err, json.Unmarshal(b, &azure), json.Unmarshal(p.appendTo(nil), &sent)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(azure, sent); diff != "" {
			t.Error(diff)
		}
	}
	p.Condition = `from c where c.a = "\"" `
	var sent struct{ Condition string }
	if err := json.Unmarshal(p.appendTo(nil), &sent); err != nil || sent.Condition != p.Condition {
		t.Errorf("got condition %q, %v, want %q", sent.Condition, err, p.Condition)
	}
}

// A patch of eleven changes is two, of which the first has the condition.
func TestPatch_Split(t *testing.T) {
	p := Patch{Condition: "from c where true"}
	for i := range MaxPatch {
		p.Set(fmt.Sprint("/", i), i)
	}
	if all := p.Split(); len(all) != 1 || string(all[0].appendTo(nil)) != string(p.appendTo(nil)) {
		t.Errorf("%d patches of %d changes", len(all), MaxPatch)
	}
	p.SetJSON("/last", []byte(`{"a":1}`))
	all := p.Split()
	if len(all) != 2 || all[0].Changes() != MaxPatch || all[1].Changes() != 1 {
		t.Fatalf("%d patches", len(all))
	}
	if got, want := string(all[1].appendTo(nil)), `{"operations":[{"op":"set","path":"/last","value":{"a":1}}]}`; got != want {
		t.Errorf("the second is %s, want %s", got, want)
	}
	var first Patch
	first.Condition = p.Condition
	for i := range MaxPatch {
		first.Set(fmt.Sprint("/", i), i)
	}
	if got, want := string(all[0].appendTo(nil)), string(first.appendTo(nil)); got != want {
		t.Errorf("the first is %s, want %s", got, want)
	}
}
