package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the numeric user and group of the image: Kubernetes' runAsNonRoot takes no names.
const user = 65532

// image is the image of a binary.
type image struct {
	binary
	v1.Image
}

// newImage makes the image of a binary and, unless site is "", of the files of a front end in that folder, which is the
// same for the same files. Dockerfile makes the same files and configuration without a front end
// (TestDockerfile_SameImage), not the same digest.
func newImage(b binary, source, site string) (image, error) {
	files, err := layer(b.file, site)
	if err != nil {
		return image{}, err
	}
	created := v1.Time{Time: b.committed}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: files, History: v1.History{Created: created, CreatedBy: "go -C deploy/image run ."}})
	if err != nil {
		return image{}, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return image{}, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", b.arch, created
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%[1]d", user),
		WorkingDir: "/",
		Entrypoint: []string{"/byline"},
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"BYLINE_DATA=/data",
			"BYLINE_LISTEN=:8080", // other machines reach a container, not its loopback
		},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.version":  b.version,
			"org.opencontainers.image.revision": b.revision,
		},
	}
	if source != "" {
		config.Config.Labels["org.opencontainers.image.source"] = source
	}
	img, err = mutate.ConfigFile(img, config)
	return image{b, img}, err
}

// layer has the program, a directory for the data of the embedded engine, which the user may write and a volume
// inherits, and the files of a front end in site. They have no timestamps, so that the layer depends on the files
// alone.
func layer(program, site string) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := addFile(w, "byline", program, 0o755); err != nil {
		return nil, err
	}
	data := tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o755, Uid: user, Gid: user}
	if err := w.WriteHeader(&data); err != nil {
		return nil, err
	}
	if site != "" {
		if err := addSite(w, site); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

// addFile adds a file.
func addFile(w *tar.Writer, name, file string, mode int64) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// addSite adds the files of a front end, in the order of their names.
func addSite(w *tar.Writer, site string) error {
	if _, err := os.Stat(filepath.Join(site, "site.json")); err != nil {
		return fmt.Errorf("--site: %w", err)
	}
	site, err := filepath.EvalSymlinks(site) // WalkDir does not follow a link
	if err != nil {
		return err
	}
	return filepath.WalkDir(site, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(site, file)
		if err != nil {
			return err
		}
		name = path.Join("site", filepath.ToSlash(name))
		if e.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		}
		return addFile(w, name, file, 0o644)
	})
}

// compressedSize returns the download size, in bytes.
func (i image) compressedSize() (int64, error) {
	layers, err := i.Layers()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, l := range layers {
		size, err := l.Size()
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}

// writeLayout replaces dir by an OCI layout with an index of the images, whose reference is the version, and
// returns the index's digest.
func writeLayout(dir string, all []image) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range all {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: i.arch},
		}})
	}
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := path.AppendIndex(index,
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": all[0].version})); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// writeArchive writes an archive for docker load and podman load.
func writeArchive(file string, i image) error {
	tag, err := name.NewTag("byline:" + i.version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, i)
}
