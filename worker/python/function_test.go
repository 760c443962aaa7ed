package python

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

var kinds = []pb.Kind{
	pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64, pb.Kind_BINARY, pb.Kind_INT8,
	pb.Kind_INT16, pb.Kind_UINT8, pb.Kind_UINT16, pb.Kind_UINT32, pb.Kind_FLOAT16,
}

// Whatever the rows are, a function that returns them makes the same rows: values, nulls and lengths at all levels,
// however its arrays lie.
func TestValuesCross(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.IntRange(0, 100).Draw(rt, "rows")
		var in []*vector.Vector
		o := op{name: "same"}
		for range rapid.IntRange(1, 3).Draw(rt, "columns") {
			in = append(in, anyVector(rt, rows))
			o.in = append(o.in, in[len(in)-1].Type)
		}
		if len(in) == 1 {
			o.name = rapid.SampledFrom([]string{"same", "sliced", "chunked"}).Draw(rt, "function")
		}
		o.out = o.in
		f := o.open(t, ours.pool)
		for range 2 { // in the same memory again
			c := callOf(o.out, in...)
			if err := f.Call(t.Context(), c); err != nil {
				rt.Fatal(err)
			}
			for i, v := range c.Out {
				if v.Type != in[i].Type || v.Rows != rows {
					rt.Fatalf("%d rows of %v for %d of %v", v.Rows, v.Type, rows, in[i].Type)
				}
				for row := range rows {
					if got, want := show(v, row), show(in[i], row); got != want {
						rt.Fatalf("column %d, of %v, row %d: %s, want %s", i, v.Type, row, got, want)
					}
				}
			}
		}
	})
}

// anyVector has nulls or none, of any type that can be handed over.
func anyVector(t *rapid.T, rows int) *vector.Vector {
	v := &vector.Vector{Rows: rows}
	v.Type.Kind = rapid.SampledFrom(kinds).Draw(t, "kind")
	v.Type.List = rapid.Bool().Draw(t, "list")
	words := func(n int) []uint64 {
		if rapid.Bool().Draw(t, "no nulls") {
			return nil
		}
		return rapid.SliceOfN(rapid.Uint64(), vector.Words(n), vector.Words(n)).Draw(t, "bits")
	}
	v.Valid = words(v.Rows)
	if v.Type.List {
		v.Offsets = lengths(t, v.Rows, v.Valid)
		v.Type.Nested = uint32(rapid.IntRange(0, 2).Draw(t, "levels"))
		for range v.Type.Nested {
			n := v.Len()
			valid := words(n)
			v.Nested = append(v.Nested, vector.Level{Offsets: lengths(t, n, valid), Valid: valid})
		}
		v.ElemValid = words(v.Len())
	}
	fill(t, v)
	return v
}

// lengths are offsets of n lists of any lengths, of which null ones are empty.
func lengths(t *rapid.T, n int, valid []uint64) []int32 {
	offsets := []int32{0}
	for i := range n {
		length := int32(rapid.IntRange(0, 3).Draw(t, "length"))
		if valid != nil && valid[i>>6]>>(i&63)&1 == 0 {
			length = 0
		}
		offsets = append(offsets, offsets[i]+length)
	}
	return offsets
}

// fill makes the values, of which there are some where it is null, too.
func fill(t *rapid.T, v *vector.Vector) {
	n, salt := v.Len(), rapid.Int64().Draw(t, "salt")
	if v.Type.Kind == pb.Kind_BINARY && n > 0 {
		v.Ends = []int32{int32(uint8(salt) % 3)}
		v.Data = make([]byte, v.Ends[0])
	}
	for i := range n {
		x := salt * int64(i+1)
		switch v.Type.Kind {
		case pb.Kind_BOOL:
			v.Bool = append(v.Bool, x&2 != 0)
		case pb.Kind_INT32:
			v.I32 = append(v.I32, int32(x))
		case pb.Kind_INT64:
			v.I64 = append(v.I64, x)
		case pb.Kind_FLOAT32:
			v.F32 = append(v.F32, math.Float32frombits(uint32(x)))
		case pb.Kind_FLOAT64:
			v.F64 = append(v.F64, math.Float64frombits(uint64(x)))
		case pb.Kind_BINARY:
			v.Data = append(v.Data, strings.Repeat(string([]byte{byte(x)}), int(uint8(x)%4))...)
			v.Ends = append(v.Ends, int32(len(v.Data)))
		default:
			v.Small = append(v.Small, []byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)}[:spec.Width(v.Type.Kind)]...)
		}
	}
}

