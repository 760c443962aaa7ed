package read

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/worker/transform"
)

// TestLeftOutRowsAreTold: the summary counts rows that on_error lets be left out.
func TestLeftOutRowsAreTold(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.csv": "y\n1\n2\nx\n4\n",
		"spec.yaml": "dataset: {uri: " + dir + "/a.csv, format: {name: csv, columns: {y: int64}}}\n" +
			"features: [{label: y}]\non_error: {skip_rows: 5}\nbatch_size: 2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	cmd := Command("test", transform.Builtin())
	cmd.SetOut(&out)
	cmd.SetArgs([]string{filepath.Join(dir, "spec.yaml"), "--local", "--output", "json"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var got summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Rows != 3 || got.LeftOut != 1 || !strings.HasPrefix(got.String(), "3 rows (1 row left out) in 2 batches, ") {
		t.Errorf("%+v: %s", got, &got)
	}
}
