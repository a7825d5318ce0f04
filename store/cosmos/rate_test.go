package cosmos

import (
	"context"
	"sync"
	"testing"
	"time"

	"byline/store/internal/cosmostest"
	"byline/store/internal/sleep"
)

// Background requests with a rate, even of many callers, together stay within it. Urgent requests do not
// wait, but count towards it.
func TestRate_Holds(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for _, tt := range []struct {
		name        string
		ru          float64 // of the rate
		charge      string  // of a request
		workers     int
		urgent      float64 // RU per second of urgent requests
		least, most float64 // RU in a minute
	}{
		{name: "one worker", ru: 100, charge: "11.43", workers: 1, least: 5900, most: 6200},
		{name: "many workers", ru: 100, charge: "11.43", workers: 32, least: 5900, most: 6600},
		{name: "charge above the rate", ru: 100, charge: "1234.5", workers: 2, least: 5400, most: 8600},
		{name: "rate above the load", ru: 1e6, charge: "1", workers: 1, least: 11000, most: 13000},
		{name: "beside urgent requests", ru: 100, charge: "10", workers: 4, urgent: 50, least: 5900, most: 6300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				s := &scripted{status: 200, body: "{}", header: map[string]string{"x-ms-request-charge": tt.charge},
					before: func(int64) {
						<-time.After(5 * time.Millisecond)
					}}
				c, err := s.open(t).Background().Container("blog", "posts")
				if err != nil {
					t.Fatal(err)
				}
				var mu sync.Mutex
				charged := 0.0
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				ctx = NewRate(tt.ru).Limit(WithRecorder(ctx, func(_ context.Context, o *Operation) {
					mu.Lock()
					defer mu.Unlock()
					charged += o.RU
				}))
				var all sync.WaitGroup
				for range tt.workers {
					all.Go(func() {
						for ctx.Err() == nil {
							if _, err := c.Read(ctx, Key{"p", "id"}); err != nil && ctx.Err() == nil {
								t.Error(err)
							}
						}
					})
				}
				if tt.urgent > 0 {
					all.Go(func() {
						for ctx.Err() == nil {
							began := time.Now()
							for range 5 {
								_, _ = c.Read(WithoutRate(ctx), Key{"p", "id"})
							}
							if took := time.Since(began); took > 100*time.Millisecond {
								t.Errorf("urgent requests waited %v", took)
							}
							sleep.For(ctx, time.Second)
						}
					})
				}
				all.Wait()
				t.Logf("%.0f RU in a minute", charged)
				if charged < tt.least || charged > tt.most {
					t.Errorf("%.0f RU in a minute, want %.0f to %.0f", charged, tt.least, tt.most)
				}
			})
		})
	}
}
