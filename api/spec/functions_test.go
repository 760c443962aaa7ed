package spec

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// withText has the columns of tensors, of which some are text, and pictures' bytes.
func withText() Schema {
	s := shaped()
	for i := range s.Columns {
		s.Columns[i].Text = s.Columns[i].Name == "words"
	}
	title := column("title", pb.Kind_BINARY)
	title.Text = true
	tags := mapColumn("tags", pb.Kind_BINARY, pb.Kind_BINARY)
	for i := range tags {
		tags[i].Text = true
	}
	return Schema{Columns: append(append(s.Columns, title, column("price", pb.Kind_FLOAT32)), tags...)}
}

func result(name string, k pb.Kind, shape ...int32) *pb.Result {
	return &pb.Result{Name: name, Type: &pb.Type{Kind: k, List: len(shape) > 0}, Shape: shape}
}

func listResult(name string, k pb.Kind, nested uint32) *pb.Result {
	return &pb.Result{Name: name, Type: &pb.Type{Kind: k, List: true, Nested: nested}}
}

// calling is a transform that calls the first function.
func calling(in []string, outs ...*pb.Result) *pb.Transform {
	return &pb.Transform{Op: FunctionOp, In: in, Outs: outs, Python: &pb.Function{Name: "tokenize"}}
}

// codeOf is the code of functions of such names.
func codeOf(names ...string) *pb.Code {
	digest := bytes.Repeat([]byte{7}, 32)
	c := &pb.Code{Digest: digest, Python: "3.12", Distributions: []string{"numpy==2.1.0", "pyarrow==17.0.0"}}
	for _, name := range names {
		c.Functions = append(c.Functions, &pb.NamedDigest{Name: name, Digest: digest})
	}
	return c
}

// specOf has the features and transforms of a text, and calls before these.
func specOf(t testing.TB, text string, calls ...*pb.Transform) *pb.Spec {
	t.Helper()
	s := mustParse(t, head+text)
	s.Transforms = append(calls, s.GetTransforms()...)
	s.Code = codeOf("tokenize", "embed")
	return s
}

// opsOfFunctions has ops that refuse what they do not know, like real ones.
func opsOfFunctions() fakeCatalog {
	c := newCatalog()
	for name, op := range c {
		check := op.check
		op.check = func(params map[string]*pb.Value, in []Type) (Signature, error) {
			if slices.ContainsFunc(in, func(t Type) bool { return !t.Computes() }) {
				return Signature{}, fmt.Errorf("in: want numbers, found %v", in)
			}
			return check(params, in)
		}
		c[name] = op
	}
	return c
}

