package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unpack reads a tar archive.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.Name, "/link") && (h.Typeflag != tar.TypeSymlink || h.Linkname != "program") {
			t.Errorf("%s is no link to the program: %q", h.Name, h.Linkname)
		}
		if strings.HasSuffix(h.Name, "/program") && h.Mode != 0o755 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
	}
}

// TestImage follows both ways into an image, OCI's and docker's, to the file that was put into it.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	program, trust := filepath.Join(dir, "program"), filepath.Join(dir, "trust.pem")
	if err := errors.Join(os.WriteFile(program, []byte("binary"), 0o700),
		os.WriteFile(trust, []byte("pem"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(dir, "image.tar")
		cmd := command()
		cmd.SetArgs([]string{
			"--tag", "penstock:test", "--tag", "penstock:other", "--arch", "arm64", "--output", out, "--certificates", trust,
			"/usr/bin/program=" + program,
		})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("equal files make different images")
	}
	files := unpack(t, archives[0])
	for _, name := range []string{"test", "other"} {
		if !bytes.Contains(files["index.json"], []byte(`"io.containerd.image.name":"docker.io/library/penstock:`+name+`"`)) {
			t.Errorf("nodes do not find %s: %s", name, files["index.json"])
		}
	}
	for name, content := range files {
		if strings.HasPrefix(name, "blobs/") && name != blobPath(content) {
			t.Errorf("%s is %s", name, digest(content))
		}
	}
	var docker []struct {
		Config           string
		RepoTags, Layers []string
	}
	var index, manifest struct {
		Manifests, Layers []blob
		Config            blob
	}
	decode := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(files[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	at := func(b blob) string { return "blobs/" + strings.Replace(b.Digest, ":", "/", 1) }
	decode("manifest.json", &docker)
	decode("index.json", &index)
	decode(at(index.Manifests[0]), &manifest)
	if docker[0].Config != at(manifest.Config) || docker[0].Layers[0] != at(manifest.Layers[0]) ||
		!slices.Equal(docker[0].RepoTags, []string{"penstock:test", "penstock:other"}) {
		t.Errorf("docker and OCI disagree: %+v, %+v", docker, manifest)
	}
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(at(manifest.Config), &config)
	if config.Architecture != "arm64" || config.Config.User != nobody ||
		config.Config.Entrypoint[0] != "/usr/bin/program" || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Errorf("%+v", config)
	}
	layer := unpack(t, files[at(manifest.Layers[0])])
	if string(layer["usr/bin/program"]) != "binary" || string(layer["etc/ssl/certs/ca-certificates.crt"]) != "pem" {
		t.Errorf("the layer holds %q", layer)
	}
}

// TestNodesFindIt holds that an image has the name by which nodes look for it when a manifest says the short one.
func TestNodesFindIt(t *testing.T) {
	for tag, want := range map[string]string{
		"penstock:dev": "docker.io/library/penstock:dev", "team/penstock:1": "docker.io/team/penstock:1",
		"localhost/penstock:1": "localhost/penstock:1", "host:5000/penstock": "host:5000/penstock",
		"quay.io/a/b:c": "quay.io/a/b:c",
	} {
		if got := canonical(tag); got != want {
			t.Errorf("%s is %s, want %s", tag, got, want)
		}
	}
}

// TestDirectories holds that a directory comes with all that it holds, and that links stay links.
func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "image.tar")
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "tree", "a"), 0o700),
		os.WriteFile(filepath.Join(dir, "tree", "a", "program"), []byte("text"), 0o700),
		os.WriteFile(filepath.Join(dir, "trust.pem"), nil, 0o600), os.Symlink("program",
			filepath.Join(dir, "tree", "a", "link")))
	if err != nil {
		t.Fatal(err)
	}
	cmd := command()
	cmd.SetArgs([]string{"--output", out, "--certificates", filepath.Join(dir, "trust.pem"), "/usr=" +
		filepath.Join(dir, "tree")})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range unpack(t, archive) {
		if !strings.HasPrefix(name, "blobs/") || json.Valid(content) {
			continue
		}
		layer := unpack(t, content)
		if _, ok := layer["usr/a/link"]; !ok || string(layer["usr/a/program"]) != "text" ||
			!bytes.Contains(content, []byte("linkpath")) && !bytes.Contains(content, []byte("program")) {
			t.Errorf("the layer holds %q", layer)
		}
		return
	}
	t.Error("there is no layer")
}

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"relative=main.go"},
		{"/a/../b=main.go"},
		{"/nothing"},
		{"/a=/nowhere/at/all"},
	} {
		cmd := command()
		cmd.SetArgs(append(args, "--output", filepath.Join(t.TempDir(), "x.tar")))
		if err := cmd.Execute(); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
