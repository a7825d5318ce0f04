package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"byline/internal/testkit"
)

// TestSessions: a client reads its own writes on the same instance and, with the session of the response, on another
// one, although the replicas lag; without the session it does not. The transports are HTTP, event streams and
// WebSocket.
func TestSessions(t *testing.T) {
	t.Parallel()
	cosmos := startEmulator(t, "--replica-lag", "1h")
	one, two := start(t, cosmos...), start(t, cosmos...)

	viewer := func(i *instance, session string) string {
		t.Helper()
		return string(sendAsAda(t, i, "application/json", session, `{ viewer { username } }`).body)
	}
	const noViewer, ada, countess = `{"data":{"viewer":null}}`, `{"data":{"viewer":{"username":"ada"}}}`,
		`{"data":{"viewer":{"username":"countess"}}}`
	expect := func(what, got, want string) {
		t.Helper()
		if got = strings.TrimSpace(got); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}

	// untilAccepted repeats a mutation that an overloaded instance refuses.
	untilAccepted := func(mutation func() string) (response string) {
		t.Helper()
		eventually(t, func() error {
			if response = mutation(); strings.Contains(response, `"code":"UNAVAILABLE"`) {
				return errors.New(response)
			}
			return nil
		})
		if strings.Contains(response, `"errors"`) {
			t.Errorf("refused: %s", response)
		}
		return response
	}
	wrote := sendAsAda(t, one, "application/json", "",
		`mutation { createUser(input: {username: "ada"}) { user { id } } }`)
	first := wrote.header.Get("Byline-Session")
	if first == "" || len(first) > 200 {
		t.Fatalf("session %q of %s", first, wrote.body)
	}
	expect("on the same instance", viewer(one, ""), ada)
	expect("on another, without the session", viewer(two, ""), noViewer)
	read := sendAsAda(t, two, "application/json", first, `{ viewer { username } }`)
	expect("on another, with it", string(read.body), ada)
	if read.header.Get("Byline-Session") != "" {
		t.Error("a response that did not write has a session")
	}

	// An event stream cannot carry the session in a header; it is in the response.
	stream := untilAccepted(func() string {
		return string(sendAsAda(t, one, "text/event-stream", first,
			`mutation { updateUser(input: {username: "countess"}) { user { id } } }`).body)
	})
	second := sessionIn(t, strings.TrimPrefix(strings.Split(stream, "\n")[1], "data: "))
	expect("after an event stream", viewer(two, second), countess)

	// A third instance has no session yet.
	three := start(t, cosmos...)
	expect("WebSocket, without the session", overWebSocket(t, three, "", `{ viewer { username } }`), noViewer)
	expect("WebSocket, with it", overWebSocket(t, three, second, `{ viewer { username } }`), countess)
	third := sessionIn(t, untilAccepted(func() string {
		return overWebSocket(t, one, "", `mutation { updateUser(input: {username: "lovelace"}) { user { id } } }`)
	}))
	expect("after a WebSocket", viewer(two, third), `{"data":{"viewer":{"username":"lovelace"}}}`)

	const lovelace = `{"data":{"viewer":{"username":"lovelace"}}}` // which two has seen
	expect("invalid session", viewer(two, "rubbish!"), lovelace)
	expect("WebSocket, invalid session", overWebSocket(t, two, "rubbish!", `{ viewer { username } }`), lovelace)
	foreign := start(t, startEmulator(t, "--replica-lag", "1h")...)
	expect("with the session of another account", viewer(foreign, third), noViewer)
}

// TestSessions_Key: instances accept each other's sessions if they have the same BYLINE_SESSION_KEY.
func TestSessions_Key(t *testing.T) {
	cosmos := startEmulator(t, "--replica-lag", "1h")
	startWith := func(key string) *instance {
		t.Helper()
		t.Setenv("BYLINE_SESSION_KEY", testkit.Secret(key))
		return start(t, cosmos...)
	}
	one := startWith("0123456789abcdef0123456789abcdef")
	session := sendAsAda(t, one, "application/json", "",
		`mutation { createUser(input: {username: "ada"}) { user { id } } }`).header.Get("Byline-Session")
	for key, want := range map[string]string{"0123456789abcdef0123456789abcdef": `"ada"`,
		"fedcba9876543210fedcba9876543210": "null"} {
		if got := sendAsAda(t, startWith(key), "application/json", session,
			`{ viewer { username } }`); !strings.Contains(string(got.body), want) {
			t.Errorf("%s, want %s", got.body, want)
		}
	}
	t.Setenv("BYLINE_SESSION_KEY", testkit.Secret("0123456789abcdef0123456789abcde"))
	var log output
	if status := run(t.Context(), append([]string{"--listen", "localhost:0"}, cosmos...), io.Discard, &log,
		nil); status != 1 || !strings.Contains(log.String(), "BYLINE_SESSION_KEY has less than 32 characters") {
		t.Errorf("status %d: %s", status, log.String())
	}
}

// startEmulator runs `byline emulator` in this process and returns the flags to connect to it.
func startEmulator(t testing.TB, args ...string) []string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	listening, exit := make(chan net.Addr, 1), make(chan int, 1)
	log := &output{}
	go func() {
		exit <- run(ctx,
			append([]string{"emulator", "--listen", "127.0.0.1:0", "--http", "--data", t.TempDir(), "--sync=false"},
				args...), io.Discard, log,
			func(a net.Addr) { listening <- a })
	}()
	select {
	case a := <-listening:
		t.Cleanup(func() {
			stop()
			if status := <-exit; status != 0 {
				t.Errorf("exit status %d: %s", status, log)
			}
		})
		return []string{"--cosmos-endpoint", "http://" + a.String()}
	case status := <-exit:
		stop()
		t.Fatalf("exit status %d: %s", status, log)
	}
	return nil
}

// httpResponse is an HTTP response with its body.
type httpResponse struct {
	status int
	header http.Header
	body   []byte
}

// sendAsAda sends an operation as ada, with a session if there is one.
func sendAsAda(t testing.TB, i *instance, accept, session, query string) httpResponse {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, i.Root+"/graphql", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": accept,
		"Authorization": "Bearer demo:ada", "Byline-Session": session, "Byline-Cost": "none"} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return httpResponse{response.StatusCode, response.Header, b}
}

// sessionIn returns the session in the body of a response.
func sessionIn(t testing.TB, body string) string {
	t.Helper()
	var a struct{ Extensions struct{ Session string } }
	if err := json.Unmarshal([]byte(body), &a); err != nil || a.Extensions.Session == "" {
		t.Fatalf("no session in %s: %v", body, err)
	}
	return a.Extensions.Session
}

// overWebSocket executes an operation and returns the response, or the close status of the connection.
func overWebSocket(t testing.TB, i *instance, session, query string) string {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), i.Root+"/graphql",
		&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	hello := map[string]string{"Byline-Cost": "none", "authorization": "Bearer demo:ada"}
	if session != "" {
		hello["byline-session"] = session
	}
	for _, m := range []map[string]any{
		{"type": "connection_init", "payload": hello},
		{"type": "subscribe", "id": "1", "payload": map[string]string{"query": query}},
	} {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), websocket.MessageText, b); err != nil {
			t.Fatal(err)
		}
		_, b, err = c.Read(t.Context())
		if status := websocket.CloseStatus(err); status > 0 {
			return fmt.Sprint("status = ", status)
		} else if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Type    string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if got.Type == "next" || got.Type == "error" {
			return string(got.Payload)
		}
	}
	t.Fatal("no response")
	return ""
}
