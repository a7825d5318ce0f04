package main

import (
	"fmt"
	"io"
	"log/slog"
)

// secret is text that must not be shown. It prints, logs and encodes as if it were
// redacted already.
type secret string

const redacted = "REDACTED"

// reveal returns the text, for whoever needs it to sign in.
func (s secret) reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s secret) String() string { return redacted }

// Format implements fmt.Formatter: what is left to fmt, it shows under a wrong verb.
func (s secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (s secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, and so is for JSON, too.
func (s secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
