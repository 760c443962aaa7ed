package storage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/az"
	"github.com/penstock-ml/penstock/internal/storage/hf"
	"github.com/penstock-ml/penstock/internal/storage/https"
	"github.com/penstock-ml/penstock/internal/storage/s3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T) *storage.Store {
	t.Helper()
	s, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func put(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A folder without Parquet says what to do about tables of text.
func TestFolderOfTexts(t *testing.T) {
	st := newStore(t)
	for name, converts := range map[string]bool{"a.txt": true, "A.TXT.gz": true, "b.orc": false} {
		dir := t.TempDir()
		put(t, dir, name, nil)
		_, err := st.List(t.Context(), "", []string{dir})
		if err == nil || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "`penstock convert`") != converts {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCredentialsInAURI: they are refused, and not repeated where logs would keep them.
func TestCredentialsInAURI(t *testing.T) {
	st := newStore(t)
	for _, uri := range []string{
		"s3://AKIA7:hunter2@bucket/data/", "s3://hunter2@bucket/*.parquet",
		"https://me:hunter2@host/data", "abfss://me:hunter2@account1.dfs.core.windows.net/data",
		"az://container/data?sv=1&sig=hunter2", "https://host/data?sig=hunter2",
	} {
		_, err := st.List(t.Context(), "", []string{uri})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "storage profile") ||
			!errors.Is(err, storage.ErrSecret) { // who adds the URI asks for that
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// TestWhoseFault: only what another process might read is this one's own fault.
func TestWhoseFault(t *testing.T) {
	st, dir := newStore(t), t.TempDir()
	put(t, dir, "part", []byte("rows"))
	f := &pb.File{Uri: "file://" + dir + "/part", Size: 4}
	gone := &pb.File{Uri: "file://" + dir + "/gone", Size: 4}
	for _, c := range []struct {
		profile string
		file    *pb.File
		ours    bool
	}{{"elsewhere", f, true}, {"", f, false}, {"", gone, false}} {
		if err := st.ReadAt(t.Context(), c.profile, c.file, make([]byte, 4), 0); err == nil ||
			storage.IsOurs(err) != c.ours {
			t.Errorf("profile %q, %s: %v; ours is %v", c.profile, c.file.GetUri(), err, storage.IsOurs(err))
		}
	}
}

// TestBracesOfOneFile: a file is read once, however many of the names that braces stand for are its own.
func TestBracesOfOneFile(t *testing.T) {
	st, dir := newStore(t), t.TempDir()
	put(t, dir, "d/x.csv", []byte("a\n1\n"))
	put(t, dir, "d/sub/x.csv", []byte("a\n2\n"))
	for uris, want := range map[string]string{
		"d/{,sub}/": "d/sub/x.csv d/x.csv", "d/{,sub}/*": "d/sub/x.csv d/x.csv",
		"d/{,sub}/x.csv d/x.csv": "d/sub/x.csv d/x.csv",
		"d/{sub,sub/}/x.csv":     "d/sub/x.csv", "d/{x,x,x,x,x}.csv": "d/x.csv", "{d,d}/x.csv": "d/x.csv",
	} {
		var all, got []string
		for uri := range strings.FieldsSeq(uris) {
			all = append(all, "file://"+dir+"/"+uri)
		}
		files, err := st.List(t.Context(), "", all)
		if err != nil {
			t.Errorf("%s: %v", uris, err)
		}
		for _, f := range files {
			got = append(got, strings.TrimPrefix(f.GetUri(), "file://"+dir+"/"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", uris, got, want)
		}
	}
	if uri := "file://" + dir + "/d/{,sub}/*"; !storage.Finds(uri, "file://"+dir+"/d/x.csv") {
		t.Error("a file of two names is not found")
	}
}

// TestPipes: a command that prints a file, as WebDataset has them, is not taken for the name of a file on disk.
func TestPipes(t *testing.T) {
	if uri, err := storage.Canonical("pipe:cat x.tar"); err == nil || !strings.Contains(err.Error(), "pipe: is not read") {
		t.Errorf("%s, %v", uri, err)
	}
}

// A secret that stands where the name of an environment variable belongs is not repeated.
func TestSecretForAName(t *testing.T) {
	for uri, p := range map[string]storage.Profile{
		"s3://bucket/a":                 &s3.Profile{Credentials: s3.FromEnv, AccessKeyEnv: "s3cr3t", SecretKeyEnv: "s3cr3t"},
		"az://container/a":              &az.Profile{Account: "account1", SASEnv: "sig=s3cr3t"},
		"https://h/a":                   &https.Profile{Hosts: []string{"h"}, TokenEnv: "s3cr3t"},
		"hf://datasets/org/name/a.json": &hf.Profile{TokenEnv: "s3cr3t"},
	} {
		st, err := storage.New(storage.Config{Profiles: map[string]storage.Profile{"default": p}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = st.List(t.Context(), "", []string{uri})
		if err == nil || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), "_env names is not set") {
			t.Errorf("%s: %v", uri, err)
		}
		st.Close()
	}
}
