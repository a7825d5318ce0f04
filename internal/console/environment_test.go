package console

import (
	"strings"
	"testing"
)

func TestProgram_UnknownVariables(t *testing.T) {
	for name, tt := range map[string]struct {
		environment string // names
		args        string
		want        string // the attribute; "" for no warning
	}{
		"one letter less": {"BYLINE_WAI", "", `"BYLINE_WAI (did you mean BYLINE_WAIT?)"`},
		"two letters swapped": {"BYLINE_LOG_FORAMT", "",
			`"BYLINE_LOG_FORAMT (did you mean BYLINE_LOG_FORMAT?)"`},
		"a prefix too much": {"BYLINE_COSMOS_KEY", "",
			`"BYLINE_COSMOS_KEY (did you mean COSMOS_KEY?)"`},
		"close to none": {"BYLINE_WEIGHT", "", `BYLINE_WEIGHT`},
		"several": {"BYLINE_WEIGHT BYLINE_WAI BYLINE_", "",
			`"BYLINE_, BYLINE_WAI (did you mean BYLINE_WAIT?), BYLINE_WEIGHT"`},
		"known and of others": {"BYLINE_WAIT COSMOS_KEY COSMOS_KEYS BYLINES_WAI", "", ""},
		"of tests":            {"BYLINE_TEST_WAI", "", ""},
		"of a Service byline in Kubernetes": {"BYLINE_SERVICE_HOST BYLINE_SERVICE_PORT BYLINE_SERVICE_PORT_HTTP " +
			"BYLINE_PORT BYLINE_PORT_80_TCP BYLINE_PORT_80_TCP_ADDR", "", ""},
		"of a Service byline-new": {"BYLINE_NEW_SERVICE_HOST BYLINE_NEW_SERVICE_PORT BYLINE_NEW_PORT " +
			"BYLINE_NEW_PORT_80_TCP BYLINE_NEW_WAIT", "", `BYLINE_NEW_WAIT`},
		"like those of Kubernetes, no Service": {"BYLINE_PORT", "", `BYLINE_PORT`},
		"a command that does not log":          {"BYLINE_WAI", "silent", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range strings.Fields(tt.environment) {
				t.Setenv(name, "5s")
			}
			want := ""
			if tt.want != "" {
				want = `level=WARN msg="unknown environment variables" variables=` + tt.want + "\n"
			}
			if tt.args == "" {
				want += "level=INFO msg=done n=3\n"
			}
			if got := runLogging(t, strings.Fields(tt.args)...); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}