// show writes a row; what is null shows no value.
func show(v *vector.Vector, row int) string {
	if v.IsNull(row) {
		return "null"
	}
	from, to := row, row+1
	if v.Type.List {
		from, to = int(v.Offsets[row]), int(v.Offsets[row+1])
	}
	out := fmt.Sprint(to-from, ":")
	for _, level := range v.Nested {
		for i := from; i < to; i++ {
			out += fmt.Sprint(level.Offsets[i+1]-level.Offsets[i], !level.IsNull(i), ";")
		}
		from, to = int(level.Offsets[from]), int(level.Offsets[to])
	}
	for j := from; j < to; j++ {
		if v.ElemIsNull(j) {
			out += "null,"
			continue
		}
		out += value(v, j) + ","
	}
	return out
}

func value(v *vector.Vector, j int) string {
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		return fmt.Sprint(v.Bool[j])
	case pb.Kind_INT32:
		return fmt.Sprint(v.I32[j])
	case pb.Kind_INT64:
		return fmt.Sprint(v.I64[j])
	case pb.Kind_FLOAT32:
		return fmt.Sprint(math.Float32bits(v.F32[j]))
	case pb.Kind_FLOAT64:
		return fmt.Sprint(math.Float64bits(v.F64[j]))
	case pb.Kind_BINARY:
		return fmt.Sprintf("%q", v.Data[v.Ends[j]:v.Ends[j+1]])
	}
	width := spec.Width(v.Type.Kind)
	return fmt.Sprintf("%x", v.Small[width*j:width*(j+1)])
}

// At a null a function finds no value of another row's, or of one that did not pass.
func TestNullsHaveNoValues(t *testing.T) {
	ints := &vector.Vector{Type: int64s, Rows: 3, I64: []int64{1, 0x6261, 3}, Valid: []uint64{5}}
	texts := words("a", "secret", "c")
	texts.Valid = []uint64{5}
	lay := layer{to: make([]byte, room(ints)+room(texts))}
	lay.column(ints)
	lay.column(texts)
	if all := string(lay.to); strings.Contains(all, "secret") || strings.Contains(all, "ab") ||
		!strings.Contains(all, "ac") {
		t.Errorf("%q", all)
	}
}

func TestSeveralResultsOfStyles(t *testing.T) {
	o := op{name: "two", in: []spec.Type{int64s}, out: []spec.Type{int64s, strings_}}
	c, err := o.call(t, numbered(3))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Out[0].I64, show(c.Out[1], 2)); got != `[1 2 3]1:"2",` {
		t.Error(got)
	}
}

// A class is made once a process, with its arguments; calls of other chains find what it has become.
func TestClassIsMadeOnce(t *testing.T) {
	p, _ := running(t, func(c *Config, _ *times) { c.Processes = 1 })
	o := op{name: "Count", in: []spec.Type{int64s}, out: []spec.Type{int64s, int64s}}
	for want := range int64(3) {
		f := o.open(t, p)
		c := callOf(o.out, numbered(1))
		if err := f.Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got := c.Out[0].I64[0]; got != 11+want {
			t.Errorf("call %d of the process counts %d", want, got)
		}
	}
}

func TestWhatFunctionsDoWrong(t *testing.T) {
	wholesome(t) // a process is there, which may take more than one that is started for 10 MiB
	for name, c := range map[string]struct {
		op   op
		in   *vector.Vector
		want []string
	}{
		"an exception": {
			op{name: "bad", in: []spec.Type{int64s}, out: []spec.Type{int64s}},
			numbered(5),
			[]string{"ValueError: bad text\n", "in bad\nValueError: bad text"},
		},
		"an exception at a row": {
			op{name: "bad_row", style: pb.Style_ROWS, in: []spec.Type{int64s}, out: []spec.Type{int64s}},
			numbered(5),
			[]string{"row 3 fails: ValueError: bad row\n", "in bad_row"},
		},
		"too many rows": {
			op{name: "long", in: []spec.Type{int64s}, out: []spec.Type{int64s}},
			numbered(5),
			[]string{"found 6 values for 5 rows"},
		},
		"another type": {
			op{name: "double", style: pb.Style_NUMPY, in: []spec.Type{int64s}, out: []spec.Type{strings_}},
			numbered(5),
			[]string{"found int64", "wanted binary"},
		},
		"too large results": {
			op{name: "same", in: []spec.Type{int64s}, out: []spec.Type{int64s}, more: func(f *pb.Function) { f.Memory = 10 << 20 }},
			numbered(3 << 20),
			[]string{"its results take 24 MiB, and it may take 10"},
		},
		"a write to its input": {
			op{name: "writes", in: []spec.Type{int64s}, out: []spec.Type{int64s}},
			numbered(5),
			[]string{"ValueError: cannot set WRITEABLE flag"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.op.call(t, c.in)
			if err == nil {
				t.Fatal("it works")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v; lacks %q", err, want)
				}
			}
			var raised *FunctionError
			var row *transform.RowError
			if !errors.As(err, &raised) && !errors.As(err, &row) {
				t.Errorf("%T", err)
			}
		})
	}
	wholesome(t)
}

