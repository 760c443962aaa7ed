package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
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
		if strings.HasSuffix(h.Name, "usr/bin/program") && h.Mode != 0o755 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
	}
}

// TestImage follows both ways into an image, OCI's and docker's, to the file that was put into it.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	program, trust := filepath.Join(dir, "program"), filepath.Join(dir, "trust.pem")
	if err := errors.Join(os.WriteFile(program, []byte("binary"), 0o700), os.WriteFile(trust, []byte("pem"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(dir, "image.tar")
		cmd := command()
		cmd.SetArgs([]string{"--tag", "penstock:test", "--arch", "arm64", "--output", out, "--certificates", trust, "/usr/bin/program=" + program})
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
	if docker[0].Config != at(manifest.Config) || docker[0].Layers[0] != at(manifest.Layers[0]) || docker[0].RepoTags[0] != "penstock:test" {
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
	if config.Architecture != "arm64" || config.Config.User != nobody || config.Config.Entrypoint[0] != "/usr/bin/program" || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Errorf("%+v", config)
	}
	layer := unpack(t, files[at(manifest.Layers[0])])
	if string(layer["usr/bin/program"]) != "binary" || string(layer["etc/ssl/certs/ca-certificates.crt"]) != "pem" {
		t.Errorf("the layer holds %q", layer)
	}
}

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{{}, {"relative=main.go"}, {"/a/../b=main.go"}, {"/nothing"}, {"/a=/nowhere/at/all"}} {
		cmd := command()
		cmd.SetArgs(append(args, "--output", filepath.Join(t.TempDir(), "x.tar")))
		if err := cmd.Execute(); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
