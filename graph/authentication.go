package graph

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/graph/auth"
	"byline/graph/refusal"
)

// authentication finds the viewers of requests, and counts and logs the bearer tokens that it rejects.
type authentication struct {
	verifier auth.Verifier
	log      *slog.Logger
	lines    *logLimit[auth.Reason]
	rejected *prometheus.CounterVec
}

// rejectedLogInterval is how often a reason is logged: clients can cause any number of rejections.
const rejectedLogInterval = time.Minute

func newAuthentication(o Options, m metrics) authentication {
	return authentication{verifier: o.Verifier, log: o.Logger, lines: newLogLimit[auth.Reason](rejectedLogInterval), rejected: m.rejectedTokens}
}

// authenticate records the viewer of the bearer token in the headers. It is called before
// execution.
func (a authentication) authenticate(ctx context.Context, r *request, h http.Header) error {
	v, err := auth.Authenticate(ctx, h, a.verifier)
	if v != nil {
		r.signIn(*v)
	}
	var refused *refusal.Error
	if errors.As(err, &refused) {
		a.reject(ctx, refused.Err)
	}
	return err
}

// reject counts a rejected token, and logs it unless it has expired, as every token does.
func (a authentication) reject(ctx context.Context, cause error) {
	reason := auth.ReasonOf(cause)
	a.rejected.WithLabelValues(string(reason)).Inc()
	if reason == auth.Expired {
		return
	}
	suppressed, ok := a.lines.admit(reason)
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String(logReason, string(reason)), slog.String(logError, refusal.Truncate(cause.Error(), maxCause))}
	if id := requestFrom(ctx).id; id != "" { // a WebSocket has none before its operations
		attrs = append(attrs, slog.String(logRequestID, id))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int(logSuppressed, suppressed))
	}
	a.log.LogAttrs(ctx, slog.LevelInfo, "bearer token rejected", attrs...)
}
