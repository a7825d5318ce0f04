package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// loadTLS loads the certificate and returns the configuration of TLS; nil for plain HTTP.
func (c listenFlags) loadTLS(log *slog.Logger) (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	k := &keyPair{cert: c.TLSCert, key: c.TLSKey, log: log}
	if _, err := k.current(nil); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: k.current}, nil
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
