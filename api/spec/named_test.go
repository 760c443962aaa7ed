package spec

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

const calls = head + `
features:
- {padded: tokens, length: 8}
- {tensor: vector}
transforms:
- {op: python, call: "my.text:good", in: title, kind: filter}
- {op: python, call: "my.text:tokenize", in: [title, raw], out: {tokens: list<int32>, clean: string}, args: {lower: true, sep: " "}}
- {op: python, call: "my.text:embed", in: clean, out: {vector: tensor<2x3xfloat16>}, by: rows, threads: 2, timeout: 1.5, memory: 1073741824}
- {op: python, call: "my.text:count", in: title, out: {n: int32}, args: {of: [a, 1]}}
- {op: python, call: "my.text:count", in: clean, out: {m: int32}}
- {op: python, call: "my.text:count", in: raw, out: {k: int32}, args: {of: [a, 1]}}
python: vision
`

// TestCallsByName resolves a spec that is written as text, without its functions' code.
func TestCallsByName(t *testing.T) {
	s := mustParse(t, calls)
	if got := NamedCalls(s); !ByName(s) ||
		!slices.Equal(got, []string{"my.text:good", "my.text:tokenize", "my.text:embed", "my.text:count", "my.text:count"}) {
		t.Errorf("it calls %v", got)
	}
	p, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()})
	if err != nil {
		t.Fatal(err)
	}
	const want = `0 raw binary
1 title binary
transforms[0] python [1] outs 0  kind_unspecified
transforms[1] python [1 0] outs 2 tokens, clean list<int32>
transforms[2] python [3] outs 1 vector list<float16>
PADDED tokens [2] int32 shape [8]
TENSOR vector [4] float16 shape [2 3]
`
	if got := show(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	wantEmbed := &pb.Function{
		Name: "embed", Call: "my.text:embed", Index: 2, Kind: pb.FunctionKind_MAP, Style: pb.Style_ROWS, Threads: 2,
		TimeoutMs: 1500, Memory: 1 << 30, Texts: []uint32{0},
	}
	if got := p.GetSteps()[2].GetPython(); !proto.Equal(got, wantEmbed) {
		t.Errorf("got %v", got)
	}
	if got := p.GetSteps()[1].GetPython(); got.GetIndex() != 1 || !got.GetArgs()["lower"].GetBool() {
		t.Errorf("got %v", got)
	}
	text, err := Format(s)
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, string(text)); !proto.Equal(again, s) {
		t.Errorf("written as\n%s", text)
	}
}

func TestMistakesOfCallsInText(t *testing.T) {
	_, err := Parse([]byte(`
transforms:
- {op: python, in: a, out: {b: int32}}
- {op: python, call: , out: [b]}
- {op: python, call: "m:f", out: {b: int, c: 5, d: lst<int32>}, args: 5}
- {op: python, call: "m:f", out: tokens, kind: flatmap, by: row, timeout: 0, most: -1, thread: 2}
- {op: python, call: 7, timeout: soon, args: {a: {b: c}}}
`))
	compareProblems(t, err, []string{
		`transforms[0].call: found nothing (line 3); want the function by its name, such as mypkg.features:tokenize`,
		`transforms[1].out: found a list (line 4); want a mapping of what the function makes to types, such as {tokens: list<int32>}`,
		`transforms[1].call: found nothing (line 4)`,
		`transforms[2].out.b: found "int" (line 5); want a type, such as int32, string, list<float32> or tensor<3x224x224xuint8>`,
		`transforms[2].out.c: found 5 (line 5); want a type`,
		`transforms[2].out.d: found "lst<int32>" (line 5); want a type`,
		`transforms[2].args: found 5 (line 5); want a mapping of keywords, such as {lower: true}`,
		`transforms[3].out: found "tokens" (line 6); want a mapping`,
		`transforms[3].kind: found "flatmap" (line 6); want one of map, filter, flat_map; nearest: flat_map`,
		`transforms[3].by: found "row" (line 6); want one of arrow, numpy, rows; nearest: rows`,
		`transforms[3].timeout: found 0 (line 6); want seconds for each call, from 0.001 to 86400 (a day)`,
		`transforms[3].most: found -1 (line 6); want an integer`,
		`transforms[3].thread: unknown field (line 6); nearest: threads; known of a call of a function: op, call, in, out`,
		`transforms[4].call: found 7 (line 7); want text`,
		`transforms[4].timeout: found "soon" (line 7); want seconds`,
		`transforms[4].args.a: found a mapping (line 7); want a number`,
	})
	_, err = Parse([]byte(`{"transforms": {"op": "python", "call": "m:f", "out": {"a": "bool", "a": "bool"}, "args": {"b": 1, "b": 1}}}`))
	compareProblems(t, err, []string{"transforms.out.a: stands here twice", "transforms.args.b: stands here twice"})
}

