package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// imagesOf returns the images of programs with this content, for both architectures, in files of their own.
func imagesOf(t *testing.T, content string) []image {
	t.Helper()
	var all []image
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(t.TempDir(), "byline")
		if err := os.WriteFile(file, []byte(content+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		i, err := newImage(binary{file: file, arch: arch, version: "0.1.0", revision: "5f3",
			committed: time.Unix(1_700_000_000, 0).UTC()}, "https://example.com/byline", "")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	return all
}

// config returns the configuration of an image.
func config(t *testing.T, i v1.Image) *v1.ConfigFile {
	t.Helper()
	f, err := i.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// entries returns the headers of the files in an image, by name.
func entries(t *testing.T, i v1.Image) map[string]*tar.Header {
	t.Helper()
	all := map[string]*tar.Header{}
	layers, err := i.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all[h.Name] = h
		}
	}
	return all
}

// TestImage_Site: an image of a front end has its files, for everybody to read, and depends on nothing else of them.
func TestImage_Site(t *testing.T) {
	program, site := filepath.Join(t.TempDir(), "byline"), t.TempDir()
	digest := func() (image, string) {
		i, err := newImage(binary{file: program, arch: "amd64", committed: time.Unix(1_700_000_000, 0)}, "", site)
		if err != nil {
			t.Fatal(err)
		}
		d, err := i.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return i, d.String()
	}
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newImage(binary{file: program, arch: "amd64"}, "", site); err == nil || !strings.Contains(err.Error(), "site.json") {
		t.Errorf("a folder without site.json: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(site, "assets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"site.json", "index.html", "assets/app.js"} {
		if err := os.WriteFile(filepath.Join(site, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i, before := digest()
	for name, mode := range map[string]int64{"site/": 0o755, "site/site.json": 0o644, "site/index.html": 0o644, "site/assets/": 0o755,
		"site/assets/app.js": 0o644, "byline": 0o755} {
		if h := entries(t, i)[name]; h == nil || h.Mode != mode || !h.ModTime.IsZero() && h.ModTime.Unix() != 0 {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if err := os.Chtimes(filepath.Join(site, "index.html"), time.Now(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, after := digest(); after != before {
		t.Errorf("%s, and with another time of a file %s", before, after)
	}
}

// TestLayout_SameProgramSameDigest: neither the time nor the place of a build is in an image.
func TestLayout_SameProgramSameDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		digest := func(content string) string {
			time.Sleep(time.Hour)
			d, err := writeLayout(filepath.Join(t.TempDir(), "oci"), imagesOf(t, content))
			if err != nil {
				t.Fatal(err)
			}
			return d.String()
		}
		if first, second := digest("a program"), digest("a program"); first != second {
			t.Errorf("%s, then %s", first, second)
		}
		if digest("a program") == digest("another program") {
			t.Error("programs have the same digest")
		}
	})
}

// TestLayout_IsValid reads back what is written: one reference, the version, to an index of both platforms. A
// previous layout is replaced.
func TestLayout_IsValid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "oci")
	for _, content := range []string{"before", "a program"} {
		if _, err := writeLayout(dir, imagesOf(t, content)); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 ||
		top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "0.1.0" {
		t.Fatalf("%v, %v", err, top)
	}
	nested, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := nested.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms %v, want %v", platforms, want)
	}
	// Manifests, configurations, layers, and the index.
	if blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*")); err != nil || len(blobs) != 7 {
		t.Errorf("%v, %d blobs", err, len(blobs))
	}
}

func TestArchive_ContainsImage(t *testing.T) {
	for _, i := range imagesOf(t, "a program") {
		file := filepath.Join(t.TempDir(), "new", "byline.tar")
		if err := writeArchive(file, i); err != nil {
			t.Fatal(err)
		}
		loaded, err := tarball.ImageFromPath(file, nil)
		if err == nil {
			err = validate.Image(loaded)
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(config(t, i), config(t, loaded)); diff != "" {
			t.Error(diff)
		}
		index, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
		if err != nil || len(index) != 1 || !slices.Equal(index[0].RepoTags, []string{"byline:0.1.0"}) {
			t.Errorf("%v, %v", err, index)
		}
	}
}

// TestDockerfile_SameImage compares the instructions of Dockerfile with the image of this program.
func TestDockerfile_SameImage(t *testing.T) {
	b, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("build.go")
	if err != nil {
		t.Fatal(err)
	}
	_, final, _ := strings.Cut(string(b), "\nFROM scratch\n")
	instructions := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z]+) (.+)$`).FindAllStringSubmatch(final, -1) {
		instructions[m[1]] = append(instructions[m[1]], m[2])
	}
	i := imagesOf(t, "a program")[0]
	have := config(t, i).Config
	labels := slices.Sorted(maps.Keys(have.Labels))
	for n, l := range instructions["LABEL"] {
		instructions["LABEL"][n], _, _ = strings.Cut(l, "=")
	}
	slices.Sort(instructions["LABEL"])
	want := map[string][]string{
		"ARG":        {"VERSION REVISION SOURCE"},
		"ENV":        have.Env[1:], // Docker sets the same PATH
		"EXPOSE":     slices.Collect(maps.Keys(have.ExposedPorts)),
		"WORKDIR":    {have.WorkingDir},
		"USER":       {have.User},
		"ENTRYPOINT": {fmt.Sprintf("[%q]", have.Entrypoint[0])},
		"LABEL":      labels,
	}
	for name, h := range entries(t, i) {
		name = strings.TrimSuffix(name, "/")
		chown := ""
		if h.Uid != 0 {
			chown = fmt.Sprintf("--chown=%d:%d ", h.Uid, h.Gid)
		}
		want["COPY"] = append(want["COPY"], fmt.Sprintf("--from=build %s/image/%s /%[2]s", chown, name))
	}
	slices.Sort(want["COPY"])
	slices.Sort(instructions["COPY"])
	if diff := cmp.Diff(want, instructions); diff != "" {
		t.Error(diff)
	}
	for _, flag := range []string{"CGO_ENABLED=0", "-buildvcs=true", "-trimpath", "-s -w"} {
		if !strings.Contains(string(b), flag) || !strings.Contains(string(source), flag) {
			t.Errorf("%s is not in both", flag)
		}
	}
}

func TestInspect_ProgramWithoutRevision(t *testing.T) {
	if _, err := inspect(os.Args[0]); err == nil || !strings.Contains(err.Error(), "has no revision") {
		t.Errorf("got %v", err)
	}
}
