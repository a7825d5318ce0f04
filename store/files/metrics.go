package files

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/internal/metric"
)

// Values of the label of byline_uploads_total.
const (
	created   = "created"
	published = "published"
	refused   = "refused"
)

type metrics struct{ uploads, deleted *prometheus.CounterVec }

// newMetrics returns the metrics of a registry, and registers them if it has none.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	uploadsTotal, err1 := metric.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "byline_uploads_total",
		Help: "Uploads of pictures: requests created, uploads published, and uploads refused because of their bytes.",
	}, []string{"result"}))
	deletedTotal, err2 := metric.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "byline_files_deleted_total",
		Help: "Pictures that this instance has deleted, from the uploads or the files.",
	}, []string{"from"}))
	for _, result := range []string{created, published, refused} {
		uploadsTotal.WithLabelValues(result)
	}
	for _, p := range []place{uploads, public} {
		deletedTotal.WithLabelValues(string(p))
	}
	return &metrics{uploadsTotal, deletedTotal}, errors.Join(err1, err2)
}
