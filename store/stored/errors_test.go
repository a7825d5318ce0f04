package stored_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"byline/internal/faulttest"
	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/stored"
)

// newContainer returns a container, and a function that makes its requests fail with a response; they succeed again
// with the zero Response.
func newContainer(t *testing.T) (*cosmos.Container, func(faulttest.Response)) {
	t.Helper()
	cosmostest.NeedsEngine(t, "it injects faults")
	a := cosmostest.Open(t, emulator.Options{})
	a.CreateContainer(t, "users", "/userId")
	account, err := cosmos.Open(cosmos.Options{Endpoint: a.Endpoint, Key: a.Key, Transport: a.Transport})
	if err != nil {
		t.Fatal(err)
	}
	c, err := account.Container(a.Database, "users")
	if err != nil {
		t.Fatal(err)
	}
	return c, func(r faulttest.Response) {
		a.Inject(func(o faulttest.Operation) faulttest.Response {
			if o.Kind == faulttest.Metadata {
				return faulttest.Response{}
			}
			return r
		})
	}
}

// What a failed write says to its caller, and whether it may have taken effect.
func TestError_OfWrites(t *testing.T) {
	for name, tt := range map[string]struct {
		response  faulttest.Response
		code      blog.Code
		ambiguous bool
	}{
		"503":            {faulttest.Response{Status: 503}, blog.Unavailable, true},
		"500":            {faulttest.Response{Status: 500}, blog.Internal, true},
		"408":            {faulttest.Response{Status: 408}, blog.Unavailable, true},
		"409":            {faulttest.Response{Status: 409}, blog.Conflict, false},
		"412":            {faulttest.Response{Status: 412}, blog.Conflict, false},
		"400":            {faulttest.Response{Status: 400}, blog.Internal, false},
		"413":            {faulttest.Response{Status: 413}, blog.Internal, false},
		"partition full": {faulttest.Response{Status: 403, Substatus: 1014}, blog.LimitReached, false},
		"no container":   {faulttest.Response{Status: 404, Substatus: 1003}, blog.Unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, fail := newContainer(t)
			fail(tt.response)
			failed := c.Create(t.Context(), "a", []byte(`{"id":"a","userId":"a"}`))
			if failed == nil {
				t.Fatal("no error")
			}
			if got := stored.Ambiguous(t.Context(), failed); got != tt.ambiguous {
				t.Errorf("ambiguous: %t, want %t: %v", got, tt.ambiguous, failed)
			}
			err := stored.Error("create", failed)
			var e *blog.Error
			if !errors.As(err, &e) || e.Code != tt.code || e.Op != "create" || !errors.Is(err, failed) {
				t.Errorf("got %#v, want %s", err, tt.code)
			}
			if again := stored.Error("other", err); again != err {
				t.Errorf("converted again: %v", again)
			}
		})
	}
}

func TestError_Throttled(t *testing.T) {
	c, fail := newContainer(t)
	fail(faulttest.Response{Status: http.StatusTooManyRequests, Substatus: 3200, RetryAfter: 20 * time.Millisecond})
	_, err := stored.Read(cosmos.WithoutRetries(t.Context()), "read", c, stored.Key("a", "a"))
	var e *blog.Error
	if !errors.As(err, &e) || e.Code != blog.Throttled || e.RetryAfter != 20*time.Millisecond {
		t.Errorf("got %#v, want to wait for 20 ms", err)
	}
}

func TestError_Known(t *testing.T) {
	if stored.Error("op", nil) != nil {
		t.Error("nil is an error")
	}
	known := &blog.Error{Code: blog.NotFound}
	if wrapped := fmt.Errorf("more: %w", known); stored.Error("op", wrapped) != wrapped {
		t.Error("the blog's own error is changed")
	}
	for err, want := range map[error]blog.Code{
		context.Canceled: blog.Canceled, itemjson.ErrLater: blog.Conflict,
		errors.New("connection reset"): blog.Unavailable,
	} {
		if got := blog.CodeOf(stored.Error("op", err)); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestAmbiguous_Known(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	lost := errors.New("connection reset")
	for name, tt := range map[string]struct {
		ctx  context.Context
		err  error
		want bool
	}{
		"no error":                 {t.Context(), nil, false},
		"a lost connection":        {t.Context(), lost, true},
		"the caller is gone":       {ended, lost, false},
		"made from a response":     {t.Context(), &blog.Error{Code: blog.Conflict}, false},
		"converted":                {t.Context(), &blog.Error{Code: blog.Unavailable, Err: lost}, true},
		"of a later version":       {t.Context(), itemjson.ErrLater, false},
		"of a later version, told": {t.Context(), stored.Error("op", itemjson.ErrLater), false},
	} {
		if got := stored.Ambiguous(tt.ctx, tt.err); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
