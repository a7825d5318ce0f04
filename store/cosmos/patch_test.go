package cosmos

import (
	"encoding/json"
	"errors"
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
