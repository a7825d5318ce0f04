package console

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// oneLine returns the message of an error that ends the process.
func oneLine(err error) string {
	text := err.Error()
	var response *azcore.ResponseError
	if errors.As(err, &response) {
		// azcore prints a page: before it is the operation, after it are other errors.
		head, rest, _ := strings.Cut(text, response.Error())
		hint := ""
		switch response.StatusCode {
		case http.StatusUnauthorized:
			hint = " (is the key right?)"
		case http.StatusForbidden:
			hint = " (may this identity create databases and containers? if not, create them beforehand)"
		}
		text = head + strings.TrimSpace(response.ErrorCode) + hint + "\n" + rest
	}
	return onOneLine(text)
}

// onOneLine joins the distinct lines of a text, without the rulers of azcore.
func onOneLine(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		if strings.Trim(line, "-") != "" && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, "; ")
}

// newLog returns a logger that writes text to w, and each error on one line: azcore formats an error
// response of Cosmos DB as a page.
func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "error" {
			a.Value = slog.StringValue(onOneLine(a.Value.String()))
		}
		return a
	}}))
}
