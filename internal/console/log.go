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

// LogFlags are the flags of a command that logs.
type LogFlags struct {
	LogFormat string `name:"log-format" enum:"text,json" default:"text" env:"BYLINE_LOG_FORMAT" help:"Format of the log: text (logfmt), or json."`
	LogLevel  string `name:"log-level" enum:"debug,info" default:"info" env:"BYLINE_LOG_LEVEL" help:"Least level of the lines in the log: info, or debug, which has the errors of clients, too."`
}

// The flags of LogFlags, and some of their values.
const (
	logFormatFlag = "log-format"
	logLevelFlag  = "log-level"
	jsonFormat    = "json"
	debugLevel    = "debug"
)

// newLog returns a logger that writes to w, with each error on one line: azcore formats an error response of
// Cosmos DB as a page.
func newLog(w io.Writer, flags LogFlags) *slog.Logger {
	level := slog.LevelInfo
	if flags.LogLevel == debugLevel {
		level = slog.LevelDebug
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "error" {
			a.Value = slog.StringValue(onOneLine(a.Value.String()))
		}
		if a.Value.Kind() == slog.KindDuration { // JSON would have nanoseconds
			a.Value = slog.StringValue(a.Value.String())
		}
		return a
	}}
	if flags.LogFormat == jsonFormat {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
