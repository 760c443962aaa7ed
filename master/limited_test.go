package master

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
