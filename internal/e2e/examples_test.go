package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
)

// prepared is what the page of the playground reads from its server.
type prepared struct {
	CDN      *struct{ URL string }
	Examples []struct{ Name, Query string }
}

func readPrepared(t testing.TB, root string) (p prepared) {
	t.Helper()
	r, err := http.Get(root + "/playground/prepared.json")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestExamples_PredictedCost: what the playground predicts for an example is an upper bound of what its first run on
// the demo blog charges, by a server that has cached nothing but the viewer.
func TestExamples_PredictedCost(t *testing.T) {
	testkit.Heavy(t)
	data := t.TempDir()
	s := start(t, "--data", data)
	s.WaitReady()
	n := len(readPrepared(t, s.Root).Examples)
	for i := range n {
		s.Stop()
		s = start(t, "--data", data)
		s.WaitReady()
		example := readPrepared(t, s.Root).Examples[i]
		if example.Name != "Sign up" { // the viewer has read something before, so that the author is cached
			s.Do("newcomer", "{ viewer { username } }", nil)
		}
		cost := firstCost(t, s, example.Query)
		for _, o := range cost.Operations {
			if o.Pattern == "userItems" { // charged for the report alone
				cost.ActualRU -= o.RU
			}
		}
		t.Logf("%s: %.2f RU predicted, %.2f charged", example.Name, cost.PredictedRU, cost.ActualRU)
		if cost.ActualRU == 0 && example.Name != "Live" || cost.ActualRU > cost.PredictedRU {
			t.Errorf("%s: %.2f RU predicted, %.2f charged", example.Name, cost.PredictedRU, cost.ActualRU)
		}
	}
}

type reportedCost struct {
	PredictedRU, ActualRU float64
	Operations            []struct {
		Pattern string
		RU      float64
	}
}

// firstCost executes an operation as newcomer, and returns the cost of the first response.
func firstCost(t *testing.T, s *instance, query string) reportedCost {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, "POST", s.Root+"/graphql", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "text/event-stream",
		"Authorization": "Bearer demo:newcomer", "Byline-Cost": "detail"} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if strings.Contains(query, "subscription") {
		var writes sync.WaitGroup
		defer writes.Wait()
		defer cancel()
		// the first event may be the second post: the response does not tell when the subscription begins
		writes.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.PostIn(ctx, "", "grace", createPost,
					map[string]any{"title": "Live", "content": "x"}); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		var out struct {
			Errors     []any
			Extensions struct{ Cost *reportedCost }
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); !ok || data == "" {
			continue
		} else if err := json.Unmarshal([]byte(data), &out); err != nil || out.Errors != nil ||
			out.Extensions.Cost == nil {
			t.Fatal(fmt.Sprint(err, data))
		}
		return *out.Extensions.Cost
	}
	t.Fatal("no response")
	return reportedCost{}
}
