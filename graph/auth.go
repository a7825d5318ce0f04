package graph

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"byline/store"
)

// Viewer is somebody whom an identity provider vouches for. The id of their user
// is store.UserID(Issuer, Subject).
type Viewer struct {
	Issuer  string
	Subject string

	Moderator bool      // the provider says that they moderate
	Expires   time.Time // how long this holds; zero: no end
}

// Verifier finds out who is behind a bearer token. An error whose store code is
// Unavailable says that it could not be found out; any other, that the token is
// no good. It is called by many requests at once.
type Verifier interface {
	Verify(ctx context.Context, token string) (Viewer, error)
}

const (
	maxToken       = 8 << 10     // bytes
	bearerOthers   = "-._~+/=:@" // what bearer tokens have beside letters and digits (RFC 6750, and demo tokens)
	messageExpired = "the bearer token has expired"
)

// authenticate signs the request in if it carries a token. Without one it stays
// anonymous; with one that is no good it is refused as a whole.
func authenticate(ctx context.Context, h http.Header, verifier Verifier) error {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken || !isToken(token, bearerOthers) || verifier == nil {
		return &refusal{code: unauthenticated, message: "the Authorization header must have the form: Bearer <token>"}
	}
	viewer, err := verifier.Verify(ctx, token)
	switch code := store.CodeOf(err); {
	case err == nil:
		requestFrom(ctx).signIn(viewer)
		return nil
	case code == store.Unavailable, code == store.Canceled:
		return err
	default:
		return &refusal{code: unauthenticated, message: "the bearer token is not valid", err: err}
	}
}

// DemoIssuer is the issuer of the viewers whom DemoVerifier vouches for.
const DemoIssuer = "demo"

// DemoUserID returns the id of the user who signs in with the token "demo:" and a username.
func DemoUserID(username string) string { return store.UserID(DemoIssuer, username) }

// DemoVerifier believes whatever it is told: the token "demo:ada" is the subject
// "ada" of DemoIssuer, and with "demo-moderator:ada" they moderate. It is for development
// on one machine.
func DemoVerifier() Verifier { return demoVerifier{} }

type demoVerifier struct{}

const (
	maxDemoSubject = 100
	demoModerator  = DemoIssuer + "-moderator"
)

var errNotDemo = errors.New("not a demo token")

func (demoVerifier) Verify(_ context.Context, token string) (Viewer, error) {
	who, subject, _ := strings.Cut(token, ":")
	if who != DemoIssuer && who != demoModerator || len(subject) > maxDemoSubject || !isToken(subject, "_.@-") {
		return Viewer{}, errNotDemo
	}
	return Viewer{Issuer: DemoIssuer, Subject: subject, Moderator: who == demoModerator}, nil
}