// What cannot be loaded is said, and another worker may load it. Processes are not started for it again and again.
func TestWhatDoesNotLoad(t *testing.T) {
	o := op{name: "Unmade", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	for range 2 {
		_, err := o.call(t, numbered(1))
		if !errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), "FileNotFoundError: model.bin") {
			t.Error(err)
		}
	}
	p, starts := counted(t)
	data := []byte("no pickle at all")
	ticket := ticketOf("", data)
	if err := p.Keep(ticket, partsOf(data)[0]); err != nil {
		t.Fatal(err)
	}
	functions, err := p.Functions(ticket, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := functions.Function(&pb.Step{Type: int64s.Proto(), Outs: 1, Python: &pb.Function{Name: "x"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err := f.Call(t.Context(), &transform.Call{Out: []*vector.Vector{{}}})
		if !errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), "Unpickling") {
			t.Error(err)
		}
	}
	if n := starts(); n != 1 {
		t.Errorf("%d processes were started", n)
	}
	wholesome(t)
}

// That processes were killed from outside while they loaded code is not remembered: it says nothing of the code.
func TestKilledWhileItLoads(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	p, _ := running(t, func(c *Config, _ *times) {
		e := c.Environments[Default]
		script := filepath.Join(t.TempDir(), "python")
		text := fmt.Sprintf("#!/bin/sh\necho >>%s\n[ $(wc -l <%s) -gt 2 ] || kill -9 $$\nexec %s \"$@\"\n", starts, starts,
			e.Interpreter)
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		e.Interpreter = script
		c.Environments = map[string]Environment{Default: e}
	})
	o := op{name: "same", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	f := o.open(t, p)
	defer f.Close()
	c := callOf(o.out, numbered(3))
	err := f.Call(t.Context(), c)
	if !errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), "was killed (SIGKILL)") {
		t.Error(err)
	}
	if err := f.Call(t.Context(), c); err != nil {
		t.Error(err)
	}
	wholesome(t)
}

// counted is a pool that counts the processes that it starts. These find modules in path, too.
func counted(t *testing.T, path ...string) (*Pool, func() int) {
	t.Helper()
	starts := filepath.Join(t.TempDir(), "starts")
	p, _ := running(t, func(c *Config, _ *times) {
		e := c.Environments[Default]
		script := filepath.Join(t.TempDir(), "python")
		text := fmt.Sprintf("#!/bin/sh\necho >>%s\nexec %s \"$@\"\n", starts, e.Interpreter)
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		e.Interpreter, e.Path = script, append(path, e.Path...)
		c.Environments = map[string]Environment{Default: e}
	})
	return p, func() int {
		said, err := os.ReadFile(starts)
		if err != nil {
			t.Error(err)
		}
		return len(said)
	}
}

// Code runs where the packages that it imports have the versions that they had where its session was opened. Sessions of
// the same bytes may differ in that.
func TestEnvironmentsAreThoseOfSessions(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made_up-2.0.1.dist-info")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	metadata := []byte("Metadata-Version: 2.1\nName: Made.Up\nVersion: 2.0.1+cu121\n")
	if err := os.WriteFile(filepath.Join(folder, "METADATA"), metadata, 0o600); err != nil {
		t.Fatal(err)
	}
	p, starts := counted(t, filepath.Dir(folder))
	o := op{name: "same", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	for _, c := range []struct {
		identity *pb.Code
		want     string
	}{
		{&pb.Code{Distributions: []string{"made-up==2.0.1"}}, ""},
		{&pb.Code{Distributions: []string{"made-up==2.1.0"}}, "made-up is 2.0.1 here, and 2.1.0 where the session was opened"},
		{&pb.Code{Python: "2.7"}, "here, and 2.7 where the session was opened"},
		{&pb.Code{Python: "2.7"}, "here, and 2.7 where the session was opened"},
		{&pb.Code{Distributions: []string{"made-down==1"}}, "made-down is not here, and 1 where the session was opened"},
		{&pb.Code{Distributions: []string{"made-up==2.0.1"}}, ""},
	} {
		o.identity = c.identity
		f := o.open(t, p)
		err := f.Call(t.Context(), callOf(o.out, numbered(5)))
		f.Close()
		if c.want == "" && err != nil {
			t.Errorf("%v: %v", c.identity, err)
		}
		if c.want != "" && (!errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %s", c.identity, err, c.want)
		}
	}
	if n := starts(); n != 4 {
		t.Errorf("%d processes were started for 4 environments", n)
	}
}

// To wait once more would take as long again.
func TestWhatIsLateIsNotTriedAgain(t *testing.T) {
	p, starts := counted(t)
	o := op{name: "deaf", in: []spec.Type{strings_}, out: []spec.Type{int64s}, more: func(f *pb.Function) { f.TimeoutMs = 300 }}
	f := o.open(t, p)
	defer f.Close()
	err := f.Call(t.Context(), callOf(o.out, words(filepath.Join(t.TempDir(), "began"))))
	if _, ok := errors.AsType[*FunctionError](err); !ok ||
		!strings.Contains(err.Error(), "its process did not come to an end within 300ms; give its op more by timeout=") {
		t.Error(err)
	}
	if n := starts(); n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

// A process that dies is no end: the rows go to another one, once.
func TestProcessesThatDie(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	c, err := op{name: "once", in: []spec.Type{strings_}, out: []spec.Type{int64s}}.call(t, words(path))
	if err != nil || c.Out[0].I64[0] != 2 {
		t.Errorf("%v: %v", c.Out[0].I64, err)
	}
	for name, c := range map[string]struct {
		op   op
		want []string
	}{
		"a fault":   {op{name: "segfault"}, []string{"died of signal 11 (segmentation fault), and so did a second one", "Segmentation fault", "in segfault"}},
		"an exit":   {op{name: "leave"}, []string{"ended by itself with exit status 3", "last words"}},
		"a hog":     {op{name: "hog"}, []string{"took ", " MiB of memory, where its op allows 300 by memory="}},
		"a child":   {op{name: "child_hog"}, []string{" MiB of memory, where its op allows 300 by memory="}},
		"a timeout": {op{name: "deaf", in: []spec.Type{strings_}, more: func(f *pb.Function) { f.TimeoutMs = 300 }}, []string{"did not come to an end within 300ms"}},
		"nonsense":  {op{name: "huge"}, []string{"an answer of 4294967295 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := numbered(5)
			if c.op.in == nil {
				c.op.in = []spec.Type{int64s}
			} else {
				in = words(filepath.Join(t.TempDir(), "began"))
			}
			c.op.out = []spec.Type{int64s}
			_, err := c.op.call(t, in)
			if _, ok := errors.AsType[*FunctionError](err); !ok {
				t.Errorf("%T: %v", err, err)
			}
			for _, want := range c.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%v; lacks %q", err, want)
				}
			}
		})
	}
	wholesome(t)
}

