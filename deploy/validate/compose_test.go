package validate

import (
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// TestCompose_Loads: Compose's own loader accepts the file.
func TestCompose_Loads(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../local/compose.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"emulator", "byline-1", "byline-2", "byline-3"} {
		s, err := project.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if !s.ReadOnly || s.NetworkMode != "host" || s.Image != "byline:0.1.0" {
			t.Errorf("%s: read-only %v, network %s, image %s", name, s.ReadOnly, s.NetworkMode, s.Image)
		}
	}
}
