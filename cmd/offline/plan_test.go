package offline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli/clitest"
	"github.com/penstock-ml/penstock/worker/transform"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestValidate(t *testing.T) {
	path := clitest.Spec(t, clitest.Good)
	out, err := clitest.Run(t, Validate(transform.Builtin()), path)
	check(t, err)
	if !strings.Contains(out, "is valid: 2 files") || !strings.Contains(out, "reads 1 column,") ||
		!strings.Contains(out, "order fast: ranks get rows as they take them") {
		t.Error(out)
	}
	out, err = clitest.Run(t, Validate(transform.Builtin()), path, "-o", "json")
	check(t, err)
	var program struct{ Sources []struct{ Name string } }
	check(t, json.Unmarshal([]byte(out), &program))
	if len(program.Sources) != 1 || program.Sources[0].Name != "x" {
		t.Error(out)
	}
	tests := []struct {
		lines string
		want  []string
	}{
		{
			"features: [{name: [xx, y], layout: dense}]\nbatch_size: -3\nfilter: x2 > 1\n",
			[]string{"features[0]", "xx", "y", "batch_size", "filter", "nearest: x"},
		},
		{"features: 7\nbatchsize: 3\n", []string{"features", "batchsize", "nearest: batch_size"}},
		{
			"transforms: [{op: nope, in: x}]\nfeatures: [{name: x, layout: dense}]\nbatch_size: 1\n",
			[]string{"transforms[0]", "nope"},
		},
		{
			"fitted: /nowhere/a.parquet\ntransforms: [{op: scale_to_0_1, in: x, of: fit}, {op: nope, in: x}]\n" +
				"features: [{name: [x, xx], layout: dense}]\nbatch_size: 1\n",
			[]string{"fitted: there is no file", "transforms[1]", "nope", "features[0]", "xx"},
		},
	}
	for _, test := range tests {
		path := clitest.Spec(t, test.lines)
		out, err := clitest.Run(t, Validate(transform.Builtin()), path)
		if err == nil || out != "" {
			t.Errorf("%s\nis accepted: %s", test.lines, out)
			continue
		}
		for _, want := range append(test.want, path) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nlacks %q", err, want)
			}
		}
	}
}

// TestValidateAllFiles has a bad file after what a session reads when it opens.
func TestValidateAllFiles(t *testing.T) {
	path := clitest.Spec(t, clitest.Good)
	bad := filepath.Join(filepath.Dir(path), "c.parquet")
	check(t, os.WriteFile(bad, nil, 0o600))
	check(t, os.Truncate(bad, 1<<35)) // a block of its own
	if _, err := clitest.Run(t, Validate(transform.Builtin()), path, "--quick"); err != nil {
		t.Error(err)
	}
	for _, cmd := range []*cobra.Command{Validate(transform.Builtin()), Plan(transform.Builtin())} {
		if out, err := clitest.Run(t, cmd, path); err == nil || !strings.Contains(err.Error(), "c.parquet") ||
			out != "" {
			t.Errorf("%s of a bad file: %v\n%s", cmd.Name(), err, out)
		}
	}
}

func TestPlan(t *testing.T) {
	path := clitest.Spec(t, clitest.Good)
	out, err := clitest.Run(t, Plan(transform.Builtin()), path)
	check(t, err)
	for _, want := range []string{"files", "100", "float32", "RLE_DICTIONARY"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %q", out, want)
		}
	}
	out, err = clitest.Run(t, Plan(transform.Builtin()), path, "--output", "json")
	check(t, err)
	var d struct {
		ListedFiles int `json:"listed_files"`
		Planned     struct{ Rows, Files int64 }
	}
	check(t, json.Unmarshal([]byte(out), &d))
	if d.ListedFiles != 2 || d.Planned.Rows != 100 || d.Planned.Files != 2 {
		t.Error(out)
	}
}

// TestLeftOut: plan, validate and show tell what of a folder is not read.
func TestLeftOut(t *testing.T) {
	path := clitest.Spec(t, clitest.Good)
	dir := filepath.Dir(path)
	data, err := os.ReadFile(filepath.Join(dir, "a.parquet"))
	check(t, err)
	for name, content := range map[string][]byte{"000000_0": data, "LICENSE": []byte("As is."), "_tmp": nil, "none": nil} {
		check(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	left := []string{
		"2 files left out whose names are of no format (", "/LICENSE: of no format that is read: ", "spec.yaml",
		"1 empty file left out (", "1 hidden name left out (",
	}
	for _, c := range []struct {
		cmd  *cobra.Command
		args []string
		want []string
	}{
		{Plan(transform.Builtin()), []string{path}, append(left, "rows     150")},
		{Validate(transform.Builtin()), []string{path}, append(left, "is valid: 4 files")},
		{Show(), []string{dir}, append(left, "150 rows in 3 files")},
		{Validate(transform.Builtin()), []string{path, "--quick"}, []string{"2 files whose names have no ending"}},
		{Plan(transform.Builtin()), []string{path, "-o", "json"}, []string{`"empty":{"count":1,"examples":["file://`}},
	} {
		out, err := clitest.Run(t, c.cmd, c.args...)
		check(t, err)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s %v: %s\nlacks %q", c.cmd.Name(), c.args, out, want)
			}
		}
	}
}
