package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersionFlag(t *testing.T) {
	var out bytes.Buffer
	if status := Run(t.Context(), []string{"--version"}, &out, io.Discard, "", nil); status != 0 {
		t.Errorf("exit status %d", status)
	}
	info, _ := debug.ReadBuildInfo()
	if want := version(info) + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}

func TestVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	azcosmos := regexp.MustCompile(`(?m)^\t(\S+/azcosmos) (\S+)$`).FindStringSubmatch(string(mod))
	if azcosmos == nil {
		t.Fatal("no azcosmos in go.mod")
	}
	platform := runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"release": {&debug.BuildInfo{
			Main:     debug.Module{Version: "v0.1.0"},
			Deps:     []*debug.Module{{Path: azcosmos[1], Version: azcosmos[2]}},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "5f3"}, {Key: "vcs.modified", Value: "false"}},
		}, "byline v0.1.0\nrevision 5f3\n" + platform + "\nazcosmos " + azcosmos[2]},
		"modified": {&debug.BuildInfo{
			Main:     debug.Module{Version: "v0.1.0+dirty"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "5f3"}, {Key: "vcs.modified", Value: "true"}},
		}, "byline v0.1.0+dirty\nrevision 5f3, modified\n" + platform + "\nazcosmos unknown"},
		"nothing recorded": {nil, "byline (devel)\nrevision unknown\n" + platform + "\nazcosmos unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := version(c.info); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
