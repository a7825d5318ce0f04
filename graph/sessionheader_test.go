package graph

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lostSession returns the session of a write that Cosmos DB has lost since.
func lostSession(t testing.TB, b *testBlog) string {
	t.Helper()
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		response, err := b.wire.engine.Do(r)
		if err == nil && r.Method == http.MethodPost {
			response.Header.Set("X-Ms-Session-Token", fmt.Sprintf("0:-1#%d", 1<<60))
		}
		return response, err
	})
	session := post(t, b, "demo:eve", `mutation { createUser(input: {username: "eve"}) { user { id } } }`,
		nil).header.Get(sessionHeader)
	b.wire.setFail(nil)
	if session == "" {
		t.Fatal("no session")
	}
	return session
}

// unknownUsers returns a query for n unknown usernames, each of which is a read.
func unknownUsers(n int) string {
	var q strings.Builder
	for i := range n {
		fmt.Fprintf(&q, " a%d: userByUsername(username: \"nobody%d\") { id }", i, i)
	}
	return "{" + q.String() + " }"
}

// A crafted session makes an operation neither more expensive nor slower. With a session that Cosmos DB has lost, all
// reads of the operation share one wait.
func TestSession_CostOf100Aliases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlog(t, Options{})
		lost := lostSession(t, b)
		// With the first read the instance drops the session token that it has seen itself.
		postInSession(t, b, "", "", unknownUsers(1))
		raw, err := base64.RawURLEncoding.DecodeString(lost)
		if err != nil {
			t.Fatal(err)
		}
		raw[bytes.LastIndex(raw, []byte{0x80, 0x80, 0x80, 0x80})]++ // another number
		const n = 100
		for name, edge := range handlers(t, b) {
			cost := func(session string) (requests int, ru float64, took time.Duration) {
				b.wire.reset()
				began := time.Now()
				if a := postInSession(t, edge, "", session, unknownUsers(n)); a.status != http.StatusOK ||
					len(a.Errors) > 0 {
					t.Errorf("%s: %d %.300s", name, a.status, a.body)
				}
				return len(b.wire.seen()), b.wire.charged(), time.Since(began)
			}
			requests, ru, took := cost("")
			for what, crafted := range map[string]string{"crafted": base64.RawURLEncoding.EncodeToString(raw),
				"malformed": "rubbish!", "cut": lost[:len(lost)-4]} {
				if r, u, d := cost(crafted); r != requests || u != ru || d != took {
					t.Errorf("%s, %s: %d requests, %g RU in %v, want %d, %g and %v", name, what, r, u, d, requests, ru,
						took)
				}
			}
			r, u, d := cost(lost)
			if r <= requests || r > 3*requests+15 || d > time.Second {
				t.Errorf("%s, lost: %d requests, %g RU in %v", name, r, u, d)
			}
			t.Logf("%s: %d requests, %.0f RU; lost: %d, %.0f in %v", name, requests, ru, r, u, d)
		}
	})
}
