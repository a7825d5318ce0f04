package cosmos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"byline/store/cosmos/session"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// Options.RetryBudget limits all reasons to wait.
func TestRetryBudget_Option(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, response := range map[string]func() *scripted{
		"throttled": func() *scripted {
			return &scripted{status: http.StatusTooManyRequests, header: map[string]string{"x-ms-retry-after-ms": "40"}}
		},
		"throttled in a batch": func() *scripted {
			return &scripted{status: http.StatusMultiStatus, body: `[{"statusCode":429,"retryAfterMilliseconds":40}]`}
		},
		"write conflict": func() *scripted { return &scripted{status: statusRetryWith} },
		"replica is behind": func() *scripted {
			return &scripted{status: http.StatusNotFound,
				header: map[string]string{substatusHeader: session.Substatus}}
		},
	} {
		for _, budget := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprintf("%s, %v", name, budget), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := response()
					o := options(cosmostest.Open(t, emulator.Options{}))
					s.Transporter, o.Transport, o.RetryBudget = o.Transport, s, budget
					account, err := Open(o)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(account.Close)
					posts, err := account.Container("blog", "posts")
					if err != nil {
						t.Fatal(err)
					}
					var b Batch
					b.Create([]byte(`{"id":"a"}`))
					account.sessions.known.Learn(session.TargetOf(posts.path, "", ""), nil, "0:-1#7", "")
					ctx, began := account.Begin(t.Context(), "likePost"), time.Now()
					if s.status == http.StatusNotFound {
						_, err = posts.Read(ctx, Key{"p", "a"})
					} else {
						_, err = posts.Batch(ctx, "p", &b)
					}
					took, least := time.Since(began), 25*time.Millisecond
					if strings.HasPrefix(name, "throttled") {
						least = budget / 2 // the others wait for less than a second, independent of the budget
					}
					if took > budget || took < least {
						t.Errorf("waited %v, want %v to %v: %v", took, least, budget, err)
					}
					t.Log(took)
				})
			})
		}
	}
}
