package tables

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// What gives access in a table's URI is not repeated.
func TestSecretInAURI(t *testing.T) {
	st, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for _, uri := range []string{"delta+https://me:hunter2@host/t", "delta+s3://bucket/t?X-Amz-Signature=hunter2"} {
		_, err := Tell(t.Context(), st, &pb.Dataset{Uri: []string{uri}})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
