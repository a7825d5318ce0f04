package cosmos

import (
	"encoding/json"
	"fmt"
	"testing"
)

func encodePatch(t *testing.T, p Patch) string {
	t.Helper()
	b, err := json.Marshal(p.operations())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A condition is escaped, which azcosmos leaves to its callers.
func TestPatch_Condition(t *testing.T) {
	p := Patch{Condition: `from c where c.a = "\"" `}
	p.Set("/n", 1)
	var sent struct{ Condition string }
	if err := json.Unmarshal([]byte(encodePatch(t, p)), &sent); err != nil || sent.Condition != p.Condition {
		t.Errorf("got condition %q, %v, want %q", sent.Condition, err, p.Condition)
	}
}

// A patch of eleven changes is two, of which the first has the condition.
func TestPatch_Split(t *testing.T) {
	p := Patch{Condition: "from c where true"}
	for i := range MaxPatch {
		p.Set(fmt.Sprint("/", i), i)
	}
	ten := encodePatch(t, p)
	if all := p.Split(); len(all) != 1 || encodePatch(t, all[0]) != ten {
		t.Errorf("%d patches of %d changes", len(all), MaxPatch)
	}
	p.Set("/last", json.RawMessage(`{"a":1}`))
	all := p.Split()
	if len(all) != 2 {
		t.Fatalf("%d patches", len(all))
	}
	if got := encodePatch(t, all[0]); got != ten {
		t.Errorf("the first is %s, want %s", got, ten)
	}
	if got, want := encodePatch(t, all[1]), `{"operations":[{"op":"set","path":"/last","value":{"a":1}}]}`; got != want {
		t.Errorf("the second is %s, want %s", got, want)
	}
}
