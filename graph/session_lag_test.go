package graph

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"byline/graph/auth"
	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// A new user can create a post although replicas lag and, as in an account with several regions, session tokens have an
// LSN of -1 for regions that report none. On another instance this needs the token of the session.
func TestSession_CreatePostAfterCreateUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := emulator.Open("",
			emulator.Options{ReplicaLag: time.Hour, Logger: testkit.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engine.Close() })
		edge := func() http.Handler {
			w := &wire{engine: engine}
			w.setFail(func(r *http.Request) (*http.Response, error) {
				response, err := engine.Do(r)
				if err == nil {
					token := response.Header.Get("X-Ms-Session-Token")
					response.Header.Set("X-Ms-Session-Token", enginetest.RegionalToken(token))
				}
				return response, err
			})
			s, err := store.New(enginetest.Account(t, engine, cosmos.Options{Transport: w}), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Provision(t.Context()); err != nil {
				t.Fatal(err)
			}
			return newTestHandler(t, Options{Store: s, Verifier: auth.DemoVerifier()})
		}
		one := edge()
		const createUser, createPost = `mutation { createUser(input: {username: "ada"}) { user { username } } }`,
			`mutation { createPost(input: {title: "Note", content: "G"}) { post { author { username } } } }`
		signUp := post(t, one, "demo:ada", createUser, nil)
		session := signUp.header.Get(sessionHeader)
		if signUp.code() != "" || session == "" {
			t.Fatalf("%s, session %q", signUp.body, session)
		}
		for name, a := range map[string]testResponse{
			"on the same instance, without the session": post(t, one, "demo:ada", createPost, nil),
			"on another, with the session":              postInSession(t, edge(), "demo:ada", session, createPost),
			"on another, without the session":           post(t, edge(), "demo:ada", createPost, nil),
		} {
			if want := `{"createPost":{"post":{"author":{"username":"ada"}}}}`; string(a.Data) != want {
				t.Errorf("%s: %s", name, a.body)
			}
		}
		if a := post(t, edge(), "demo:ada", `{ viewer { username } }`, nil); string(a.Data) != `{"viewer":null}` {
			t.Errorf("on another, without the session: want no user, as the replica lags: %s", a.body)
		}
	})
}
