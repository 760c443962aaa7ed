package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
)

// rootOf is the URI of what a table is read from: its folder, or the metadata file that its catalogue names.
func rootOf(ctx context.Context, st storage.Storage, profile string, named spec.TableURI) (string, error) {
	if !named.InCatalog() {
		return named.Root, nil
	}
	if named.Prefix != "iceberg" {
		return "", fmt.Errorf("REST catalogues have tables of Iceberg; write iceberg+%s", named.Root)
	}
	from, ok := st.(storage.Catalogs)
	if !ok {
		return "", errors.New("this storage knows no catalogues: name the table by the URI of its folder")
	}
	return from.MetadataOf(ctx, profile, named.Root)
}
