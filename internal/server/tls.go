package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// loadTLS loads the certificate; nil for plain HTTP.
func (c listenFlags) loadTLS(log *slog.Logger) (*keyPair, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	k := &keyPair{cert: c.TLSCert, key: c.TLSKey, log: log}
	if _, err := k.current(nil); err != nil {
		return nil, err
	}
	return k, nil
}

// keyPair is a certificate and its key. Their files may be replaced at any time. It is safe for
// concurrent use.
type keyPair struct {
	cert, key string // files
	log       *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate // guarded by mu
	times  [2]time.Time     // guarded by mu; modification times of the files loaded last
}

// config returns the configuration of TLS; nil if k is nil.
func (k *keyPair) config() *tls.Config {
	if k == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: k.current}
}

// measure registers the metric of the certificate's expiry, of the files as they are when it is scraped.
func (k *keyPair) measure(r prometheus.Registerer) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "byline_certificate_expiry_timestamp_seconds",
		Help: "When the certificate of --tls-cert expires, in seconds since 1970."}, func() float64 {
		pair, err := k.current(nil)
		if err != nil {
			return 0 // not once it has been loaded
		}
		return float64(pair.Leaf.NotAfter.Unix())
	}))
}

// current implements tls.Config.GetCertificate. While the files do not match, since certificate and
// key are not replaced at the same moment, it returns the last pair that did.
func (k *keyPair) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	times, err := k.modTimes()
	if err == nil && k.loaded != nil && times == k.times {
		return k.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(k.cert, k.key); err == nil {
			if k.loaded != nil {
				k.log.Info("certificate renewed", logExpires, pair.Leaf.NotAfter)
			}
			k.loaded, k.times = &pair, times
			return k.loaded, nil
		}
	}
	if k.loaded == nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	if times != k.times {
		k.log.Warn("certificate not renewed", logError, err, logExpires, k.loaded.Leaf.NotAfter)
		k.times = times
	}
	return k.loaded, nil
}

// modTimes returns the modification times of the files.
func (k *keyPair) modTimes() (times [2]time.Time, err error) {
	for i, name := range []string{k.cert, k.key} {
		info, err := os.Stat(name)
		if err != nil {
			return [2]time.Time{}, err
		}
		times[i] = info.ModTime()
	}
	return times, nil
}
