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

// swapping is a disk on which a link stands in a file's place, whenever nobody asks about that file.
type swapping struct {
	*storage.Store
	link func(there bool)
}

func (s swapping) TellIf(
	ctx context.Context, of *pb.Dataset, may storage.May,
) ([]*pb.File, storage.LeftOut, error) {
	s.link(true)
	return s.Store.TellIf(ctx, of, func(f *pb.File) error {
		s.link(false)
		defer s.link(true)
		return may(f)
	})
}

// What files out of a namespace's folder say is not told, though links lead there that are swapped while it is listed.
func TestWhatTellsOfFilesIsNoLinkOutOfTheFolder(t *testing.T) {
	disk, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	for name, theirs := range map[string]string{
		"README.md":  "---\nconfigs: [{config_name: a, data_files: [{split: secret, path: '*'}]}]\n---\n",
		"index.json": `{"shards": [{"format": "mds", "raw_data": {"basename": "secret.mds", "bytes": 1}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			ours, target := t.TempDir(), filepath.Join(t.TempDir(), "theirs")
			path := filepath.Join(ours, name)
			write := func(path, text string) {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			link := func(there bool) {
				os.Remove(path) //nolint:errcheck // it is there, or is not
				if !there {
					write(path, "")
				} else if err := os.Symlink(target, path); err != nil {
					t.Fatal(err)
				}
			}
			write(target, theirs)
			write(filepath.Join(ours, "shard.00000.mds"), "x")
			dir := "file://" + ours + "/"
			of := &pb.Dataset{Uri: []string{dir}}
			if name == "README.md" {
				of.Split = "train"
			}
			if _, _, err := disk.Tell(t.Context(), of); err != nil {
				t.Fatal(err)
			}
			l := limited{swapping{disk, link}, access.Limits{Datasets: []string{dir}}}
			if _, _, err := l.Tell(t.Context(), of); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("swapped: %v", err)
			}
			l.Storage = disk
			if _, _, err := l.Tell(t.Context(), of); status.Code(err) != codes.PermissionDenied ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("a link: %v", err)
			}
		})
	}
}
