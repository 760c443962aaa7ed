package offline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/internal/cli/clitest"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// writeItems writes a side table in place of another one, if there is one.
func writeItems(t *testing.T, path, rows string) {
	t.Helper()
	s := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "price", Type: arrow.PrimitiveTypes.Float32},
	}, nil)
	r, _, err := array.RecordFromJSON(memory.DefaultAllocator, s, strings.NewReader(rows))
	check(t, err)
	check(t, os.WriteFile(path+".new", filetest.Parquet(t, s, []arrow.Record{r}), 0o600))
	check(t, os.Rename(path+".new", path))
}

func TestPlanPins(t *testing.T) {
	table := filepath.Join(t.TempDir(), "items.parquet")
	writeItems(t, table, `[{"id": 1, "price": 2}]`)
	path := clitest.Spec(t, "batch_size: 10\nfeatures: [{dense: price}]\ntransforms:\n- {op: cast, in: x, to: int64}\n"+
		"- {op: lookup, in: x, table: "+table+", key: id, columns: price}\n")
	plan := func(path string, flags ...string) (string, error) {
		return clitest.Run(t, Plan(transform.Builtin()), append(flags, path)...)
	}
	text, err := plan(path, "--pin")
	check(t, err)
	if !strings.Contains(text, "ops: {cast: 1, lookup_column: 1, lookup_row: 1}") ||
		!strings.Contains(text, "digest: \"sha256:") {
		t.Error(text)
	}
	pinned := filepath.Join(t.TempDir(), "pinned.yaml")
	check(t, os.WriteFile(pinned, []byte(text), 0o600))
	if again, err := plan(pinned, "--pin"); err != nil || again != text {
		t.Errorf("%v\n%s", err, again)
	}

	check(t, os.Chtimes(table, time.Time{}, time.Unix(1, 0)))
	if again, err := plan(pinned, "--pin"); err != nil || again == text { // of the ETag of now
		t.Errorf("the same content: %v\n%s", err, again)
	}
	writeItems(t, table, `[{"id": 1, "price": 3}]`)
	if _, err := plan(pinned); err == nil || !strings.Contains(err.Error(), "transforms[1].table: file://"+table+
		" is a file with the digest sha256:") || !strings.Contains(err.Error(), "pinned to one with the digest sha256:") {
		t.Error(err)
	}
	writeItems(t, table, `[{"id": 1, "price": 3}, {"id": 2, "price": 3}]`)
	if _, err := plan(pinned); err == nil || !strings.Contains(err.Error(), " bytes and ETag ") {
		t.Error(err)
	}
	if _, err := plan(path); err != nil {
		t.Error(err)
	}
}
