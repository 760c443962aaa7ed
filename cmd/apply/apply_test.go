package apply_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/cmd/apply"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const text = `
dataset: {uri: s3://bucket/clicks/}
batch_size: 10
filter: clicked == 1
features: [{label: clicked}, {dense: [price, user.age]}, {sparse: ids}, {bytes: name}]
transforms: [{op: log1p, in: price}, {op: positive_modulus, in: ids, modulus: 1000}]
`

// trained is a file of the training's data.
func trained(t *testing.T) []byte {
	t.Helper()
	s := arrow.NewSchema([]arrow.Field{
		{Name: "clicked", Type: arrow.PrimitiveTypes.Int8},
		{Name: "price", Type: arrow.PrimitiveTypes.Float32},
		{Name: "user", Type: arrow.StructOf(arrow.Field{Name: "age", Type: arrow.PrimitiveTypes.Int32, Nullable: true})},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "name", Type: arrow.BinaryTypes.Binary},
		{Name: "more", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64)},
		{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms},
	}, nil)
	r, _, err := array.RecordFromJSON(memory.DefaultAllocator, s, strings.NewReader(
		`[{"clicked": 1, "price": 0.5, "user": {"age": 3}, "ids": [1807], "name": "eA==", "more": [], "at": 0}]`))
	if err != nil {
		t.Fatal(err)
	}
	return filetest.Parquet(t, s, []arrow.Record{r})
}

// in runs `penstock apply` in a folder that has the spec and a file of the training's data.
func in(t *testing.T, stdin string, args ...string) (out, notes string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, data := range map[string][]byte{"spec.yaml": []byte(text), "x.parquet": trained(t)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := apply.Command(transform.Builtin())
	var o, n bytes.Buffer
	cmd.SetOut(&o)
	cmd.SetErr(&n)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return o.String(), n.String(), err
}

// Rows of files and of JSON become the same, and what is not known is left out.
func TestApply(t *testing.T) {
	const whole = `{"clicked":1,"price":0.4054651,"user.age":3,"ids":[807],"name":"x"}` + "\n"
	const left = "the rows lack the columns of clicked, which is left out\n"
	const one = `{"price": 0.5, "user": {"age": 3}, "ids": [9223372036854775807], "name": "x", "other": [1, "a"]`
	unlabelled := strings.Replace(whole, `"clicked":1,`, "", 1)
	for name, c := range map[string]struct {
		stdin, out, notes string
		args              []string
	}{
		"a file":                 {args: []string{"x.parquet"}, out: whole},
		"JSON, by its own types": {stdin: one + "}\n", out: unlabelled, notes: left},
		"JSON, by the training's": {
			args: []string{"-", "--schema", "x.parquet"}, stdin: one + `, "clicked": 1}` + "\n\n", out: whole,
		},
		"bytes": {
			args:  []string{"-", "--schema", "x.parquet"},
			stdin: strings.Replace(one, `"x"`, `{"base64": "eA=="}`, 1) + "}", out: unlabelled, notes: left,
		},
		"outputs": {args: []string{"x.parquet", "--outputs", "name"}, out: `{"name":"x"}` + "\n"},
		"a null":  {stdin: `{"price": null}` + "\n" + one + "}", args: []string{"-", "--outputs=dense", "--schema=x.parquet"}, out: `{"price":null,"user.age":null}` + "\n" + `{"price":0.4054651,"user.age":3}` + "\n"},
		"what is deep": {
			stdin: one + `, "deep": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", out: unlabelled, notes: left,
		},
		"no rows":      {stdin: "\n"},
		"a whole file": {args: []string{"x.parquet", "--outputs=ids,dense"}, out: `{"price":0.4054651,"user.age":3,"ids":[807]}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, notes, err := in(t, c.stdin, append([]string{"spec.yaml", "--output=json"}, c.args...)...)
			if err != nil || out != c.out || notes != c.notes {
				t.Errorf("%v\nfound %s%s\nwant %s%s", err, out, notes, c.out, c.notes)
			}
		})
	}
}

func TestApplyToParquet(t *testing.T) {
	if _, _, err := in(t, "", "spec.yaml", "x.parquet", "out.parquet", "--output=parquet"); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob("out*"); len(files) != 1 || files[0] != "out.parquet" {
		t.Errorf("there are %v", files)
	}
}

func TestWhatIsWrongWithRows(t *testing.T) {
	for name, c := range map[string]struct{ stdin, want string }{
		"no JSON":       {`{"price": 1}` + "\n" + `{"price"`, `standard input line 2: unexpected EOF; want an object`},
		"no object":     {`[1]`, `standard input line 1: json: cannot unmarshal array`},
		"two":           {`{} {}`, `standard input line 1: want one object`},
		"a brace":       {`{}}`, `standard input line 1: want one object`},
		"a fraction":    {`{"user": {"age": 1.5}}`, "line 1: column user: field age: found 1.5; want an integer within"},
		"too large":     {`{"price": 1e39}`, "line 1: column price: found 1e39; want a number within the range of float32"},
		"no list":       {`{"ids": 7}`, "line 1: column ids: found 7; want a list"},
		"an element":    {`{"ids": [1, "x"]}`, `line 1: column ids: element 1: found "x"; want an integer within`},
		"a key":         {`{"more": {"a": "x"}}`, `line 1: column more: key a: found "x"; want a number within`},
		"no time":       {`{"at": "yesterday"}`, `line 1: column at: found "yesterday"; want a number of ms, or text such as 2024-01-31 12:00:00`},
		"no base64":     {`{"name": {"base64": "?"}}`, "line 1: column name: base64: illegal base64 data"},
		"several types": {`{"price": 1}` + "\n" + `{"price": "x"}`, "line 2: column price: found text, and an integer in rows before"},
		"lacks columns": {`{"price": 1}`, "spec.yaml:\nfeatures[1]: the rows have no column user.age"},
		"a label of nulls": {
			`{"price": 1, "ids": [], "name": "", "user": {}, "clicked": 1}` + "\n" +
				`{"price": 1, "ids": [], "name": "", "clicked": null}`,
			"standard input row 1 is null, and a label of type int32",
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"spec.yaml", "-"}
			if name != "several types" {
				args = append(args, "--schema", "x.parquet")
			}
			_, _, err := in(t, c.stdin, args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v\nwant %s", err, c.want)
			}
		})
	}
}

// program speaks to `penstock apply-rows` as the Python package does.
type program struct {
	t    *testing.T
	to   *io.PipeWriter
	from *bufio.Reader
	done chan error
}

func started(t *testing.T) *program {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	p := &program{t: t, to: to, from: bufio.NewReader(from), done: make(chan error, 1)}
	cmd := apply.Serve(transform.Builtin())
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(nil)
	go func() {
		err := cmd.ExecuteContext(context.WithoutCancel(t.Context()))
		p.done <- err
		_ = out.CloseWithError(io.EOF)
	}()
	return p
}

// ask sends a request, and returns the answer's header.
func (p *program) ask(header map[string]any, parts ...[]byte) (said struct {
	Error, Kind string
	Rows        int
	Parts       []int
	Schema      []byte
	Without     []string
},
) {
	p.t.Helper()
	sizes := []int{}
	for _, part := range parts {
		sizes = append(sizes, len(part))
	}
	header["parts"] = sizes
	head, err := json.Marshal(header)
	if err != nil {
		p.t.Fatal(err)
	}
	request := append(binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head...)
	if _, err := p.to.Write(append(request, bytes.Join(parts, nil)...)); err != nil {
		p.t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(p.from, size[:]); err != nil {
		p.t.Fatal(err)
	}
	answer := make([]byte, binary.LittleEndian.Uint32(size[:]))
	if _, err := io.ReadFull(p.from, answer); err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		p.t.Fatal(err)
	}
	for _, n := range said.Parts {
		if _, err := p.from.Discard((n + 63) &^ 63); err != nil {
			p.t.Fatal(err)
		}
	}
	return said
}

// A program's requests are answered until it closes its end; what is wrong with one does not end that.
func TestServe(t *testing.T) {
	p := started(t)
	open := map[string]any{"open": map[string]any{"spec_text": text}}
	if said := p.ask(open, nil, nil); said.Error != "" {
		t.Fatal(said.Error)
	}
	if said := p.ask(map[string]any{}, []byte("nothing")); said.Kind != "data" || said.Error == "" {
		t.Errorf("of what is no file: %+v", said)
	}
	rows := trained(t) // of any format
	first, second := p.ask(map[string]any{}, rows), p.ask(map[string]any{}, rows)
	if first.Rows != 1 || len(first.Schema) == 0 || len(first.Parts) != 6 || first.Error != "" {
		t.Errorf("found %+v", first)
	}
	if second.Rows != 1 || len(second.Schema) > 0 {
		t.Errorf("again %+v", second)
	}
	_ = p.to.Close()
	if err := <-p.done; err != nil {
		t.Error(err)
	}
}

func TestServeRefusesASpec(t *testing.T) {
	const fitted = "\nfitted: {uri: /none/f.parquet, digest: \"sha256:01\"}\n"
	const pins = "\npinned: {ops: {log1p: 1}}\n"
	for want, asked := range map[string]map[string]any{
		"features: ":           {"spec_text": "features: 1"},
		"features: found none": {"spec_text": pins},
		"pinned to nothing":    {"spec_text": text, "pinned": fitted},
		"pinned to sha256:02; name": {
			"spec_text": text + fitted, "pinned": strings.Replace(fitted, "01", "02", 1) + pins,
		},
	} {
		p := started(t)
		if said := p.ask(map[string]any{"open": asked}, nil, nil); said.Kind != "spec" ||
			!strings.Contains(said.Error, want) {
			t.Errorf("found %+v, want %s", said, want)
		}
		_ = p.to.Close()
		if err := <-p.done; err != nil {
			t.Error(err)
		}
	}
}
