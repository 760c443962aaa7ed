package delta

import (
	"context"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// noFolders is a web server.
type noFolders struct{ storage.Storage }

func (noFolders) Find(context.Context, string, []string, storage.Kind) ([]*pb.File, storage.Others, error) {
	return nil, storage.Others{}, object.ErrNoFolders
}

func TestWebServersHaveNoTables(t *testing.T) {
	_, err := open(t.Context(), &table.Table{Storage: noFolders{}, Root: "https://data.example.org/t"})
	if err == nil || !strings.Contains(err.Error(), "copy the table to a store that lists them") {
		t.Errorf("%v, want what to do", err)
	}
}
