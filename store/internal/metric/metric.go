// Package metric registers Prometheus collectors that several values share, such as all accounts of a process.
package metric

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector, and returns it, or the one of the same type that is registered already. It
// fails, and returns c, if another collector has a metric of c.
func Register[C prometheus.Collector](r prometheus.Registerer, c C) (C, error) {
	err := r.Register(c)
	if registered := (prometheus.AlreadyRegisteredError{}); errors.As(err, &registered) {
		if have, ok := registered.ExistingCollector.(C); ok {
			return have, nil
		}
	}
	return c, err
}
