package transport

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/graph/refusal"
)

func TestStatusOf(t *testing.T) {
	got := map[refusal.Code]int{}
	for _, c := range []refusal.Code{refusal.BadUserInput, refusal.Unauthenticated, refusal.Forbidden,
		refusal.Throttled, refusal.Unavailable, refusal.Internal, refusal.QueryTooExpensive, refusal.ParseFailed,
		refusal.ValidationFailed} {
		got[c] = statusOf(c)
	}
	want := map[refusal.Code]int{refusal.BadUserInput: 400, refusal.Unauthenticated: 401, refusal.Forbidden: 403,
		refusal.Throttled: 429, refusal.Unavailable: 503, refusal.Internal: 500,
		refusal.QueryTooExpensive: 400, refusal.ParseFailed: 400, refusal.ValidationFailed: 400}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
