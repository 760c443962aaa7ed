package offline

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli/clitest"
	"github.com/penstock-ml/penstock/internal/tables/tabletest"
	"github.com/penstock-ml/penstock/worker/transform"
)

const deltaTables = "../../internal/tables/delta/testdata/tables/"

// TestShowTables shows each version of tables of others: its columns, and the rows that are not deleted.
func TestShowTables(t *testing.T) {
	all, err := os.ReadDir(deltaTables)
	if err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	for _, table := range all {
		for version, want := range tabletest.Read(t, deltaTables+table.Name()).Versions {
			if want.Refused != "" || len(want.Rows) == 0 {
				continue
			}
			t.Run(table.Name()+version, func(t *testing.T) {
				uri := "delta+" + deltaTables + table.Name() + "@" + version
				var got struct {
					URI     string                  `json:"uri"`
					Rows    int                     `json:"rows"`
					Columns []struct{ Name string } `json:"columns"`
					Head    []map[string]any        `json:"head"`
				}
				if err := json.Unmarshal([]byte(runShow(t, uri, "--head=100000", "--output=json")), &got); err != nil {
					t.Fatal(err)
				}
				if got.Rows != len(want.Rows) || !strings.HasSuffix(got.URI, "@"+version) {
					t.Errorf("%s has %d rows, want %d", got.URI, got.Rows, len(want.Rows))
				}
				tops := map[string]bool{}
				for _, c := range got.Columns {
					name, _, _ := strings.Cut(c.Name, ".")
					tops[name] = true
				}
				if !maps.Equal(tops, mapOf(want.Columns)) {
					t.Errorf("the columns are %v, want %v", tops, want.Columns)
				}
				maps.DeleteFunc(want.Columns, func(_, kind string) bool {
					return kind != "STRING" && kind != "BOOL" && !strings.HasPrefix(kind, "INT")
				})
				if got, want := plain(got.Head, want), plain(want.Rows, want); !slices.Equal(got, want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

func mapOf(of map[string]string) map[string]bool {
	out := map[string]bool{}
	for name := range of {
		out[name] = true
	}
	return out
}

// plain are rows by the columns of a version, sorted.
func plain(rows []map[string]any, of tabletest.Version) (out []string) {
	for _, r := range rows {
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(of.Columns)) {
			text, _ := json.Marshal(r[name])
			var v any
			_ = json.Unmarshal(text, &v)
			fields = append(fields, fmt.Sprintf("%s=%v", name, v))
		}
		out = append(out, strings.Join(fields, " "))
	}
	slices.Sort(out)
	return out
}

// TestBoundsOfDecimals are written with the digits that a decimal has.
func TestBoundsOfDecimals(t *testing.T) {
	for column, want := range map[string]string{
		"price": "-0.01 12.34", "double": "-2.5 1e+300",
	} {
		out := strings.Join(strings.Fields(runShow(t, "delta+"+deltaTables+"evolved@v0")), " ")
		if row := out[strings.Index(out, " "+column+" float64"):]; !strings.Contains(row[:100], " "+want+" ") {
			t.Errorf("%s: want %s in\n%s", column, want, row[:100])
		}
	}
}

// TestTablesInSpecs: a spec may name a table by a relative path; what is planned has no deleted rows.
func TestTablesInSpecs(t *testing.T) {
	dir, err := filepath.Abs(deltaTables)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	path := filepath.Join(t.TempDir(), "spec.yaml")
	text := "dataset: {uri: delta+spark-dv-with-columnmapping}\n" +
		"features: [{name: part, layout: dense}, {name: col1, layout: dense}]\nfilter: part < 3\nbatch_size: 4\nshuffle: false\nepochs: 1\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []*cobra.Command{Plan(transform.Builtin()), Validate(transform.Builtin())} {
		out, err := clitest.Run(t, command, path)
		if err != nil || !strings.Contains(out, "2 files have deleted rows") {
			t.Errorf("%s: %v\n%s", command.Name(), err, out)
		}
		if command.Name() == "validate" && !strings.Contains(out, "is valid: 4 files, 4.7 KiB;") {
			t.Errorf("files that the filter excludes are counted:\n%s", out)
		}
		if out = strings.Join(strings.Fields(out), " "); command.Name() == "plan" && !strings.Contains(out, "rows 9 ") {
			t.Error(out)
		}
	}
}

// TestIndexOfTable: tables need none.
func TestIndexOfTable(t *testing.T) {
	_, err := clitest.Run(t, Index(), "delta+"+deltaTables+"partitioned")
	if err == nil || !strings.Contains(err.Error(), "needs no index") {
		t.Errorf("got the error %v", err)
	}
}
