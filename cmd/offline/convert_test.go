package offline

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/cmd/convert"
	"github.com/penstock-ml/penstock/internal/cli/clitest"
	"github.com/penstock-ml/penstock/internal/storage"
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

// What a file's columns are named is no command to a terminal.
func TestConvertPrintsNamesQuoted(t *testing.T) {
	in := written(t, "in.csv", "a\x1b[2J,b\n1,2\n")
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		out, err := clitest.Run(t, Convert(), append(flags, in, "--out", filepath.Join(t.TempDir(), "out\a"))...)
		if err != nil || strings.ContainsAny(out, "\x1b\a") || !strings.Contains(out, `"a\x1b[2J: int64"`) {
			t.Errorf("%q, %v", out, err)
		}
	}
}

// A conversion goes on though the master that ordered its columns is down.
func TestConvertGoesOnWithoutMaster(t *testing.T) {
	in := written(t, "in.csv", "a,b\n"+strings.Repeat("1,2\n", 30_000))
	r := ordering{from: popularity, masters: []string{"127.0.0.1:1"}}
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o := convert.Options{
		Store: store, Inputs: []string{in}, FileRows: 4000,
		Output: filepath.Join(t.TempDir(), "out"),
	}
	if err := r.use(&o); err != nil {
		t.Fatal(err)
	}
	if _, err := convert.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "nothing listens there") {
		t.Fatalf("without a master: %v", err)
	}
	r.names = []string{"b"}
	ask := o.Order.Begin
	o.Order.Begin = nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Progress = func(p convert.Progress) {
		if p.Rows > 20_000 {
			cancel()
		}
	}
	if _, err := convert.Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Order.Begin, o.Progress = ask, nil
	done, err := convert.Run(t.Context(), o)
	if err != nil || done.Rows != 30_000 || !slices.Equal(done.Columns, []string{"b: int64", "a: int64"}) {
		t.Errorf("%+v, %v", done, err)
	}
}
