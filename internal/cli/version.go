package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version describes a build by its recorded build information, which may be nil. Built from a checkout with
// the tag v0.1.0, that is the version.
func version(info *debug.BuildInfo) string {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := cmp.Or(settings["vcs.revision"], "unknown")
	if settings["vcs.modified"] == "true" {
		revision += ", modified"
	}
	azcosmos := "unknown"
	for _, m := range info.Deps {
		if m.Path == "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos" {
			azcosmos = m.Version
		}
	}
	return fmt.Sprintf("byline %s\nrevision %s\n%s %s/%s\nazcosmos %s",
		cmp.Or(info.Main.Version, "(devel)"), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, azcosmos)
}