func TestMistakesOfCalls(t *testing.T) {
	for text, want := range map[string]string{
		`call: "f", out: {n: int32}`:                     `.call: found "f"; want a module and a name in it, of 128 bytes at most, such as mypkg.features:tokenize`,
		`call: "a..b:f", out: {n: int32}`:                `.call: found "a..b:f"`,
		`call: "m:f", kind: map`:                         `.out: found nothing; want what f makes of each row: one result or more`,
		`call: "m:f", kind: filter, out: {n: int32}`:     `.out: found 1; f is of kind filter`,
		`call: "m:f", out: {n: int32}, most: 3`:          `.most: found 3; only functions of kind flat_map`,
		`call: "m:f", out: {n: int32}, threads: 300`:     `.threads: f asks for 300`,
		`call: "m:f", out: {n: int32}, memory: 5`:        `.memory: f asks for 5 bytes`,
		`call: "m:f", out: {n: int32}, args: {"a b": 1}`: `.args: found "a b"; want keywords of f, such as lower`,
		`call: "m:f", out: {price: int32}`:               `.out.price: `,
		`call: "m:f", out: {"n*": int32}`:                `.out.n*: found the name "n*"`,

		`call: "m:f", out: {n: int32}, args: {a: "` + strings.Repeat("x", maxArgBytes) + `"}`: `.args: those of f take 131`,
	} {
		s := mustParse(t, head+"features: {bytes: raw}\ntransforms: [{op: python, in: title, "+text+"}]")
		if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err == nil || !strings.HasPrefix(err.Error(), "transforms[0]"+want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

// TestFunctionsByNameAndByValue of one session are refused, as is code that is not theirs.
func TestFunctionsByNameAndByValue(t *testing.T) {
	s := specOf(t, "features: {bytes: raw}\ntransforms: {op: python, call: \"m:f\", in: title, out: {n: int32}}",
		calling([]string{"title"}, result("tokens", pb.Kind_INT32)))
	const mixed = "transforms[1]: calls f by name, and transforms[0] calls tokenize by value; want all functions of a session " +
		"the same way: put them all into modules that the workers have, or give penstock.op the functions themselves"
	if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err == nil || !strings.HasPrefix(err.Error(), mixed) {
		t.Errorf("got %v", err)
	}
	s = mustParse(t, calls)
	s.Code = codeOf("my.text:good", "my.text:tokenize")
	_, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()})
	compareProblems(t, err, []string{"code.functions: found my.text:good, my.text:tokenize, and the transforms call my.text:good, " +
		"my.text:tokenize, my.text:embed and 2 more; leave `code` out"})
	s.Code = codeOf(NamedCalls(s)...)
	if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err != nil {
		t.Errorf("with its own code: %v", err)
	}
	s.Python = "\x00"
	_, err = Resolve(s, Given{Schema: withText(), Catalog: newCatalog()})
	compareProblems(t, err, []string{`python: found "\x00"; want the name of an environment of the workers`})
}

// marked are the functions of a spec as an environment may have them: with the spec's results, and settings of their own.
func marked(s *pb.Spec) *pb.CallsReply {
	reply, n := &pb.CallsReply{Identity: codeOf(NamedCalls(s)...)}, named{}
	for _, c := range s.GetTransforms() {
		f := proto.CloneOf(c.GetPython())
		if int(n.number(f)) < len(reply.GetFunctions()) {
			continue
		}
		f.Style, f.Memory, f.Threads, f.TimeoutMs, f.Deterministic = pb.Style_NUMPY, 1<<28, 3, 7000, true
		m := &pb.MarkedFunction{Function: f}
		for _, r := range c.GetOuts() {
			m.Results = append(m.Results, proto.CloneOf(r))
		}
		reply.Functions = append(reply.Functions, m)
	}
	for _, m := range reply.GetFunctions()[3:] { // count
		m.Results[0].Name = ""
	}
	return reply
}

// TestPin holds that a spec takes from marks what it leaves out, and that it means the same before and after.
func TestPin(t *testing.T) {
	s := mustParse(t, calls)
	pinned, err := Pin(s, marked(s))
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(pinned.GetCode(), codeOf(NamedCalls(s)...)) || s.GetCode() != nil {
		t.Errorf("its code is %v", pinned.GetCode())
	}
	embed, count := pinned.GetTransforms()[2].GetPython(), pinned.GetTransforms()[3].GetPython()
	if embed.GetStyle() != pb.Style_ROWS || embed.GetThreads() != 2 || embed.GetTimeoutMs() != 1500 || embed.GetMemory() != 1<<30 {
		t.Errorf("what the spec says is %v", embed)
	}
	if count.GetStyle() != pb.Style_NUMPY || count.GetThreads() != 3 || count.GetTimeoutMs() != 7000 || !count.GetDeterministic() {
		t.Errorf("what the mark says is %v", count)
	}
	if _, err := Resolve(pinned, Given{Schema: withText(), Catalog: newCatalog()}); err != nil {
		t.Error(err)
	}
	if got := Diff(pinned, PinnedLike(s, pinned)); got != nil {
		t.Errorf("it differs from what it was made of: %v", got)
	}
	again, err := Pin(pinned, marked(s)) // a spec that was read from a session
	if err != nil || !proto.Equal(again, pinned) {
		t.Errorf("pinned again it is %v, %v", again, err)
	}
	for want, change := range map[string]func(*pb.Spec){
		"transforms[3].python.style: numpy and rows": func(s *pb.Spec) { s.Transforms[3].Python.Style = pb.Style_ROWS },
		`python: "vision" and "default"`:             func(s *pb.Spec) { s.Python = "" },
		`transforms[3].python.call: "my.text:count" and "my.text:other"`: func(s *pb.Spec) {
			s.Transforms[3].Python.Call = "my.text:other"
		},
		"transforms[3].python.args.of: [a, 1] and nothing": func(s *pb.Spec) { s.Transforms[3].Python.Args = nil },
	} {
		other := proto.CloneOf(s)
		change(other)
		if got := Diff(pinned, PinnedLike(other, pinned)); len(got) == 0 || !slices.Contains(got, want) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func TestMarksThatSayAnother(t *testing.T) {
	s := mustParse(t, calls)
	for want, change := range map[string]func(*pb.CallsReply){
		"transforms[0].kind: found filter, and my.text:good is marked as map; write kind: map, or change the mark": func(r *pb.CallsReply) {
			r.Functions[0].Function.Kind = pb.FunctionKind_FUNCTION_KIND_UNSPECIFIED
		},
		"transforms[1].out: found {tokens: list<int32>, clean: string}, and my.text:tokenize is marked with {tokens: list<int64>, " +
			"clean: binary}; write it as the mark has it, in its order, or change the mark": func(r *pb.CallsReply) {
			r.Functions[1].Results[0].Type.Kind, r.Functions[1].Results[1].Text = pb.Kind_INT64, false
		},
		"transforms[1].out: found {tokens: list<int32>, clean: string}, and my.text:tokenize is marked with {clean: string, " +
			"tokens: list<int32>}": func(r *pb.CallsReply) { slices.Reverse(r.Functions[1].Results) },
		"transforms[2].out: found {vector: tensor<2x3xfloat16>}, and my.text:embed is marked with {vector: list<float16>}": func(
			r *pb.CallsReply,
		) {
			r.Functions[2].Results[0].Shape = nil
		},
		"transforms[3].out: found {n: int32}, and my.text:count is marked with {NAME: bool}": func(r *pb.CallsReply) {
			r.Functions[3].Results[0].Type.Kind = pb.Kind_BOOL
		},
		"transforms[4].out: found {m: int32}, and my.text:count is marked with nothing": func(r *pb.CallsReply) {
			r.Functions[4].Results = nil
		},
		"transforms[4].call: a worker told nothing of my.text:count": func(r *pb.CallsReply) { r.Functions[4] = nil },
		"a worker was asked for my.text:good, my.text:tokenize, my.text:embed and 2 more, and told of my.text:good": func(
			r *pb.CallsReply,
		) {
			r.Identity.Functions = r.Identity.Functions[:1]
		},
	} {
		reply := marked(s)
		change(reply)
		if _, err := Pin(s, reply); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	other := proto.CloneOf(s)
	other.Code = codeOf(NamedCalls(s)...)
	other.Code.Python = "3.11"
	_, err := Pin(other, marked(s))
	compareProblems(t, err, []string{`code: the workers have another one: code: the functions run with Python 3.11 and with 3.12; leave`})
	other = proto.CloneOf(s)
	other.Transforms[0].Python.Rng = true
	reply := marked(other)
	reply.Functions[0].Function.Rng = false
	_, err = Pin(other, reply)
	compareProblems(t, err, []string{"transforms[0].rng: my.text:good is not marked with rng=True"})
}

// TestAnyCallsAreReadBack draws calls as specs may have them.
func TestAnyCallsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"m:f", "a", "no", "{", "#", "x: y", "op", "out"}))
		f := &pb.Function{
			Call: "m:" + text.Draw(t, "call"), Kind: pb.FunctionKind(rapid.IntRange(0, 3).Draw(t, "kind")),
			Style: pb.Style(rapid.IntRange(0, 3).Draw(t, "style")), Memory: rapid.Int64().Draw(t, "memory"),
			Threads: rapid.Uint32().Draw(t, "threads"), TimeoutMs: rapid.Int64Range(0, maxTimeout).Draw(t, "timeout"),
			Most: rapid.Uint32().Draw(t, "most"),
		}
		c := &pb.Transform{Op: FunctionOp, Python: f, In: rapid.SliceOfN(text, 0, 2).Draw(t, "in")}
		for _, name := range rapid.SliceOfNDistinct(text, 0, 2, rapid.ID).Draw(t, "args") {
			if f.Args == nil {
				f.Args = map[string]*pb.Value{}
			}
			f.Args[name] = &pb.Value{Kind: &pb.Value_Text{Text: text.Draw(t, "value")}}
		}
		for _, name := range rapid.SliceOfNDistinct(text, 0, 2, rapid.ID).Draw(t, "outs") {
			r := result(name, pb.Kind_INT32, rapid.SliceOfN(rapid.Int32Range(1, 5), 0, 2).Draw(t, "shape")...)
			c.Outs = append(c.Outs, r)
		}
		s := &pb.Spec{Transforms: []*pb.Transform{c}, Python: text.Draw(t, "python")}
		formatted, err := Format(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(formatted)
		if err != nil {
			t.Fatalf("%v\n%s", err, formatted)
		}
		if !proto.Equal(got, s) {
			t.Fatalf("%s\nis read as %v\nwant %v", formatted, got, s)
		}
	})
}
