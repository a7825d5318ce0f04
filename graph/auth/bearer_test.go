package auth

import (
	"strings"
	"testing"
)

func TestDemoVerifier(t *testing.T) {
	for token, subject := range map[string]string{
		"demo:ada":                         "ada",
		"demo:Ada.L-1_x@example":           "Ada.L-1_x@example",
		"demo:" + strings.Repeat("a", 100): strings.Repeat("a", 100),
		"demo:" + strings.Repeat("a", 101): "",
		"demo:":                            "",
		"demo:a b":                         "",
		"demo:a:b":                         "",
		"demo:ä":                           "",
		"ada":                              "",
		"Demo:ada":                         "",
		"":                                 "",
		" demo:ada":                        "",
		"demo-moderator:ada":               "ada",
		"demo-moderator:":                  "",
		"demo-admin:ada":                   "",
		"demo-moderator":                   "",
	} {
		t.Run(token, func(t *testing.T) {
			v, err := DemoVerifier().Verify(t.Context(), token)
			if v.Subject != subject || (err == nil) != (subject != "") {
				t.Errorf("Verify = %+v, %v; want subject %q", v, err, subject)
			}
			if err == nil && v.Issuer != DemoIssuer {
				t.Errorf("issuer %q, want %q", v.Issuer, DemoIssuer)
			}
			if v.Moderator != (token == "demo-moderator:ada") {
				t.Errorf("moderator %t, want %t", v.Moderator, token == "demo-moderator:ada")
			}
		})
	}
}
