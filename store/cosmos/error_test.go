package cosmos

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

func TestErrorOf_RetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"":      0,
		"0":     0,
		"1500":  1500 * time.Millisecond,
		"0.5":   500 * time.Microsecond,
		"-1":    0,
		"-9000": 0,
		"soon":  0,
	} {
		resp := &http.Response{StatusCode: http.StatusTooManyRequests,
			Header: http.Header{"X-Ms-Retry-After-Ms": {header}}}
		e := ErrorOf(&azcore.ResponseError{StatusCode: resp.StatusCode, RawResponse: resp})
		if e.RetryAfter != want {
			t.Errorf("x-ms-retry-after-ms %q: got %v, want %v", header, e.RetryAfter, want)
		}
	}
}

func TestInvalidContinuation(t *testing.T) {
	for _, tt := range []struct {
		status    int
		substatus string
		want      bool
	}{
		{http.StatusBadRequest, "", true},
		{http.StatusGone, "1002", true},
		{http.StatusGone, "1007", false}, // the split is under way
		{http.StatusNotFound, "1002", false},
		{http.StatusTooManyRequests, "", false},
	} {
		if got := (&Error{Status: tt.status, Substatus: tt.substatus}).InvalidContinuation(); got != tt.want {
			t.Errorf("status %d, substatus %q: got %t, want %t", tt.status, tt.substatus, got, tt.want)
		}
	}
	if ErrorOf(nil).InvalidContinuation() || ErrorOf(io.EOF).InvalidContinuation() {
		t.Error("an error without a response is an invalid continuation")
	}
}