func TestFunctions(t *testing.T) {
	embed := calling([]string{"tokens", "tiny", "half", "matrix", "tags.a", "count"}, result("embedding", pb.Kind_FLOAT16, 2, 3),
		result("small", pb.Kind_UINT8), listResult("grid", pb.Kind_INT32, 2), result("unused", pb.Kind_BOOL))
	embed.Python = &pb.Function{
		Name: "embed", Index: 1, Style: pb.Style_NUMPY, Kind: pb.FunctionKind_MAP, Threads: 4, TimeoutMs: 1000,
		Memory: 1 << 30, Deterministic: true,
	}
	clean := result("title", pb.Kind_BINARY)
	clean.Text = true
	s := specOf(t, `
filter: tiny > 3
features:
- {padded: tokens, length: 8}
- {tensor: embedding}
- {tensor: small, default: 255}
- {tensor: grid, shape: [1, 2, 3]}
- {dense: count_log}
- {bytes: title}
transforms:
- {op: log1p, in: count, out: count_log}
- {op: fill_null, in: title, value: ""}
`, calling([]string{"title", "words", "raw"}, listResult("tokens", pb.Kind_INT32, 0), clean,
		result("count", pb.Kind_INT64)), embed, calling([]string{"title"}, result("dead", pb.Kind_INT32)))
	p, err := Resolve(s, Given{Schema: withText(), Catalog: opsOfFunctions()})
	if err != nil {
		t.Fatal(err)
	}
	const want = `0 tiny int32
1 tiny int8
2 half list<float16>
3 matrix list<list<float64>>
4 raw binary
5 words list<binary>
6 title binary
7 tags.a binary key a of [tags]
transforms[0] python [6 5 4] outs 3 tokens, title, count list<int32>
transforms[1] python [8 1 2 3 7 10] outs 4 embedding, small, grid, unused list<float16>
transforms[3] log1p [10] outs 1 count_log float32
transforms[4] fill_null [9] outs 1 title binary
PADDED tokens [8] int32 shape [8]
TENSOR embedding [11] float16 shape [2 3]
TENSOR small [12] uint8
TENSOR grid [13] int32 shape [1 2 3]
DENSE dense [15] float32 of count_log
BYTES title [16] binary
`
	if got := show(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	first, second := p.GetSteps()[0], p.GetSteps()[1]
	wantFirst := &pb.Function{
		Name: "tokenize", Kind: pb.FunctionKind_MAP, Style: pb.Style_ARROW, Threads: 1, TimeoutMs: 300_000,
		Texts: []uint32{0, 1},
	}
	wantSecond := proto.CloneOf(embed.GetPython())
	wantSecond.Texts = []uint32{4}
	if !proto.Equal(first.GetPython(), wantFirst) || !proto.Equal(second.GetPython(), wantSecond) {
		t.Errorf("got %v\nand %v", first.GetPython(), second.GetPython())
	}
	if first.GetVersion() != 1 || len(first.GetMore()) != 2 || TypeFromProto(first.GetMore()[0]) != (Type{Kind: pb.Kind_BINARY}) ||
		len(second.GetMore()) != 3 {
		t.Errorf("got %v\nand %v", first, second)
	}
	for i, at := range []int{0, 1} { // what a function makes goes with it: the Program's types know neither shapes nor text
		if got := p.GetSteps()[i].GetResults(); !slices.EqualFunc(got, s.GetTransforms()[at].GetOuts(),
			func(a, b *pb.Result) bool { return proto.Equal(a, b) }) {
			t.Errorf("step %d makes %v", i, got)
		}
	}
	if byName := SourcesByName(p.GetSources()); byName["tiny"] != 0 {
		t.Errorf("filters mean %v", byName)
	}
	if embed.GetPython().GetTexts() != nil {
		t.Error("the spec was changed")
	}
}

// TestTextStaysText follows text through ops and functions: those that keep values keep it, if they still are bytes.
func TestTextStaysText(t *testing.T) {
	text, plain := result("made", pb.Kind_BINARY), result("plain", pb.Kind_BINARY)
	text.Text = true
	s := specOf(t, `features: {tensor: last}`, calling([]string{"title"}, text, plain))
	s.Transforms = append(s.Transforms,
		&pb.Transform{Op: "fill_null", In: []string{"title", "raw", "made"}, Out: "{}_filled"},
		&pb.Transform{Op: "first_x", In: []string{"made_filled", "words"}, Out: "{}_first"},
		calling([]string{
			"title", "title_filled", "raw_filled", "made", "made_filled", "made_filled_first", "words_first", "plain",
			"tags.a", "tags.key", "tags.value", "price",
		}, result("last", pb.Kind_INT32)))
	p, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()})
	if err != nil {
		t.Fatal(err)
	}
	last := p.GetSteps()[len(p.GetSteps())-1]
	if got := last.GetPython().GetTexts(); !slices.Equal(got, []uint32{0, 1, 3, 4, 5, 6, 8, 9, 10}) {
		t.Errorf("text are %v", got)
	}
	number := fakeCatalog{"to": {true, func(map[string]*pb.Value, []Type) (Signature, error) {
		return Signature{Version: 1, Out: Type{Kind: pb.Kind_INT64}, Keeps: true}, nil
	}}}
	s = specOf(t, `features: {dense: last}`, &pb.Transform{Op: "to", In: []string{"title"}, Out: "number"},
		calling([]string{"number"}, result("last", pb.Kind_INT32)))
	if p, err = Resolve(s, Given{Schema: withText(), Catalog: number}); err != nil || p.GetSteps()[1].GetPython().GetTexts() != nil {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestMistakesOfFunctions(t *testing.T) {
	one := result("n", pb.Kind_INT32)
	call := func(change func(*pb.Transform)) *pb.Transform {
		c := calling([]string{"title"}, result("n", pb.Kind_INT32))
		change(c)
		return c
	}
	asked := func(f *pb.Function) *pb.Transform {
		f.Name = "tokenize"
		return call(func(c *pb.Transform) { c.Python = f })
	}
	makes := func(outs ...*pb.Result) *pb.Transform { return calling([]string{"title"}, outs...) }
	text := func(r *pb.Result) *pb.Result {
		r.Text = true
		return r
	}
	long := strings.Repeat("n", maxLabel+1)
	many := make([]*pb.Result, maxResults+1)
	for i := range many {
		many[i] = result(fmt.Sprint("n", i), pb.Kind_INT32)
	}
	for _, c := range []struct {
		call *pb.Transform
		want string
	}{
		{call(func(c *pb.Transform) { c.Python = nil }), "transforms[0].op: python without a function and its code; name a " +
			"function of the workers, as in call: \"mypkg.features:tokenize\", or make the transform in Python, by penstock.op"},
		{call(func(c *pb.Transform) { c.Out = "m" }), "transforms[0]: a call of tokenize has neither `out` nor parameters; " +
			"`outs` says what it makes"},
		{call(func(c *pb.Transform) { c.Params = map[string]*pb.Value{"args": {}} }), "transforms[0]: a call of tokenize has " +
			"neither `out` nor parameters; `outs` says what it makes"},
		{
			call(func(c *pb.Transform) { c.Python.Name = "" }),
			`transforms[0].python.name: found ""; want a name of 1 to 128 printable bytes`,
		},
		{
			call(func(c *pb.Transform) { c.Python.Name = "a\nb" }),
			`transforms[0].python.name: found "a\nb"; want a name of 1 to 128 printable bytes`,
		},
		{call(func(c *pb.Transform) { c.Python.Name = long }), `transforms[0].python.name: found "` + long[:40] +
			`"; want a name of 1 to 128 printable bytes`},
		{asked(&pb.Function{Index: 2}), "transforms[0].python.index: found 2 for tokenize; want less than 2: the spec's " +
			"code has so many functions"},
		{asked(&pb.Function{Kind: pb.FunctionKind_FILTER}), "transforms[0].outs: found 1; tokenize is of kind filter, which " +
			"chooses rows and makes nothing of them; leave them out"},
		{call(func(c *pb.Transform) { c.Python.Kind, c.Outs = pb.FunctionKind_FLAT_MAP, nil }), "transforms[0].outs: found " +
			"nothing; want what tokenize makes of each row: one result or more"},
		{asked(&pb.Function{Kind: 9}), "transforms[0].python.kind: tokenize is of kind 9; want map, filter or flat_map"},
		{asked(&pb.Function{Most: 3}), "transforms[0].python.most: found 3; only functions of kind flat_map make more rows " +
			"than they get, and tokenize is of another"},
		{asked(&pb.Function{Kind: pb.FunctionKind_FLAT_MAP, Most: 1<<16 + 1}), "transforms[0].python.most: tokenize asks for " +
			"65537; want at most 65536 rows for each row that it gets"},
		{asked(&pb.Function{Style: 9}), "transforms[0].python.style: tokenize has style 9; want arrow, numpy or rows"},
		{asked(&pb.Function{Memory: 1 << 20}), "transforms[0].python.memory: tokenize asks for 1048576 bytes; want 67108864 " +
			"(64 MiB) to 1099511627776 (1 TiB) for each process"},
		{asked(&pb.Function{Memory: -1}), "transforms[0].python.memory: tokenize asks for -1 bytes; want 67108864 (64 MiB) " +
			"to 1099511627776 (1 TiB) for each process"},
		{asked(&pb.Function{Memory: math.MaxInt64}), "transforms[0].python.memory: tokenize asks for 9223372036854775807 " +
			"bytes; want 67108864 (64 MiB) to 1099511627776 (1 TiB) for each process"},
		{asked(&pb.Function{Threads: 257}), "transforms[0].python.threads: tokenize asks for 257; want at most 256"},
		{asked(&pb.Function{TimeoutMs: -1}), "transforms[0].python.timeout_ms: tokenize asks for -1 ms; want 1 to 86400000 (a " +
			"day) for each call"},
		{asked(&pb.Function{TimeoutMs: 86400001}), "transforms[0].python.timeout_ms: tokenize asks for 86400001 ms; want 1 " +
			"to 86400000 (a day) for each call"},
		{asked(&pb.Function{Texts: []uint32{0}}), "transforms[0].python.texts: found [0]; which inputs are text, the files say"},

		{calling(nil, one), "transforms[0].in: found nothing; want the features that tokenize is called with"},
		{calling([]string{""}, one), "transforms[0].in: found an empty name; want a feature's name"},
		{calling([]string{"title", "raw", "title"}, one), "transforms[0].in: title stands here twice; tokenize gets a feature " +
			"once"},
		{calling([]string{"t*"}, one), "transforms[0].in: found t*; want the name of a feature for each argument of tokenize, " +
			"and no glob"},
		{calling([]string{"titel"}, one), "transforms[0].in: no feature titel; nearest: title"},
		{calling([]string{"tags"}, one), "transforms[0].in: tags is a map with binary keys; select one of its keys, such as " +
			"tags.some_key"},

		{makes(), "transforms[0].outs: found nothing; want what tokenize makes of each row: one result or more"},
		{makes(many...), "transforms[0].outs: tokenize makes 65 results; want at most 64"},
		{makes(one, result("", pb.Kind_INT32)), `transforms[0].outs[1]: found the name ""; want 1 to 128 printable bytes ` +
			`without *, ?, [ and \`},
		{makes(one, result("n*", pb.Kind_INT32)), `transforms[0].outs[1]: found the name "n*"; want 1 to 128 printable bytes ` +
			`without *, ?, [ and \`},
		{makes(one, result("n", pb.Kind_INT64)), "transforms[0].outs[1]: n stands here twice; want a name for each result of " +
			"tokenize"},
		{makes(one, result("raw", pb.Kind_INT64)), "transforms[0].outs[1]: raw is a column of the dataset already; choose " +
			"another name"},
		{makes(result("n", pb.Kind_PICTURE)), "transforms[0].outs[0]: n is picture(0 channels, of any size); want a bool, a " +
			"number (not bfloat16), binary, or lists of such"},
		{makes(result("n", pb.Kind_BFLOAT16)), "transforms[0].outs[0]: n is bfloat16; want a bool, a number (not bfloat16), " +
			"binary, or lists of such"},
		{makes(&pb.Result{Name: "n"}), "transforms[0].outs[0]: n is kind_unspecified; want a bool, a number (not bfloat16), " +
			"binary, or lists of such"},
		{makes(&pb.Result{Name: "n", Type: &pb.Type{Kind: pb.Kind_INT32, Picture: &pb.Picture{Width: 3}}}), "transforms[0]" +
			".outs[0]: n is int32; want a bool, a number (not bfloat16), binary, or lists of such"},
		{makes(&pb.Result{Name: "n", Type: &pb.Type{Kind: pb.Kind_INT32, Nested: 2}}), "transforms[0].outs[0]: n has 2 " +
			"levels of lists in a list, and is none"},
		{makes(listResult("n", pb.Kind_INT32, 8)), "transforms[0].outs[0]: n has 8 levels of lists within a list; want at " +
			"most 7"},
		{makes(text(result("n", pb.Kind_INT32))), "transforms[0].outs[0]: n is int32, and text; only binary is"},
		{makes(&pb.Result{Name: "n", Type: &pb.Type{Kind: pb.Kind_INT32}, Shape: []int32{2}}), "transforms[0].outs[0]: n is " +
			"int32 with shape [2]; want a list of numbers or bools, row by row"},
		{makes(&pb.Result{Name: "n", Type: listResult("n", pb.Kind_INT32, 1).GetType(), Shape: []int32{2}}), "transforms[0]" +
			".outs[0]: n is list<list<int32>> with shape [2]; want a list of numbers or bools, row by row"},
		{makes(result("n", pb.Kind_BINARY, 2)), "transforms[0].outs[0]: n is list<binary> with shape [2]; want a list of " +
			"numbers or bools, row by row"},
		{makes(result("n", pb.Kind_INT32, 2, 0)), "transforms[0].outs[0]: n has shape [2 0]; want numbers above 0, and less " +
			"than 2 GiB in each row"},
		{makes(result("n", pb.Kind_INT64, 1<<20, 1<<8)), "transforms[0].outs[0]: n has shape [1048576 256]; want numbers " +
			"above 0, and less than 2 GiB in each row"},
		{&pb.Transform{Op: "clamp", In: []string{"price"}, Python: &pb.Function{Name: "f"}}, "transforms[0]: found a " +
			`function of Python, or its results, with op "clamp"; want op python`},
		{&pb.Transform{Op: "clamp", In: []string{"price"}, Outs: []*pb.Result{one}}, "transforms[0]: found a " +
			`function of Python, or its results, with op "clamp"; want op python`},
	} {
		s := specOf(t, "features: {dense: price}", c.call)
		if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// TestMistakesAroundFunctions has calls that are right, and features and ops that do not go with what they make.
func TestMistakesAroundFunctions(t *testing.T) {
	call := calling([]string{"title"}, result("vector", pb.Kind_FLOAT32, 2, 3), result("tiny_n", pb.Kind_INT8),
		listResult("deep", pb.Kind_INT64, 1), listResult("scores", pb.Kind_FLOAT32, 1), listResult("ids", pb.Kind_INT64, 0))
	call.In = append(call.In, "ids")
	ops := opsOfFunctions()
	for text, want := range map[string]string{
		"features: {tensor: vector}":                                           "",
		"features: {tensor: vector, shape: [2, 3]}":                            "",
		"features: {tensor: vector, shape: [3, 2]}":                            "features[0]: vector: list<float32>; shape [3 2] is not that of its rows, [2 3]; leave it out",
		"features: {tensor: deep}":                                             "features[0]: deep: list<list<int64>>; say by `shape:` what shape its rows have, such as [768]: the files name none for all",
		"features: {dense: tiny_n}":                                            "features[0]: tiny_n: int8; only layouts tensor and padded take int8",
		"features: {label: tiny_n}":                                            "features[0]: tiny_n: int8; only layouts tensor and padded take int8",
		"features: {sparse: tiny_n}":                                           "features[0]: tiny_n: int8; only layouts tensor and padded take int8",
		"features: {sparse: deep}":                                             "features[0]: deep: list<list<int64>>; only layout tensor takes lists of lists",
		"features: {sparse: ids, weights: scores}":                             "features[0].weights: scores is list<list<float32>>; weights are floats, one for each id",
		"features: {tensor: tiny_n, default: 300}":                             "features[0]: tiny_n: int8; `default:` is 300, which is no int8",
		"features: {sparse: vector, default: 3}":                               "features[0].default: vector: made by transforms, and defaults are for columns of the dataset; use fill_null",
		"features: {tensor: tiny_n}\nfilter: tiny_n > 3":                       "filter: tiny_n is made by transforms[0]; filters see the dataset's columns only",
		"features: {bytes: raw}\ntransforms: {op: log1p, in: tiny_n}":          "transforms[1]: in: want numbers, found [int8] (tiny_n)",
		"features: {bytes: raw}\ntransforms: {op: fill_null, in: deep}":        "transforms[1]: in: want numbers, found [list<list<int64>>] (deep)",
		"features: {bytes: raw}\ntransforms: {op: log1p, in: price, out: ids}": "transforms[1].out: ids is made by transforms[0] already; choose another name",
		"features: {bytes: raw}\ntransforms: {op: clamp, in: ids, outs: 3}":    "",
	} {
		got := ""
		if _, err := Resolve(specOf(t, text, proto.CloneOf(call)), Given{Schema: withText(), Catalog: ops}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	pictures := func(style pb.Style, floats bool) string {
		ops["decode"] = fakeOp{true, func(map[string]*pb.Value, []Type) (Signature, error) {
			of := Picture{Channels: 3, Height: 4, Width: 5, Floats: floats}
			return Signature{Version: 1, Out: Type{Kind: pb.Kind_PICTURE, Picture: of}}, nil
		}}
		c := calling([]string{"picture"}, result("n", pb.Kind_INT32))
		c.Python.Style = style
		decode := &pb.Transform{Op: "decode", In: []string{"raw"}, Out: "picture"}
		_, err := Resolve(specOf(t, "features: {bytes: raw}", decode, c), Given{Schema: withText(), Catalog: ops})
		return fmt.Sprint(err)
	}
	for _, style := range []pb.Style{pb.Style_ROWS, pb.Style_NUMPY} {
		if got := pictures(style, false); got != "<nil>" {
			t.Errorf("by %v: %s", style, got)
		}
	}
	const arrow = "transforms[1].in: picture is picture(3 channels, 4 x 5), for which Arrow has no arrays; have tokenize " +
		`called with NumPy arrays, by="numpy", or with each picture by itself, by="rows"`
	if got := pictures(pb.Style_ARROW, false); got != arrow {
		t.Errorf("got  %s\nwant %s", got, arrow)
	}
	const floats = "transforms[1].in: picture is picture(3 channels, 4 x 5, float32), which normalize made; functions " +
		"take pictures of bytes: call tokenize before it"
	if got := pictures(pb.Style_ROWS, true); got != floats {
		t.Errorf("got  %s\nwant %s", got, floats)
	}
}

// TestFunctionsThatDecideWhichRowsThereAre are run with all that they read, in the spec's order, though no tensor reads
// what they make.
func TestFunctionsThatDecideWhichRowsThereAre(t *testing.T) {
	clean := calling([]string{"title"}, result("clean", pb.Kind_BINARY))
	good := calling([]string{"clean", "price"})
	good.Python = &pb.Function{Name: "good", Kind: pb.FunctionKind_FILTER}
	chunk := calling([]string{"words"}, result("chunk", pb.Kind_BINARY), result("length", pb.Kind_INT32))
	chunk.Python = &pb.Function{Name: "chunk", Kind: pb.FunctionKind_FLAT_MAP}
	s := specOf(t, "features: {dense: price_log}\nprovenance: true\nfilter: tiny > 3")
	s.Transforms = []*pb.Transform{
		{Op: "sample"},
		clean,
		{Op: "log1p", In: []string{"price"}, Out: "price_log"},
		good, chunk,
		{Op: "log1p", In: []string{"half"}, Out: "dead"},
	}
	p, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()})
	if err != nil {
		t.Fatal(err)
	}
	const want = `0 tiny int32
1 words list<binary>
2 title binary
3 price float32
transforms[0] sample [] outs 0  kind_unspecified
transforms[1] python [2] outs 1 clean binary
transforms[2] log1p [3] outs 1 price_log float32
transforms[3] python [4 3] outs 0  kind_unspecified
transforms[4] python [1] outs 2 chunk, length binary
DENSE dense [5] float32 of price_log
`
	if got := show(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if good, chunk := p.GetSteps()[3].GetPython(), p.GetSteps()[4].GetPython(); good.GetMost() != 0 ||
		good.GetKind() != pb.FunctionKind_FILTER || chunk.GetMost() != 1024 {
		t.Errorf("got %v\nand %v", good, chunk)
	}
	if RowsOf(p) != MoreRows || !HasParts(p) || MostRows(p, 10) != 10240 {
		t.Errorf("%v rows, at most %d of 10", RowsOf(p), MostRows(p, 10))
	}
	explained := proto.CloneOf(s)
	explained.Transforms[4].Python.Most = 1024
	if got := Diff(s, explained); got != nil {
		t.Errorf("defaults differ: %v", got)
	}
}

func TestMistakesBehindBarriers(t *testing.T) {
	filtering := calling([]string{"title"})
	filtering.Python = &pb.Function{Name: "good", Kind: pb.FunctionKind_FILTER}
	chunk := calling([]string{"title"}, result("_part", pb.Kind_INT32))
	chunk.Python = &pb.Function{Name: "chunk", Kind: pb.FunctionKind_FLAT_MAP}
	sampling := []*pb.Transform{{Op: "sample"}, {Op: "keep_if", In: []string{"price", "raw"}}}
	for _, c := range []struct {
		transforms []*pb.Transform
		want       string
	}{
		{append(sampling, filtering), ""},
		{append([]*pb.Transform{calling([]string{"title"}, result("n", pb.Kind_INT32))}, sampling...), ""},
		{append([]*pb.Transform{filtering, chunk}, sampling[0]), "transforms[2]: sample chooses rows of the files, and " +
			"transforms[0] (good) decides which rows there are; put sample before it"},
		{append([]*pb.Transform{chunk}, sampling[1]), "transforms[1]: keep_if chooses rows of the files, and transforms[0] " +
			"(chunk) decides which rows there are; put keep_if before it (price, raw)"},
	} {
		s := specOf(t, "features: {dense: price}", c.transforms...)
		got := ""
		if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	s := specOf(t, "features: {label: _part}\nprovenance: true", chunk)
	const want = "features[0]: a tensor _part comes from provenance already; rename one by a transform with `out`, or " +
		"select it once"
	if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	chunk.Python.Kind = pb.FunctionKind_MAP
	if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err != nil {
		t.Errorf("one row of each has no parts: %v", err)
	}
}

func TestMistakesOfCode(t *testing.T) {
	const again = "; open the session with this release's Python package"
	for _, c := range []struct {
		change func(*pb.Code)
		want   string
	}{
		{func(c *pb.Code) { c.Digest = c.Digest[:3] }, "code.digest: found 3 bytes; want the 32 of a SHA-256" + again},
		{func(c *pb.Code) { c.Python = "" }, `code.python: found ""; want the interpreter's version, such as 3.12` + again},
		{func(c *pb.Code) { c.Distributions[1] = "a\x00" }, `code.distributions[1]: found "a\x00"; want a distribution and ` +
			"its version, such as numpy==2.1.0" + again},
		{
			func(c *pb.Code) { c.Distributions = slices.Repeat([]string{"a==1"}, 1025) },
			"code.distributions: found 1025; want at most 1024",
		},
		{func(c *pb.Code) { c.Functions = nil }, "code.functions: found 0; want 1 to 1024"},
		{func(c *pb.Code) { c.Functions = slices.Repeat(c.Functions[:1], 1025) }, "code.functions: found 1025; want 1 to 1024"},
		{func(c *pb.Code) { c.Functions[1].Name = "" }, `code.functions[1]: found "" with a digest of 32 bytes; want a name ` +
			"and the 32 bytes of a SHA-256" + again},
		{func(c *pb.Code) { c.Functions[0].Digest = nil }, `code.functions[0]: found "tokenize" with a digest of 0 bytes; ` +
			"want a name and the 32 bytes of a SHA-256" + again},
	} {
		s := specOf(t, "features: {dense: price}")
		if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err != nil {
			t.Fatalf("code that nothing calls: %v", err)
		}
		c.change(s.GetCode())
		if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	s := specOf(t, "features: {tensor: n}", calling([]string{"title"}, result("n", pb.Kind_INT32)))
	s.Code = nil
	if _, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()}); err == nil || !strings.HasPrefix(err.Error(),
		"transforms[0].op: python without a function and its code") {
		t.Errorf("without code: %v", err)
	}
}

// TestMistakesOfFunctionsAreToldOnce: what a call with a mistake makes is known, but for results that are wrong.
func TestMistakesOfFunctionsAreToldOnce(t *testing.T) {
	call := calling([]string{"nothing"}, result("n", pb.Kind_INT32), result("p", pb.Kind_PICTURE))
	s := specOf(t, "features: [{dense: n}, {bytes: n}, {bytes: p}]\ntransforms: {op: clamp, in: p, out: q}", call)
	_, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()})
	compareProblems(t, err, []string{
		"transforms[0].in: no feature nothing",
		"transforms[0].outs[1]: p is picture",
		"features[1]: n: int32; bytes takes one binary value a row",
	})
}

