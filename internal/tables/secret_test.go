package tables

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
)

// What gives access in a table's URI is not repeated.
func TestSecretInAURI(t *testing.T) {
	st, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for _, uri := range []string{
		"delta+https://me:hunter2@host/t", "delta+https://me:hunter2@host",
		"delta+s3://bucket/t?X-Amz-Signature=hunter2", "delta+s3://bucket/t@v1?X-Amz-Signature=hunter2",
		"iceberg+https://host/t@v1?sig=hunter2", "iceberg+rest://lake/db.t?sig=hunter2",
		"iceberg+rest://me:hunter2@lake/db.t", "iceberg+rest://me:hunter2@lake", "delta+rest://me:hunter2@lake/db.t",
	} {
		for _, of := range []*pb.Dataset{
			{Uri: []string{uri}},
			{Uri: []string{uri, "file:///t"}},
			{Uri: []string{uri}, Format: &pb.Format{}},
			{Uri: []string{uri}, Split: "train"},
		} {
			_, err := Tell(t.Context(), st, of)
			if !errors.Is(err, storage.ErrSecret) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", uri, err)
			}
		}
	}
	for _, uri := range []string{"delta+s3://bucket@v1", "iceberg+s3://bucket/a:b@v=1", "delta+abfss://me@there/t@v1"} {
		if named, ok := spec.ParseTable(uri); !ok || discreet(named) != nil {
			t.Errorf("%s: %v", uri, discreet(named))
		}
	}
}
