package console

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

func TestOneLine(t *testing.T) {
	response := &azcore.ResponseError{StatusCode: http.StatusServiceUnavailable, ErrorCode: "503"}
	full := errors.New("no space\tleft")
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("import post: %w", response), "import post: 503"},
		{errors.Join(fmt.Errorf("import post: %w", response), full), "import post: 503; no space left"},
		{errors.Join(full, errors.New("closed")), "no space left; closed"},
		{errors.Join(full, full), "no space left"},
		{errors.New("no token.\nAttempted:\n\tnone\n-----\n\nSee there"), "no token.; Attempted:; none; See there"},
	} {
		if got := oneLine(c.err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestNewLog_Formats(t *testing.T) {
	for format, want := range map[string]string{
		"":         `level=WARN msg="not read" path=feed[0] n=3 ru=2.5 took=1.5s error="one; two"`,
		jsonFormat: `"level":"WARN","msg":"not read","path":"feed[0]","n":3,"ru":2.5,"took":"1.5s","error":"one; two"}`,
	} {
		var log strings.Builder
		newLog(&log, LogFlags{LogFormat: format}).Warn("not read", "path", "feed[0]", "n", 3, "ru", 2.5, "took", 1500*time.Millisecond,
			"error", errors.New("one\ntwo"))
		if line := log.String(); !strings.HasSuffix(line, want+"\n") {
			t.Errorf("format %q: %s; want %s", format, line, want)
		}
	}
}

// TestNewLog_ErrorOnOneLine: azcore formats an error response as a page, which is one line in the log.
func TestNewLog_ErrorOnOneLine(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "https://account.example/dbs/blog", nil)
	response := runtime.NewResponseError(&http.Response{Status: "503 Unavailable",
		StatusCode: http.StatusServiceUnavailable, Request: request, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(`{"message":"later"}`))})
	var log strings.Builder
	newLog(&log, LogFlags{}).Warn("not read", "error", fmt.Errorf("read database: %w", response))
	want := `error="read database: GET https://account.example/dbs/blog; RESPONSE 503: 503 Unavailable; ERROR CODE UNAVAILABLE; {; \"message\": \"later\"; }"`
	if line := log.String(); !strings.Contains(line, want) {
		t.Errorf("%s is not in %s", want, line)
	}
}