func TestDiffOfFunctions(t *testing.T) {
	vector := result("v", pb.Kind_FLOAT32, 2, 3)
	a := specOf(t, "features: {tensor: n}", calling([]string{"title"}, result("n", pb.Kind_INT32), vector))
	same := proto.CloneOf(a)
	same.Transforms[0].Python.Kind, same.Transforms[0].Python.Style = pb.FunctionKind_MAP, pb.Style_ARROW
	same.Transforms[0].Python.Threads, same.Transforms[0].Python.TimeoutMs = 1, 300_000
	same.Code.Distributions = []string{"pyarrow==17.0.0", "numpy==2.1.0"}
	if got := Diff(a, same); got != nil {
		t.Errorf("defaults differ: %v", got)
	}
	if got := Differing(Fingerprint(a), Fingerprint(same)); got != nil {
		t.Errorf("defaults differ in %v", got)
	}
	limits := same.GetTransforms()[0].GetPython()
	limits.Memory, limits.Threads, limits.TimeoutMs, limits.Deterministic = 1<<30, 4, 1000, true
	if got := Differing(Fingerprint(a), Fingerprint(same)); got != nil || len(Diff(a, same)) != 4 {
		t.Errorf("limits are a part of what states are of: %v; %v", got, Diff(a, same))
	}
	b := specOf(t, "features: {tensor: n}", calling([]string{"raw"}, listResult("n", pb.Kind_INT32, 1),
		result("v", pb.Kind_FLOAT32, 6), result("w", pb.Kind_BOOL)))
	b.Transforms[0].Python.Style, b.Transforms[0].Python.Memory = pb.Style_ROWS, 1<<30
	other := bytes.Repeat([]byte{8}, 32)
	b.Code = codeOf("tokenize", "score", "more")
	b.Code.Digest, b.Code.Functions[0].Digest = other, other
	b.Code.Python, b.Code.Distributions = "3.13", []string{"a-b==1", "numpy==2.2.0", "zlib==1"}
	want := []string{
		`transforms[0].in: ["title"] and ["raw"]`,
		`transforms[0].python.style: arrow and rows`,
		`transforms[0].python.memory: 0 and 1073741824`,
		`transforms[0].outs[0].type: int32 and list<list<int32>>`,
		`transforms[0].outs[1].shape: [2, 3] and [6]`,
		`transforms[0].outs: 2 and 3 entries`,
		`code: function tokenize differs`,
		`code.functions[1]: embed and score`,
		`code.functions: 2 and 3 entries`,
		`code: the functions run with Python 3.12 and with 3.13`,
		`code: the functions run without a-b and with a-b 1`,
		`code: the functions run with numpy 2.1.0 and with 2.2.0`,
		`code: the functions run with pyarrow 17.0.0 and without it`,
		`code: the functions run without zlib and with zlib 1`,
	}
	if got := Diff(a, b); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := Differing(Fingerprint(a), Fingerprint(b)); !slices.Equal(got, []string{"code", "transforms"}) {
		t.Errorf("they differ in %v", got)
	}
	c := proto.CloneOf(a)
	c.Code.Digest = other
	if got := Diff(a, c); !slices.Equal(got, []string{"code: what the functions refer to differs"}) {
		t.Errorf("got %v", got)
	}
	c.Code = nil
	if got := Diff(c, a); !slices.Equal(got, []string{
		"code.functions: 0 and 2 entries", "code: the functions run without Python and with Python 3.12",
		"code: the functions run without numpy and with numpy 2.1.0",
		"code: the functions run without pyarrow and with pyarrow 17.0.0",
	}) {
		t.Errorf("got %v", got)
	}
	if got := Differing(Fingerprint(a)[:8], Fingerprint(c)); got != nil {
		t.Errorf("a state of an earlier release differs in %v", got)
	}
}

