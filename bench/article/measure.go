package article

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Measurement is the charge and latency of a request on one model with one data set.
type Measurement struct {
	// RU is the mean charge of the operations that the article counts, in request units.
	RU float64 `json:"ru"`
	// BesideRU is the mean charge of the other operations: in the article
	// names are not unique, and views are written later.
	BesideRU float64 `json:"besideRU"`
	// P50 and P99 are latencies, in milliseconds, of everything the request does.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// subject is a loaded model, and the requests to send it.
type subject struct {
	model
	work *workload // of as many requests as there are runs, warm-ups included
	name string    // for errors
}

// measure runs each request on all subjects alternately, so that other load on the machine affects all of them:
// first the warm-ups, which are not counted, then the runs. It calls progress after each run of all requests on
// all subjects, and returns the measurements by request and subject.
func measure(
	ctx context.Context, requests []request, subjects []subject, warmUps, runs int, progress func(),
) ([][]Measurement, error) {
	measured, took := make([][]Measurement, len(requests)), make([][][]time.Duration, len(requests))
	for at := range requests {
		measured[at], took[at] = make([]Measurement, len(subjects)), make([][]time.Duration, len(subjects))
	}
	runtime.GC() // garbage of earlier measurements
	for i := range warmUps + runs {
		for at, r := range requests {
			for offset := range subjects {
				n := (offset + i) % len(subjects) // the first one alternates
				rctx, charges := withCharges(ctx)
				began := time.Now()
				err := subjects[n].work.run(rctx, r.id, subjects[n].model, i)
				d := time.Since(began)
				if err != nil {
					return nil, fmt.Errorf("%s of %s: %w", r.id, subjects[n].name, err)
				}
				if i >= warmUps {
					ru, other := charges.split(r.id)
					measured[at][n].RU += ru / float64(runs)
					measured[at][n].BesideRU += other / float64(runs)
					took[at][n] = append(took[at][n], d)
				}
			}
		}
		progress()
	}
	for at := range requests {
		for n := range subjects {
			measured[at][n].P50, measured[at][n].P99 = percentile(took[at][n], 50), percentile(took[at][n], 99)
		}
	}
	return measured, nil
}

// percentile returns the p-th percentile (nearest rank), in milliseconds.
func percentile(took []time.Duration, p int) float64 {
	slices.Sort(took)
	return float64(took[(len(took)*p+99)/100-1]) / float64(time.Millisecond)
}
