package main

import (
	"archive/tar"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"byline/internal/servertest"
	"byline/internal/testkit"
)

// maxCompressed is the maximum compressed size of an image, in bytes.
const maxCompressed = 35 << 20

// built returns the images of the layout in $BYLINE_TEST_IMAGE, by architecture.
func built(t *testing.T) map[string]v1.Image {
	t.Helper()
	dir := os.Getenv("BYLINE_TEST_IMAGE")
	if dir == "" {
		t.Skip("needs an image: .ci/image")
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err == nil {
		err = validate.Index(top)
	}
	if err != nil {
		t.Fatal(err)
	}
	references, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.ImageIndex(references.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		if all[m.Platform.Architecture], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// unpack returns a folder with the files of an image, with their owners.
func unpack(t *testing.T, i v1.Image) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(i)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(file, h.FileInfo().Mode())
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(file, b, h.FileInfo().Mode())
			}
		}
		if err == nil {
			err = os.Lchown(file, h.Uid, h.Gid)
		}
		if err != nil {
			t.Fatal("needs root: ", err)
		}
	}
}

// TestBuiltImage_Static: each program is for its architecture and needs no library; its image is small and has
// labels with its origin.
func TestBuiltImage_Static(t *testing.T) {
	all := built(t)
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, i := range all {
		size, err := image{Image: i}.compressedSize()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MB compressed", arch, float64(size)/(1<<20))
		if size > maxCompressed {
			t.Errorf("%s: %d bytes compressed", arch, size)
		}
		file := filepath.Join(unpack(t, i), "byline")
		b, err := inspect(file)
		if err != nil {
			t.Fatal(err)
		}
		labels := config(t, i).Config.Labels
		for name, want := range map[string]string{"version": b.version, "revision": b.revision,
			"source": "https://example.com/byline"} {
			if got := labels["org.opencontainers.image."+name]; got != want || want == "" {
				t.Errorf("%s: label %s is %q, want %q", arch, name, got, want)
			}
		}
		f, err := elf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		libraries, err := f.ImportedLibraries()
		if err != nil || len(libraries) > 0 || f.Section(".interp") != nil || f.Section(".debug_info") != nil ||
			f.Machine != machines[arch] {
			t.Errorf("%s: %v, %v, libraries %v; dynamic or with debug information", arch, err, f.Machine, libraries)
		}
	}
}

// start runs the image by its configuration: with its user, in a read-only root that has only its files, with a volume
// at /data. It needs only Debian's util-linux and coreutils.
const start = `
set -e
root=$1 data=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$data" "$root/data"
exec chroot --userspec="$user" --groups= "$root" "$@"`

func TestBuiltImage_RunsReadOnly(t *testing.T) {
	i := built(t)[runtime.GOARCH]
	root, data := unpack(t, i), filepath.Join(t.TempDir(), "data")
	c := config(t, i).Config
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, user, user); err != nil {
		t.Fatal(err)
	}
	// The user must be able to reach the volume, which the test's folders keep from others.
	for dir := filepath.Dir(data); dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"--mount", "sh", "-c", start, "sh", root, data, c.User}, c.Entrypoint...)
	cmd := exec.Command("unshare", append(append(args, c.Cmd...), "--listen", "127.0.0.1:0")...)
	cmd.Env = append(c.Env, "TZ=Asia/Tokyo")
	p := servertest.Process{Instance: servertest.Instance{T: t, Log: &servertest.Output{}}, Cmd: cmd}
	cmd.Stderr = p.Log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	listening := regexp.MustCompile(`(?m)^time=\S+\+09:00 .*msg=listening .*address=(\S+)`) // the time zone is known
	testkit.Until(t, func() error {
		m := listening.FindStringSubmatch(p.Log.String())
		if m == nil {
			return fmt.Errorf("not listening: %s", p.Log)
		}
		p.Root = "http://" + m[1]
		return nil
	})

	proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	if err != nil || !regexp.MustCompile(`(?m)^Uid:(\s+65532){4}$`).Match(status) ||
		!regexp.MustCompile(`(?m)^CapEff:\s+0+$`).Match(status) {
		t.Errorf("%v: not without privileges: %s", err, status)
	}
	mounts, err := os.ReadFile(proc + "mountinfo")
	if err != nil || !regexp.MustCompile(`(?m)^\d+ \d+ \S+ \S+ / ro\b`).Match(mounts) {
		t.Errorf("%v: the root is not read-only: %s", err, mounts)
	}

	p.WaitReady()
	if id := servertest.At(t, p.Do("", "{ feed(first: 1) { edges { node { id } } } }", nil),
		"feed.edges.0.node.id"); id == "" {
		t.Error("no post in the feed")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(p.Log.String(), "msg=stopping") {
		t.Errorf("%v: %s", err, p.Log)
	}
}
