package secret

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestText_Redacted(t *testing.T) {
	const text = "the key of an account"
	c := struct {
		Key  Text
		More map[string]any
	}{text, map[string]any{"key": Text(text)}}
	var log strings.Builder
	for _, l := range []*slog.Logger{slog.New(slog.NewTextHandler(&log, nil)),
		slog.New(slog.NewJSONHandler(&log, nil))} {
		l.Info("message", "key", c.Key, "config", c, "group", slog.GroupValue(slog.Any("key", c.Key)), "error",
			fmt.Errorf("bad key %v", c.Key))
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown := log.String() + string(encoded) + c.Key.String()
	for _, verb := range "vsqxXdTcbeU" {
		shown += fmt.Sprintf("%"+string(verb)+" %+"+string(verb)+" %#"+string(verb), c.Key, c, &c)
	}
	if strings.Contains(shown, text) || strings.Contains(shown, fmt.Sprintf("%x", text)) {
		t.Errorf("not redacted: %s", shown)
	}
	if c.Key.Reveal() != text {
		t.Errorf("Reveal: got %q, want %q", c.Key.Reveal(), text)
	}
}
