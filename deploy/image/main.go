// Image writes a container image without a container engine: files over nothing else (FROM scratch), as
// deploy/Dockerfile makes it where there is an engine. python.sh makes the files of one with Python. The output is a
// tar archive in the layout of OCI with the manifest of `docker save` besides, so that docker load, podman load, ctr
// images import and kind load image-archive all take it. Equal files make equal images.
//
//	go run ./deploy/image --tag penstock:dev --output penstock.tar /usr/bin/penstock=./penstock
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// nobody runs the image's process: a user that no host has.
const nobody = "65532:65532"

// authorities is where Go looks for the certificates that the world trusts.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// image is what is made.
type image struct {
	output, arch, certificates string
	tags, entrypoint           []string
}

func command() *cobra.Command {
	m := &image{}
	cmd := &cobra.Command{
		Use: "image PATH=FILE...",
		Long: "Write a container image of static binaries and other files. A FILE may be a directory, with " +
			"all that it holds.",
		Short:         "Write a container image of static binaries and other files",
		Args:          cobra.MinimumNArgs(1),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(_ *cobra.Command, args []string) error { return m.write(args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&m.tags, "tag", []string{"penstock:dev"}, "names of the image")
	flags.StringVar(&m.output, "output", "penstock.tar", "archive to write")
	flags.StringVar(&m.arch, "arch", runtime.GOARCH, "architecture of the binaries")
	flags.StringVar(&m.certificates, "certificates", authorities, "PEM file with the authorities that the image trusts")
	flags.StringSliceVar(&m.entrypoint, "entrypoint", nil, "command (default: the first PATH)")
	return cmd
}

func (m *image) write(args []string) error {
	layer, first, err := m.layer(args)
	if err != nil {
		return err
	}
	if len(m.entrypoint) == 0 {
		m.entrypoint = []string{first}
	}
	config, err := json.Marshal(map[string]any{
		"architecture": m.arch, "os": "linux",
		"config": map[string]any{
			"Entrypoint": m.entrypoint, "User": nobody,
			"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "WorkingDir": "/",
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(m.output), 0o755); err != nil {
		return err
	}
	out, err := os.Create(m.output)
	if err != nil {
		return err
	}
	if err := errors.Join(m.archive(out, layer, config), out.Close()); err != nil {
		return err
	}
	fmt.Println(m.output, strings.Join(m.tags, ","), digest(config))
	return nil
}

// layer holds the files, the authorities and an empty /tmp.
func (m *image) layer(args []string) (layer []byte, first string, err error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{"/": true}
	for _, arg := range slices.Concat(args, []string{authorities + "=" + m.certificates}) {
		to, from, ok := strings.Cut(arg, "=")
		if !ok || !path.IsAbs(to) || to != path.Clean(to) {
			return nil, "", fmt.Errorf("%q: want PATH=FILE, where PATH is absolute", arg)
		}
		if first == "" {
			first = to
		}
		if err := add(w, to, from, made); err != nil {
			return nil, "", err
		}
	}
	if err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777,
		Format: tar.FormatPAX,
	}); err != nil {
		return nil, "", err
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return buf.Bytes(), first, nil
}

// add puts a file, or a directory with all that it holds, at a path of the image.
func add(w *tar.Writer, to, from string, made map[string]bool) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := directories(w, path.Dir(to), made); err != nil {
		return err
	}
	if info.IsDir() {
		return tree(w, to, from, made)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return file(w, to, mode(info), content)
}

// tree adds a directory. Links stay links.
func tree(w *tar.Writer, to, from string, made map[string]bool) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing was written
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := path.Join(to, name)
		switch {
		case entry.IsDir():
			return directories(w, at, made)
		case entry.Type() == fs.ModeSymlink:
			target, err := root.Readlink(name)
			if err != nil {
				return err
			}
			return w.WriteHeader(&tar.Header{
				Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(at, "/"),
				Linkname: target, Mode: 0o777, Format: tar.FormatPAX,
			})
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		return file(w, at, mode(info), content)
	})
}

// mode is that of a file that all may read.
func mode(info fs.FileInfo) int64 {
	if info.Mode()&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// directories adds a directory and those above it, once.
func directories(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := directories(w, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755,
		Format: tar.FormatPAX,
	})
}

func file(w *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: mode,
		Size: int64(len(content)), Format: tar.FormatPAX,
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, bytes.NewReader(content))
	return err
}

// blob is how a manifest names a part.
type blob struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const oci = "application/vnd.oci.image."

// archive writes the image.
func (m *image) archive(out io.Writer, layer, config []byte) error {
	parts := map[string][]byte{}
	add := func(kind string, content []byte) blob {
		parts[blobPath(content)] = content
		return blob{MediaType: oci + kind, Digest: digest(content), Size: len(content)}
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": oci + "manifest.v1+json",
		"config": add("config.v1+json", config), "layers": []blob{add("layer.v1.tar", layer)},
	})
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	entry := add("manifest.v1+json", manifest)
	entry.Platform = map[string]string{"architecture": m.arch, "os": "linux"}
	named := make([]blob, len(m.tags))
	for i, tag := range m.tags {
		named[i] = entry
		named[i].Annotations = map[string]string{
			"io.containerd.image.name": canonical(tag), "org.opencontainers.image.ref.name": tag,
		}
	}
	for name, v := range map[string]any{
		"oci-layout": map[string]string{"imageLayoutVersion": "1.0.0"},
		"index.json": map[string]any{"schemaVersion": 2, "manifests": named},
		"manifest.json": []any{map[string]any{
			"Config": blobPath(config), "RepoTags": m.tags,
			"Layers": []string{blobPath(layer)},
		}},
	} {
		if parts[name], err = json.Marshal(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	w := tar.NewWriter(out)
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := file(w, name, 0o644, parts[name]); err != nil {
			return err
		}
	}
	return w.Close()
}

// canonical is the whole name of an image, which nodes look for when a pod asks for the short one.
func canonical(tag string) string {
	host, _, found := strings.Cut(tag, "/")
	switch {
	case !found:
		return "docker.io/library/" + tag
	case host == "localhost" || strings.ContainsAny(host, ".:"):
		return tag
	}
	return "docker.io/" + tag
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blobPath(b []byte) string { return "blobs/" + strings.Replace(digest(b), ":", "/", 1) }
