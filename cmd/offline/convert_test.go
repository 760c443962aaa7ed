package offline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestConvertTellsPrograms what it made.
func TestConvertTellsPrograms(t *testing.T) {
	dir := t.TempDir()
	in, made := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.parquet")
	if err := os.WriteFile(in, []byte("x\n1\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := Convert()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{in, "--out", made, "--output", "json"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(made)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"files": []any{made}, "rows": 2.0, "bytes": float64(info.Size()),
		"columns": []any{"x: int64"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v; expected %v", got, want)
	}
}
