package auth

import (
	"errors"
	"fmt"
	"strings"
)

// Reason says why a bearer token is invalid. The set is closed.
type Reason string

// The reasons.
const (
	Malformed     Reason = "malformed"   // not a signed JWT, or not in the form Bearer <token>
	UnknownKey    Reason = "unknownKey"  // the provider publishes no key with the token's key id and algorithm
	BadSignature  Reason = "signature"   // not by the key that the token names
	WrongIssuer   Reason = "issuer"      // iss is not OIDCOptions.Issuer
	WrongAudience Reason = "audience"    // aud does not have OIDCOptions.Audience
	Expired       Reason = "expired"     // as every token in the end
	NotYetValid   Reason = "notYetValid" // nbf is in the future
	BadClaims     Reason = "claims"      // a claim is missing, or has the wrong type
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{Malformed, UnknownKey, BadSignature, WrongIssuer, WrongAudience, Expired, NotYetValid, BadClaims}
}

// InvalidToken is the error of a token that a Verifier rejects. Its text has neither the token nor the subject.
type InvalidToken struct {
	Reason Reason
	Err    error
}

// Error returns the text of Err.
func (e *InvalidToken) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *InvalidToken) Unwrap() error { return e.Err }

func invalid(reason Reason, format string, args ...any) error {
	return &InvalidToken{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// ReasonOf returns the reason of the first InvalidToken in err's chain, Malformed for other errors.
func ReasonOf(err error) Reason {
	var e *InvalidToken
	if errors.As(err, &e) {
		return e.Reason
	}
	return Malformed
}

// invalidClaims adds the reason to an error of oidc.IDTokenVerifier other than those of its key set. They have no
// types. The texts quote claims at the end only.
func invalidClaims(err error) error {
	reason := BadClaims
	for prefix, r := range map[string]Reason{
		"oidc: malformed jwt":                           Malformed,
		"oidc: id token not signed":                     Malformed,
		"oidc: multiple signatures":                     Malformed,
		"oidc: id token issued by a different provider": WrongIssuer,
		"oidc: expected audience":                       WrongAudience,
	} {
		if strings.HasPrefix(err.Error(), prefix) {
			reason = r
		}
	}
	return &InvalidToken{Reason: reason, Err: err}
}
