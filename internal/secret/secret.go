// Package secret keeps keys out of logs, error messages and JSON.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Text is a secret text: it prints, logs and encodes as REDACTED.
type Text string

const redacted = "REDACTED"

// Reveal returns the text itself.
func (s Text) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s Text) String() string { return redacted }

// Format implements fmt.Formatter: fmt itself would print the text under a wrong verb.
func (s Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (s Text) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, which encoding/json uses, too.
func (s Text) MarshalText() ([]byte, error) { return []byte(redacted), nil }
