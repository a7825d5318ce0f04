package auth

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"byline/graph/refusal"
	"byline/store/blog"
)

// Viewer is an authenticated caller. The id of their user is blog.UserID(Issuer, Subject).
type Viewer struct {
	Issuer  string
	Subject string

	Moderator bool      // has the moderator role
	Expires   time.Time // when the token expires; zero: never
}

// Verifier verifies bearer tokens. An error with the code blog.Unavailable says that the
// provider cannot be reached; any other, that the token is invalid, with a reason if it is
// an InvalidToken. It is safe for concurrent use.
type Verifier interface {
	Verify(ctx context.Context, token string) (Viewer, error)
}

const (
	MaxToken     = 8 << 10     // bytes of a bearer token
	bearerOthers = "-._~+/=:@" // characters of bearer tokens beside letters and digits (RFC 6750, and demo tokens)
)

// Authenticate returns the viewer whose bearer token is in a request's headers, nil for an
// anonymous request, which may have the header without a value. A request with an invalid token is refused.
func Authenticate(ctx context.Context, h http.Header, verifier Verifier) (*Viewer, error) {
	values := h.Values("Authorization")
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return nil, nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ") // RFC 9110, section 11.6.2
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || !isToken(token, bearerOthers) || verifier == nil {
		return nil, &refusal.Error{Code: refusal.Unauthenticated, Reason: blog.ReasonInvalidToken,
			Message: "the Authorization header must have the form: Bearer <token>",
			Err:     invalid(Malformed, "not one header of the form Bearer <token>")}
	}
	if len(token) > MaxToken {
		return nil, &refusal.Error{Code: refusal.Unauthenticated, Reason: blog.ReasonTooLong,
			Message: fmt.Sprintf("the bearer token must have at most %d bytes", MaxToken),
			Err:     invalid(Malformed, "a token of more than %d bytes", MaxToken)}
	}
	viewer, err := verifier.Verify(ctx, token)
	switch code := blog.CodeOf(err); {
	case err == nil:
		return &viewer, nil
	case code == blog.Unavailable, code == blog.Canceled:
		return nil, err
	case ReasonOf(err) == Expired:
		return nil, &refusal.Error{Code: refusal.Unauthenticated, Reason: blog.ReasonExpiredToken,
			Message: "the bearer token has expired", Err: err}
	default:
		return nil, &refusal.Error{Code: refusal.Unauthenticated, Reason: blog.ReasonInvalidToken,
			Message: "the bearer token is not valid", Err: err}
	}
}

// DemoIssuer is the issuer of viewers with demo tokens.
const DemoIssuer = "demo"

// DemoUserID returns the id of the user whose token is "demo:" and the username.
func DemoUserID(username string) string { return blog.UserID(DemoIssuer, username) }

// DemoVerifier returns a verifier for development that checks no signature: the token
// "demo:ada" is the subject "ada" of DemoIssuer, and "demo-moderator:ada" is the same
// viewer as a moderator.
func DemoVerifier() Verifier { return demoVerifier{} }

type demoVerifier struct{}

const (
	maxDemoSubject = 100
	demoModerator  = DemoIssuer + "-moderator"
)

var errNotDemo = invalid(Malformed, "not a demo token")

func (demoVerifier) Verify(_ context.Context, token string) (Viewer, error) {
	prefix, subject, _ := strings.Cut(token, ":")
	if prefix != DemoIssuer && prefix != demoModerator || len(subject) > maxDemoSubject || !isToken(subject, "_.@-") {
		return Viewer{}, errNotDemo
	}
	return Viewer{Issuer: DemoIssuer, Subject: subject, Moderator: prefix == demoModerator}, nil
}

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// isToken reports whether s is not empty and consists of ASCII letters, digits and the
// characters in others.
func isToken(s, others string) bool {
	return s != "" && strings.Trim(s, alphanumeric+others) == ""
}