// anyCalls adds calls of functions, and their code, to a spec.
func anyCalls(t *rapid.T, s *pb.Spec) {
	few := func(name string, n uint32) uint32 { return rapid.Uint32Range(0, n).Draw(t, name) }
	digest := rapid.SliceOfN(rapid.ByteRange(0, 1), 1, 1)
	label := rapid.SampledFrom([]string{"a", "b"})
	for range few("calls", 2) {
		c := &pb.Transform{Op: FunctionOp, In: []string{"x"}, Python: &pb.Function{
			Name: label.Draw(t, "name"), Index: few("index", 1), Style: pb.Style(few("style", 2)), Memory: int64(few("memory", 1)),
			Threads: few("threads", 2), TimeoutMs: int64(few("timeout", 1)), Deterministic: rapid.Bool().Draw(t, "deterministic"),
			Kind: pb.FunctionKind(few("kind", 2)), Most: few("most", 1),
		}}
		for range few("outs", 2) {
			c.Outs = append(c.Outs, &pb.Result{Name: label.Draw(t, "out"), Text: rapid.Bool().Draw(t, "text"), Type: &pb.Type{
				Kind: pb.Kind(1 + few("kind", 1)), List: rapid.Bool().Draw(t, "list"), Nested: few("nested", 1),
			}, Shape: rapid.SliceOfN(rapid.Int32Range(1, 2), 0, 1).Draw(t, "shape")})
		}
		s.Transforms = append(s.Transforms, c)
	}
	if rapid.Bool().Draw(t, "code") {
		s.Code = &pb.Code{
			Digest: digest.Draw(t, "digest"), Python: rapid.SampledFrom([]string{"3.12", "3.13"}).Draw(t, "python"),
			Distributions: rapid.SliceOfN(rapid.SampledFrom([]string{"a==1", "a==2", "a-b==1", "b==1"}), 0, 3).Draw(t,
				"distributions"),
		}
		for range few("functions", 2) {
			s.Code.Functions = append(s.Code.Functions, &pb.NamedDigest{
				Name: label.Draw(t, "function"), Digest: digest.Draw(t, "function's digest"),
			})
		}
	}
}

