package master

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/access"
)

// rewriting does something once files were listed.
type rewriting struct {
	storage.Storage
	then func()
}

// List implements storage.Storage.
func (l rewriting) List(ctx context.Context, profile string, uris []string) ([]*pb.File, error) {
	files, err := l.Storage.List(ctx, profile, uris)
	l.then()
	return files, err
}

// A file that is written anew while a namespace's dataset is listed is no link that leads out of it.
func TestAFileThatChangesIsNoLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "part.parquet")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	disk, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dir := "file://" + filepath.Dir(path) + "/"
	l := limited{rewriting{disk, func() { write("another one") }}, access.Limits{Datasets: []string{dir}}}
	if _, err := l.List(t.Context(), "", []string{dir}); !errors.Is(err, storage.ErrChanged) ||
		status.Code(err) == codes.PermissionDenied {
		t.Errorf("%v", err)
	}
}

// lying is a catalogue that has its table in a place.
type lying struct {
	storage.Storage
	at string
}

func (l lying) MetadataOf(context.Context, string, string) (string, error) { return l.at, nil }

// Where a catalogue says that a table lies, a namespace may read, or it does not read the table.
func TestATableOfACatalogueLiesWhereItMayBeRead(t *testing.T) {
	disk, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	spec := &pb.Spec{Dataset: &pb.Dataset{Uri: []string{"iceberg+rest://lake/db.t"}}}
	for at, want := range map[string]codes.Code{
		"s3://lake/ours/t/metadata/1.metadata.json":         codes.OK,
		"s3://lake/theirs/t/metadata/1.metadata.json":       codes.PermissionDenied,
		"s3://lake/ours/../theirs/metadata/1.metadata.json": codes.PermissionDenied,
		"s3://lake/ours*/metadata/1.metadata.json":          codes.PermissionDenied,
	} {
		limits := access.Limits{Datasets: []string{"s3://lake/ours/"}}
		if err := mayRead(limits, spec); err != nil {
			t.Error(err)
		}
		_, err := limited{lying{disk, at}, limits}.MetadataOf(t.Context(), "", "rest://lake/db.t")
		if err != nil && strings.Contains(err.Error(), at) {
			t.Errorf("the error tells where it lies: %v", err)
		}
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %v", at, err, want)
		}
	}
	spec.Dataset.Storage = "theirs"
	if err := mayRead(access.Limits{}, spec); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another profile: %v", err)
	}
}
