package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"
)

// KeysError is why the keys of an OpenID Connect provider could not be fetched.
type KeysError struct {
	URL   string // of the failed request
	Cause string // on one line, without addresses other than issuers
	Err   error  // may be nil
}

// Error returns the cause with the address, for the operator.
func (e *KeysError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.URL, e.Cause, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.URL, e.Cause)
}

// Unwrap returns Err.
func (e *KeysError) Unwrap() error { return e.Err }

// connectionCause returns why a request has no response, without the addresses that net/http names.
func connectionCause(err error) string {
	var (
		dns       *net.DNSError
		untrusted *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, errUnsafeRedirect):
		return errUnsafeRedirect.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no response in time"
	case errors.As(err, &dns):
		return "the host name does not resolve"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &untrusted):
		return "the certificate is not trusted"
	}
	return "the connection failed"
}

// Intervals of the log lines about an outage.
const (
	outageLogInterval   = 5 * time.Minute
	outageCauseInterval = 10 * time.Second // at least, if the cause changes
)

// outageLog logs when the provider's keys cannot be fetched, and when they can again.
type outageLog struct {
	log    *slog.Logger
	cause  string    // of the last line; "" if the keys could be fetched
	logged time.Time // when the last line about an outage was written
}

// observe logs the result of the latest fetch if it is news. known reports whether keys are cached.
func (l *outageLog) observe(known bool, err error) {
	if err == nil {
		if l.cause != "" {
			l.log.Info("identity provider's keys fetched again")
			l.cause = ""
		}
		return
	}
	cause, since := err.Error(), time.Since(l.logged)
	var e *KeysError
	if errors.As(err, &e) {
		cause = e.Cause // which is the same for all tries of an outage
	}
	if l.cause == "" || since >= outageLogInterval || cause != l.cause && since >= outageCauseInterval {
		message := "identity provider's keys cannot be fetched: tokens cannot be verified, and this instance is not " +
			"ready"
		if known {
			message = "identity provider's keys cannot be fetched: only tokens of known keys are accepted"
		}
		l.log.Warn(message, "error", err)
		l.cause, l.logged = cause, time.Now()
	}
}