// TestDiffOfAnyFunctions draws specs that differ in little but functions.
func TestDiffOfAnyFunctions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := &pb.Spec{}, &pb.Spec{}
		anyCalls(t, a)
		anyCalls(t, b)
		if got := Diff(a, proto.CloneOf(a)); len(got) != 0 {
			t.Fatalf("differs from itself: %v", got)
		}
		got, same := Diff(a, b), equalSpecs(explicit(a), explicit(b))
		if (len(got) == 0) != same {
			t.Fatalf("%v\n%v\ndiffer by %v", a, b, got)
		}
		same = equalSpecs(unlimited(a), unlimited(b))
		if differ := Differing(Fingerprint(a), Fingerprint(b)); (len(differ) == 0) != same {
			t.Fatalf("%v\n%v\ndiffer in %v", a, b, differ)
		}
	})
}

// unlimited is a spec that says nothing of what functions may take.
func unlimited(s *pb.Spec) *pb.Spec {
	s = explicit(s)
	for _, t := range s.GetTransforms() {
		withoutLimits(t.GetPython())
	}
	return s
}

// TestAnyFunctionsResolve draws calls, right and wrong: each is resolved to a program whose slots are in order, or refused.
func TestAnyFunctionsResolve(t *testing.T) {
	names := rapid.SampledFrom([]string{"title", "raw", "price", "tiny", "half", "matrix", "words", "tags.a", "x", "y", "z", "a*"})
	rapid.Check(t, func(t *rapid.T) {
		s := &pb.Spec{Dataset: &pb.Dataset{Uri: []string{"/data/"}}, BatchSize: 1, Code: codeOf("a", "b")}
		anyCalls(t, s)
		s.Code = codeOf("a", "b")
		for _, c := range s.GetTransforms() {
			c.In = rapid.SliceOfN(names, 1, 3).Draw(t, "in")
			c.Python.Kind, c.Python.Memory = pb.FunctionKind(rapid.IntRange(0, 3).Draw(t, "kind")), 0
			for _, out := range c.GetOuts() {
				out.Name = names.Draw(t, "out")
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "features") {
			s.Features = append(s.Features, &pb.Feature{
				Name: []string{names.Draw(t, "feature")}, Layout: pb.Layout(rapid.IntRange(1, 7).Draw(t, "layout")), Length: 3,
			})
		}
		before := proto.CloneOf(s)
		p, err := Resolve(s, Given{Schema: withText(), Catalog: newCatalog()})
		if !proto.Equal(s, before) {
			t.Fatalf("the spec was changed from %v to %v", before, s)
		}
		if err != nil {
			return
		}
		slots := uint32(len(p.GetSources()))
		for _, step := range p.GetSteps() {
			for _, slot := range step.GetIn() {
				if slot >= slots {
					t.Fatalf("%v reads slot %d of %d", step, slot, slots)
				}
			}
			chooses := step.GetPython().GetKind() == pb.FunctionKind_FILTER
			if chooses && (step.GetOuts() != 0 || step.GetType() != nil || step.GetName() != "") {
				t.Fatalf("a filter with results: %v", step)
			}
			if !chooses && (int(step.GetOuts()) != 1+len(step.GetMore()) ||
				len(strings.Split(step.GetName(), ", ")) != int(step.GetOuts())) {
				t.Fatalf("a step with %d results: %v", step.GetOuts(), step)
			}
			slots += step.GetOuts()
		}
		for _, o := range p.GetOutputs() {
			if slices.ContainsFunc(o.GetSlots(), func(slot uint32) bool { return slot >= slots }) {
				t.Fatalf("%v of %d slots", o, slots)
			}
		}
		var want Rows // all that decide which rows there are do so, whether their results are read or not
		for _, c := range s.GetTransforms() {
			switch c.GetPython().GetKind() {
			case pb.FunctionKind_FILTER:
				want = max(want, FewerRows)
			case pb.FunctionKind_FLAT_MAP:
				want = MoreRows
			default:
			}
		}
		if got := RowsOf(p); got != want {
			t.Fatalf("got %v, want %v: %v", got, want, p)
		}
	})
}
