package tables

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Behind a "=" stands a version as the table names it, and no other name of one: tags may have a "=" in theirs.
func TestNamesWithAnEqualsSign(t *testing.T) {
	st, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	dir, err := filepath.Abs("iceberg/testdata/tables/spark-refs")
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"": "@8416439909045016859", "@main": "@main=8416439909045016859"} {
		found, err := Tell(t.Context(), st, &pb.Dataset{Uri: []string{"iceberg+" + dir + version}})
		if err != nil || found.Table.URI != "iceberg+"+dir+want {
			t.Fatalf("%v, %v", found, err)
		}
		again, err := Tell(t.Context(), st, &pb.Dataset{Uri: []string{found.Table.URI}})
		if err != nil || again.Table.URI != found.Table.URI {
			t.Errorf("%v, %v", again, err)
		}
	}
	_, err = Tell(t.Context(), st, &pb.Dataset{Uri: []string{"iceberg+" + dir + "@a=main"}})
	if err == nil || !strings.Contains(err.Error(), `behind the "=" stands main`) {
		t.Errorf("got %v", err)
	}
}