// What a function keeps of the worker's memory counts as its own: its process is ended when that is too much, and the
// next one goes on.
func TestLeaksAreBounded(t *testing.T) {
	p, _ := running(t, func(c *Config, _ *times) { c.Processes, c.Memory = 1, 150<<20 })
	o := op{name: "Leaks", in: []spec.Type{int64s}, out: []spec.Type{{Kind: pb.Kind_INT32}}}
	f := o.open(t, p)
	defer f.Close()
	in := numbered(2 << 20)
	var pids []int32
	for range 40 {
		c := callOf(o.out, in)
		if err := f.Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if pid := c.Out[0].I32[0]; !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
		if len(pids) > 1 {
			return
		}
	}
	t.Errorf("process %d keeps 40 times 16 MiB", pids)
}

// A caller that leaves has not to wait. What it called is interrupted, and killed if that does not help.
func TestCallersThatLeave(t *testing.T) {
	for _, name := range []string{"hang", "deaf"} {
		began := filepath.Join(t.TempDir(), "began")
		ctx, leave := context.WithCancelCause(t.Context())
		why := errors.New("the trainer has gone")
		o := op{name: name, in: []spec.Type{strings_}, out: []spec.Type{int64s}}
		f := o.open(t, ours.pool)
		c := callOf(o.out, words(began))
		c.Wait = func() error { // which is told while the call runs
			if _, err := os.Stat(began); err == nil {
				leave(why)
			}
			return nil
		}
		if err := f.Call(ctx, c); !errors.Is(err, why) {
			t.Errorf("%s: %v", name, err)
		}
		f.Close()
		wholesome(t)
	}
	c := callOf([]spec.Type{int64s}, words(filepath.Join(t.TempDir(), "began")))
	enough := errors.New("enough")
	c.Wait = func() error { return enough }
	f := op{name: "hang", in: []spec.Type{strings_}, out: []spec.Type{int64s}}.open(t, ours.pool)
	if err := f.Call(t.Context(), c); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// A process that was interrupted is used no more: who knows what the function has left half done.
func TestInterruptedProcessesEnd(t *testing.T) {
	p, _ := running(t, func(c *Config, _ *times) { c.Processes = 1 })
	p.times.grace = time.Minute
	pid := func() int64 {
		o := op{name: "pid", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
		c := callOf(o.out, numbered(1))
		if err := o.open(t, p).Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return c.Out[0].I64[0]
	}
	first := pid()
	began := filepath.Join(t.TempDir(), "began")
	ctx, leave := context.WithCancel(t.Context())
	c := callOf([]spec.Type{int64s}, words(began))
	c.Wait = func() error {
		if _, err := os.Stat(began); err == nil {
			leave()
		}
		return nil
	}
	f := op{name: "hang", in: []spec.Type{strings_}, out: []spec.Type{int64s}}.open(t, p)
	if err := f.Call(ctx, c); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if second := pid(); second == first {
		t.Errorf("process %d goes on", first)
	}
}

// What a function prints is logged, with whose it is, up to a bound.
func TestPrintsAreLogged(t *testing.T) {
	if _, err := (op{name: "prints", in: []spec.Type{int64s}, out: []spec.Type{int64s}}).call(t, numbered(5)); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(ours.log.String(), "line 19") { // which no bound leaves out
		if t.Context().Err() != nil {
			t.Fatal("nothing was logged")
		}
		if strings.Contains(ours.log.String(), "line 3 ") {
			break
		}
	}
	log := ours.log.String()
	for _, want := range []string{`"session":"s1"`, `"op":"prints (transforms[1])"`, `"text":"line 3 xxx`} {
		if !strings.Contains(log, want) {
			t.Errorf("lacks %s", want)
		}
	}
	if n := strings.Count(log, `"text":"line `); n > 1000 || strings.Contains(log, strings.Repeat("x", maxLine+1)) {
		t.Errorf("%d lines of %d bytes", n, len(log))
	}
	wholesome(t)
}

// A function that a stream of another session goes on with prints for that one.
func TestPrintsAreOfWhoCalls(t *testing.T) {
	log := &lines{}
	p, _ := running(t, func(c *Config, _ *times) { c.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	o := op{name: "prints", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	f := o.open(t, p)
	defer f.Close()
	c := callOf(o.out, numbered(5))
	c.Session = "s2"
	if err := f.Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(log.String(), `"session":"s2","op":"prints (transforms[1])"`) {
		if t.Context().Err() != nil {
			t.Fatal("nothing was logged")
		}
	}
	if strings.Contains(log.String(), `"session":"s1"`) {
		t.Error("it prints for the session that it was made for")
	}
}

// A function that keeps its input finds it unchanged later on.
func TestKeptInputStays(t *testing.T) {
	p, _ := running(t, func(c *Config, _ *times) { c.Processes = 1 })
	o := op{name: "Keeps", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	f := o.open(t, p)
	defer f.Close()
	for i := range int64(4) {
		in := numbered(1000)
		in.I64[0] = 100 + i
		c := callOf(o.out, in)
		if err := f.Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got, want := c.Out[0].I64[0], 100+max(0, i-1); got != want {
			t.Errorf("call %d: %d, want %d", i, got, want)
		}
	}
}

// What a function does not keep lies in the same memory from call to call.
func TestSegmentsAreUsedAgain(t *testing.T) {
	p, _ := running(t, func(c *Config, _ *times) { c.Processes = 1 })
	list := spec.Type{Kind: pb.Kind_BINARY, List: true}
	in := &vector.Vector{Type: list, Rows: 2, Offsets: []int32{0, 1, 3}, Ends: []int32{0, 1, 2, 3}, Data: []byte("abc")}
	numbers := map[uint32]bool{}
	for _, style := range []pb.Style{pb.Style_ARROW, pb.Style_NUMPY, pb.Style_ROWS} {
		o := op{name: "same", style: style, in: []spec.Type{list, int64s}, out: []spec.Type{list, int64s}}
		if err := o.open(t, p).Call(t.Context(), callOf(o.out, in, numbered(2))); err != nil {
			t.Fatal(err)
		}
		for q := range p.processes {
			numbers[q.in.Number], numbers[q.out.Number] = true, true
		}
	}
	if len(numbers) != 2 {
		t.Errorf("%d segments", len(numbers))
	}
}

// Results take memory that is asked for, which may be refused.
func TestRoomIsAskedFor(t *testing.T) {
	o := op{name: "same", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	f := o.open(t, ours.pool)
	defer f.Close()
	var asked []int64
	full := errors.New("no memory")
	var refuse error
	call := func(n int) error {
		c := callOf(o.out, numbered(n))
		c.Room = func(bytes int64) error {
			asked = append(asked, bytes)
			return refuse
		}
		return f.Call(t.Context(), c)
	}
	for _, n := range []int{1000, 10, 1000, 2000} {
		if err := call(n); err != nil {
			t.Fatal(err)
		}
	}
	if len(asked) != 2 || asked[0] < 8000 || asked[1] < 8000 || asked[0]+asked[1] > 20000 {
		t.Errorf("asked for %v", asked)
	}
	refuse = full
	if err := call(100_000); !errors.Is(err, full) {
		t.Error(err)
	}
	wholesome(t)
}

// A function gets nothing of the worker's environment, and no privileges.
func TestProcessIsConfined(t *testing.T) {
	t.Setenv("PENSTOCK_SECRET", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	p, _ := running(t, func(*Config, *times) {})
	o := op{name: "environment", in: []spec.Type{int64s}, out: []spec.Type{strings_}}
	c := callOf(o.out, numbered(1))
	if err := o.open(t, p).Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	told := string(c.Out[0].Data)
	for _, want := range []string{"PYTHONHASHSEED=0", "OMP_NUM_THREADS=1", "privileges=1", "core=0", "session=True"} {
		if !strings.Contains(told, want+"\n") && !strings.HasSuffix(told, want) {
			t.Errorf("lacks %s:\n%s", want, told)
		}
	}
	if strings.Contains(told, "SECRET") {
		t.Error(told)
	}
}

// A function that speaks for its process ends it, and nothing else.
func TestHostileProcess(t *testing.T) {
	for name, say := range map[string][]string{
		"another number":      {`{"kind":"done","number":1000000}`},
		"places far away":     {`{"kind":"done","number":NUMBER,"places":[-1,0,9223372036854775744,9223372036854775807]}`},
		"a need of nothing":   {`{"kind":"need","number":NUMBER,"bytes":-5}`},
		"an answer too many":  {`{"kind":"raised","number":NUMBER,"type":"E","row":77}`, `{"kind":"raised","number":NUMBER}`},
		"a need again, again": {`{"kind":"need","number":NUMBER,"bytes":5}`, `{"kind":"need","number":NUMBER,"bytes":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := op{name: "says", in: []spec.Type{strings_}, out: []spec.Type{int64s}}
			if _, err := o.call(t, words(say...)); err == nil {
				t.Error("it works")
			} else if _, ok := errors.AsType[*FunctionError](err); !ok {
				t.Errorf("%T: %v", err, err)
			}
		})
	}
	wholesome(t)
}

func TestWhatCannotBeCalled(t *testing.T) {
	p, _ := running(t, func(*Config, *times) {})
	for name, o := range map[string]op{
		"a picture":   {in: []spec.Type{int64s}, out: []spec.Type{{Kind: pb.Kind_PICTURE}}},
		"bfloat16":    {in: []spec.Type{int64s}, out: []spec.Type{{Kind: pb.Kind_BFLOAT16}}},
		"no results":  {in: []spec.Type{int64s}},
		"a new style": {out: []spec.Type{int64s}, style: 99},
	} {
		o.name = "same"
		if _, err := o.try(p); !errors.Is(err, ErrCannotRun) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCodesOfTickets(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"not allowed":    func(c *Config) { c.ByValue = false },
		"no interpreter": func(c *Config) { c.Environments = nil },
	} {
		p, _ := running(t, func(c *Config, _ *times) { change(c) })
		if _, err := (op{name: "same"}).try(p); !errors.Is(err, ErrCannotRun) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, _ := running(t, func(*Config, *times) {})
	data := make([]byte, 3*code.PartBytes+7)
	data[0], data[code.PartBytes] = 1, 2
	ticket := ticketOf("a", data)
	parts := partsOf(data)
	lacks := func(when string, of *pb.Ticket) {
		t.Helper()
		_, err := p.Functions(of, nil)
		if need, ok := errors.AsType[*NeedCodeError](err); !ok || string(need.SHA256) != string(ticket.GetCode().GetSha256()) {
			t.Errorf("%s: %v", when, err)
		}
	}
	lacks("before", ticket)
	for _, i := range []int{3, 0, 0, 2} {
		if err := p.Keep(ticket, parts[i]); err != nil {
			t.Fatal(err)
		}
		lacks("between", ticket)
	}
	wrong := &pb.CodePart{Sha256: parts[1].Sha256, Size: parts[1].Size, Offset: code.PartBytes, Data: make([]byte, code.PartBytes)}
	if err := p.Keep(ticket, wrong); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("other bytes: %v", err)
	}
	lacks("after other bytes", ticket)
	for _, part := range parts {
		if err := p.Keep(ticket, part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Functions(ticket, nil); err != nil {
		t.Error(err)
	}
	lacks("of another namespace", ticketOf("b", data))
	for name, part := range map[string]*pb.CodePart{
		"other code":     {Sha256: make([]byte, 32), Size: parts[0].Size, Data: parts[0].Data},
		"another size":   {Sha256: parts[0].Sha256, Size: 5, Data: parts[0].Data},
		"short":          {Sha256: parts[0].Sha256, Size: parts[0].Size, Data: parts[0].Data[1:]},
		"between parts":  {Sha256: parts[0].Sha256, Size: parts[0].Size, Offset: 5, Data: parts[0].Data},
		"behind the end": {Sha256: parts[0].Sha256, Size: parts[0].Size, Offset: 4 * code.PartBytes, Data: nil},
		"before all":     {Sha256: parts[0].Sha256, Size: parts[0].Size, Offset: -code.PartBytes, Data: parts[0].Data},
	} {
		if err := p.Keep(ticketOf("c", data), part); err == nil {
			t.Errorf("%s: it was kept", name)
		}
	}
	for _, t2 := range []*pb.Ticket{{}, {Code: &pb.StoredCode{Sha256: []byte{1}}}} {
		if _, err := p.Functions(t2, nil); !errors.Is(err, ErrCannotRun) {
			t.Errorf("%v: %v", t2, err)
		}
	}
}

// Functions choose rows, and make others of them, in each style; a call of no rows that stay has parents, too.
func TestRowsThatFunctionsChooseAndMake(t *testing.T) {
	const arrow, numpy, rows = pb.Style_ARROW, pb.Style_NUMPY, pb.Style_ROWS
	const filter, flatMap = pb.FunctionKind_FILTER, pb.FunctionKind_FLAT_MAP
	two := []spec.Type{int64s, strings_}
	for _, c := range []struct {
		name  string
		style pb.Style
		kind  pb.FunctionKind
		out   []spec.Type
		most  uint32
		want  string
	}{
		{"odd", numpy, filter, nil, 0, "[1 3] "},
		{"odd_row", rows, filter, nil, 0, "[1 3] "},
		{"repeat", numpy, flatMap, two, 0, "[1 2 2 3 3 3] 10 21 22 33 34 35"},
		{"repeat", numpy, flatMap, two, 2, "[1 2 2 3 3 3] 10 21 22 33 34 35"},
		{"repeat_row", rows, flatMap, two, 0, "[1 2 2 3 3 3] 10 20 21 30 31 32"},
		{"repeat", numpy, flatMap, two, 1, "row 3 fails: it became 3 rows or more, and all 4 of the call 6 or more; at most 1"},
		{"repeat_row", rows, flatMap, two, 1, "row 2 fails: it became 2 rows or more, and all 4 of the call 5 or more; at most 1"},
		{"endless", rows, flatMap, two, 3, "row 0 fails: it became 13 rows or more"},
		{"falls", arrow, flatMap, two, 0, "parents: output row 1 is of row 0, behind one of row 1"},
		{"same", arrow, filter, nil, 0, "same returned an Arrow array of int64; return an array of bools"},
		{"same", rows, filter, nil, 0, "row 0 fails: same returned a int; return True for a row that stays"},
		{"same", rows, flatMap, two, 0, "row 0 fails: same returned a int; return a list of what the row becomes"},
	} {
		o := op{name: c.name, style: c.style, in: []spec.Type{int64s}, out: c.out, more: func(f *pb.Function) {
			f.Kind, f.Most = c.kind, c.most
		}}
		made, err := o.call(t, numbered(4))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(made.Parents, " ")
			if c.kind == flatMap {
				got += strings.Trim(fmt.Sprint(made.Out[0].I64), "[]")
				if n := len(made.Parents); made.Out[0].Rows != n || made.Out[1].Rows != n {
					t.Errorf("%s: %d rows and %d of %d", c.name, made.Out[0].Rows, made.Out[1].Rows, n)
				}
			}
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for name, kind := range map[string]pb.FunctionKind{"odd": filter, "repeat": flatMap} {
		o := op{name: name, style: numpy, in: []spec.Type{int64s}, more: func(f *pb.Function) { f.Kind = kind }}
		if kind == flatMap {
			o.out = two
		}
		made, err := o.call(t, numbered(1)) // a zero
		if err != nil || made.Parents == nil || len(made.Parents) != 0 {
			t.Errorf("%s: %v of %v: %v", name, made.Parents, made, err)
		}
	}
}

// Rows that fail are told of in one call, where they may be left out, and the others' results are there: by rows, and of
// functions by arrays, which are called with parts. One more than may fail is an error about it, and so is what the
// machine is to blame for.
func TestRowsThatFail(t *testing.T) {
	const arrow, numpy, rows = pb.Style_ARROW, pb.Style_NUMPY, pb.Style_ROWS
	for _, c := range []struct {
		name  string
		style pb.Style
		kind  pb.FunctionKind
		skip  int
		want  string
	}{
		{"bad_rows", rows, pb.FunctionKind_MAP, 2, "[0 1 2 5 6] [3 4] ValueError: bad row"},
		{"bad_rows", rows, pb.FunctionKind_MAP, 1, "row 3, row 4 fails: the result: found string, wanted int64"},
		{"bad_rows", rows, pb.FunctionKind_MAP, 0, "row 3 fails: ValueError: bad row"},
		{"bad_among", numpy, pb.FunctionKind_MAP, 2, "[0 1 2 5 6] [3 4] ValueError: bad row"},
		{"bad_among", numpy, pb.FunctionKind_MAP, 1, "row 3, row 4 fails: the result: found string, wanted int64"},
		{"bad_parts", rows, pb.FunctionKind_FLAT_MAP, 2, "[0 0 1 1 2 2 5 5 6 6] [3 4] ValueError: bad row"},
		{"bad", arrow, pb.FunctionKind_MAP, 7, "[] [0 1 2 3 4 5 6] ValueError: bad text"},
		{"damaged", rows, pb.FunctionKind_MAP, 7, "[] [0 1 2 3 4 5 6] OSError: image file is truncated"},
		{"absent", rows, pb.FunctionKind_MAP, 7, "row 0 fails: FileNotFoundError: "},
	} {
		o := op{name: c.name, style: c.style, in: []spec.Type{int64s}, out: []spec.Type{int64s}, skip: c.skip}
		if c.kind == pb.FunctionKind_FLAT_MAP {
			o.out = append(o.out, strings_)
			o.more = func(f *pb.Function) { f.Kind = c.kind }
		}
		made, err := o.call(t, numbered(7))
		got := fmt.Sprint(err)
		if all, ok := errors.AsType[*transform.RowsError](err); ok {
			got = fmt.Sprintf("row %d, %v", all.Rows[0].Row, &all.Rows[1])
		}
		if err == nil {
			var failed []int
			for _, row := range made.Failed {
				failed = append(failed, row.Row)
			}
			got = fmt.Sprint(made.Out[0].I64, " ", failed, strings.TrimPrefix(made.Failed[0].What, "fails:"))
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s of %d: %s, want %s", c.name, c.skip, got, c.want)
		}
	}
	wholesome(t)
}

// Pictures come as arrays of their sizes; those that take more than the process may have are no call.
func TestPicturesCross(t *testing.T) {
	photo := spec.Type{Kind: pb.Kind_PICTURE, Picture: spec.Picture{Channels: 1}}
	o := op{name: "sums", style: pb.Style_ROWS, in: []spec.Type{photo}, out: []spec.Type{int64s}}
	f := o.open(t, ours.pool)
	v := &vector.Vector{
		Type: photo, Rows: 3, Valid: []uint64{0b101}, Data: []byte{1, 2, 3, 4, 5, 6, 7}, Ends: []int32{0, 6, 6, 7},
	}
	c := callOf(o.out, v)
	c.Sizes = [][]int32{{2, 3, 0, 0, 1, 1}}
	if err := f.Call(t.Context(), c); err != nil || !slices.Equal(c.Out[0].I64, []int64{2321, -1, 1107}) {
		t.Errorf("%v, %v", c.Out[0].I64, err)
	}
	o.more = func(f *pb.Function) { f.Memory = 64 << 20 }
	v.Data, v.Ends[3] = make([]byte, 65<<20), 65<<20
	c.Sizes[0] = []int32{2, 3, 0, 0, 65<<20 - 6, 1}
	err := o.open(t, ours.pool).Call(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "the pictures of one call take 65 MiB, and it may take 64; resize") {
		t.Errorf("65 MiB: %v", err)
	}
}

// A function that draws gets a seed for each row, or a generator that begins with it.
func TestSeedsCross(t *testing.T) {
	seeds := []uint64{1, math.MaxUint64, 1}
	for name, style := range map[string]pb.Style{
		"drawn_seeds": pb.Style_NUMPY, "drawn": pb.Style_ROWS, "drawn_seeds ": pb.Style_ARROW,
	} {
		o := op{name: strings.TrimSpace(name), style: style, in: []spec.Type{int64s}, out: []spec.Type{int64s}}
		o.more = func(f *pb.Function) { f.Rng = true }
		f := o.open(t, ours.pool)
		c := callOf(o.out, numbered(3))
		c.Seeds = seeds
		if err := f.Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		want := []int64{1, -1, 1}
		if got := c.Out[0].I64; style == pb.Style_ROWS {
			if got[0] != got[2] || got[0] == got[1] {
				t.Errorf("drawn: %v", got)
			}
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		c.Seeds = nil
		if err := f.Call(t.Context(), c); err == nil || !strings.Contains(err.Error(), "0 seeds for 3 rows") {
			t.Errorf("without seeds: %v", err)
		}
	}
	wholesome(t)
}

// What an answer says of the number of its rows is not relied on.
func TestHostileNumbersOfRows(t *testing.T) {
	for said, want := range map[string]string{
		`{"kind": "done", "number": NUMBER, "rows": 5, "places": [0, 20]}`:                "5 rows of 1",
		`{"kind": "done", "number": NUMBER, "rows": -1, "places": [0, 20]}`:               "-1 rows of 1",
		`{"kind": "done", "number": NUMBER, "rows": 1, "places": []}`:                     "1 rows of 1, with 0 places",
		`{"kind": "done", "number": NUMBER, "rows": 1, "places": [1099511627776, 4]}`:     "buffer", // beyond any segment
		`{"kind": "done", "number": NUMBER, "rows": 0, "places": [0, 0], "failed": [{}]}`: "1 rows failed, where 0 may",
	} {
		o := op{name: "says", in: []spec.Type{strings_}, more: func(f *pb.Function) { f.Kind = pb.FunctionKind_FILTER }}
		_, err := o.call(t, words(said))
		if _, ok := errors.AsType[*FunctionError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", said, err, want)
		}
	}
	wholesome(t)
}
