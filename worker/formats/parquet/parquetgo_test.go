package parquet

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	goencoding "github.com/parquet-go/parquet-go/encoding"

	"github.com/penstock-ml/penstock/api/spec"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// goRow is what parquet-go writes: values required, optional and in lists, as it has them, up to three levels deep.
type goRow struct {
	Bool   bool               `parquet:"bool"`
	I8     int8               `parquet:"i8"`
	U8     uint8              `parquet:"u8"`
	U32    uint32             `parquet:"u32"`
	I32    int32              `parquet:"i32"`
	I64    int64              `parquet:"i64"`
	F32    float32            `parquet:"f32"`
	F64    float64            `parquet:"f64"`
	Text   string             `parquet:"text"`
	Fixed  [5]byte            `parquet:"fixed"`
	Coded  string             `parquet:"coded,dict"`
	OBool  *bool              `parquet:"obool,optional"`
	OI32   *int32             `parquet:"oi32,optional"`
	OI64   *int64             `parquet:"oi64,optional"`
	OF32   *float32           `parquet:"of32,optional"`
	OF64   *float64           `parquet:"of64,optional"`
	OText  *string            `parquet:"otext,optional"`
	OCoded *int64             `parquet:"ocoded,optional,dict"`
	List   []int64            `parquet:"list,list"`
	OList  []float32          `parquet:"olist,optional,list"`
	Texts  []string           `parquet:"texts,list"`
	Flags  []bool             `parquet:"flags,list"`
	Bare   []int32            `parquet:"bare"`
	Lists  [][]int16          `parquet:"lists,list"`
	Map    map[string]float64 `parquet:"map"`
	Money  int64              `parquet:"money,decimal(3:15)"`
	At     time.Time          `parquet:"at,timestamp(microsecond)"`
	ID     [16]byte           `parquet:"id,uuid"`
	In     *goInner           `parquet:"in,optional"`
}

type goInner struct {
	Z  *int64    `parquet:"z,optional"`
	L  []float64 `parquet:"l,list"`
	In *goInmost `parquet:"in,optional"`
}

type goInmost struct {
	Y *string `parquet:"y,optional"`
	X int32   `parquet:"x"`
	L []int64 `parquet:"l,optional,list"`
}

// goRows makes rows, and what each column has of them, as rowsOf writes it.
func goRows(r *rand.Rand, n int) ([]goRow, map[string][]any) {
	spread := oneOf(r, 1, 2, 50, 1<<30)
	nulls := oneOf(r, 0, 0.1, 0.9, 1)
	length := oneOf(r, 0, 3, 40)
	some := func() bool { return r.Float64() >= nulls }
	number := func() int { return r.IntN(spread) - spread/2 }
	text := func() string { return strings.Repeat("ab", number()&3) + fmt.Sprint(number()) }
	rows := make([]goRow, n)
	for i := range rows {
		w := goRow{
			Money: int64(number()), At: time.UnixMicro(int64(number()) * 1e9), ID: [16]byte{
				byte(number()),
				15: byte(number()),
			},
			Bool: number()&1 == 0, I8: int8(number()), U32: uint32(number()) * 77, I32: int32(number()) * 3,
			I64: int64(number()) * 5e9,
			F32: float32(number()) / 7, F64: float64(number()) / 7, Text: text(), Coded: text(),
			OBool: maybe(some(), number()&1 == 0), OI32: maybe(some(), int32(number())), OI64: maybe(some(),
				int64(number())),
			OF32: maybe(some(), float32(number())), OF64: maybe(some(), float64(number())), OText: maybe(some(),
				text()), OCoded: maybe(some(), int64(number())),
			List: randomList(r, length, func() int64 { return int64(number()) }), Texts: randomList(r, length, text),
			OList: listOrNull(some(), r, length, func() float32 { return float32(number()) }),
			Flags: randomList(r, length, func() bool { return number()&1 == 0 }), Bare: randomList(r, length,
				func() int32 { return int32(number()) }),
		}
		w.U8 = uint8(number())
		w.Lists = randomList(r, 3, func() []int16 {
			return randomList(r, 3, func() int16 { return int16(number()) })
		})
		copy(w.Fixed[:], fmt.Sprintf("%05d", number()))
		if some() {
			w.In = &goInner{
				Z: maybe(some(), int64(number())),
				L: randomList(r, length, func() float64 { return float64(number()) }),
			}
		}
		if w.In != nil && some() {
			w.In.In = &goInmost{
				Y: maybe(some(), text()), X: int32(number()),
				L: listOrNull(some(), r, length, func() int64 { return int64(number()) }),
			}
		}
		if some() {
			w.Map = map[string]float64{text(): float64(number())} // with more, their order is random
		}
		rows[i] = w
	}
	return rows, goWanted(rows)
}

func maybe[T any](is bool, v T) *T {
	if !is {
		return nil
	}
	return &v
}

func randomList[T any](r *rand.Rand, most int, of func() T) []T {
	list := make([]T, r.IntN(most+1))
	for i := range list {
		list[i] = of()
	}
	return list
}

func listOrNull[T any](is bool, r *rand.Rand, most int, of func() T) []T {
	if !is {
		return nil
	}
	return randomList(r, most, of)
}

func goWanted(rows []goRow) map[string][]any {
	want := make(map[string][]any)
	for _, w := range rows {
		add := func(name string, v any) { want[name] = append(want[name], v) }
		add("bool", w.Bool)
		add("i8", int32(w.I8))
		add("u8", int32(w.U8))
		add("u32", int64(w.U32))
		add("i32", w.I32)
		add("i64", w.I64)
		add("f32", math.Float32bits(w.F32))
		add("f64", math.Float64bits(w.F64))
		add("text", w.Text)
		add("fixed", string(w.Fixed[:]))
		add("coded", w.Coded)
		add("obool", deref(w.OBool))
		add("oi32", deref(w.OI32))
		add("oi64", deref(w.OI64))
		add("of32", deref(w.OF32))
		add("of64", deref(w.OF64))
		add("otext", deref(w.OText))
		add("ocoded", deref(w.OCoded))
		add("list", anys(w.List))
		add("olist", anysOrNull(w.OList))
		add("texts", anys(w.Texts))
		add("flags", anys(w.Flags))
		add("bare", anys(w.Bare))
		lists := make([]any, len(w.Lists))
		for i, list := range w.Lists {
			lists[i] = anys(list)
		}
		add("lists", lists)
		add("map.key", anys(slices.Collect(maps.Keys(w.Map))))
		add("map.value", anys(slices.Collect(maps.Values(w.Map))))
		add("money", math.Float64bits(float64(w.Money)/1000))
		add("at", w.At.UnixMicro())
		add("id", string(w.ID[:]))
		in := w.In
		if in == nil {
			in = &goInner{}
		}
		inmost := in.In
		add("in.z", deref(in.Z))
		if w.In == nil {
			add("in.l", nil)
		} else {
			add("in.l", anys(in.L))
		}
		if inmost == nil {
			add("in.in.y", nil)
			add("in.in.x", nil)
			add("in.in.l", nil)
		} else {
			add("in.in.y", deref(inmost.Y))
			add("in.in.x", inmost.X)
			add("in.in.l", anysOrNull(inmost.L))
		}
	}
	return want
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return rawBits(*p)
}

func anys[T any](list []T) any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = rawBits(v)
	}
	return out
}

// anysOrNull is what parquet-go makes of an optional list.
func anysOrNull[T any](list []T) any {
	if list == nil {
		return nil
	}
	return anys(list)
}

func rawBits(v any) any {
	switch v := v.(type) {
	case int16:
		return int32(v)
	case float32:
		return math.Float32bits(v)
	case float64:
		return math.Float64bits(v)
	}
	return v
}

// goFile writes rows by parquet-go with random settings.
func goFile(t testing.TB, r *rand.Rand, rows []goRow) []byte {
	t.Helper()
	limit := oneOf[int64](r, 0, 200) // from there on, dictionaries give way to another encoding
	ints := []goencoding.Encoding{
		&parquet.Plain, &parquet.ByteStreamSplit, &parquet.RLEDictionary,
		&parquet.DeltaBinaryPacked,
	}
	texts := []goencoding.Encoding{
		&parquet.Plain, &parquet.RLEDictionary, &parquet.DeltaLengthByteArray,
		&parquet.DeltaByteArray,
	}
	if limit > 0 { // parquet-go, falling back to deltas, at times fails
		ints, texts = ints[:3], texts[:2]
	}
	options := []parquet.WriterOption{
		parquet.Compression(oneOf[compress.Codec](r, &parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip,
			&parquet.Zstd, &parquet.Lz4Raw, &parquet.Brotli)),
		parquet.DataPageVersion(oneOf(r, 1, 2)),
		parquet.PageBufferSize(oneOf(r, 64, 1000, 1<<18)),
		parquet.MaxRowsPerRowGroup(oneOf[int64](r, 60, 1000, 1<<30)),
		parquet.DataPageStatistics(r.IntN(2) == 0),
		parquet.DictionaryMaxBytes(limit),
	}
	for kind, encodings := range map[parquet.Kind][]goencoding.Encoding{
		parquet.Boolean:           {&parquet.Plain, &parquet.RLE},
		parquet.Int32:             ints,
		parquet.Int64:             ints,
		parquet.Float:             {&parquet.Plain, &parquet.ByteStreamSplit, &parquet.RLEDictionary},
		parquet.Double:            {&parquet.Plain, &parquet.ByteStreamSplit, &parquet.RLEDictionary},
		parquet.ByteArray:         texts,
		parquet.FixedLenByteArray: {&parquet.Plain, &parquet.ByteStreamSplit, &parquet.RLEDictionary},
	} {
		options = append(options, parquet.DefaultEncodingFor(kind, oneOf(r, encodings...)))
	}
	if r.IntN(2) == 0 {
		options = append(options, parquet.BloomFilters(parquet.SplitBlockFilter(10, "i64"),
			parquet.SplitBlockFilter(10, "otext")))
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[goRow](&out, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// splitFile is a small file whose values are all of BYTE_STREAM_SPLIT, which arrow's writer does not know.
func splitFile(t testing.TB) []byte {
	t.Helper()
	type row struct {
		ID [5]byte
		X  *float32
		N  []int64
	}
	rows := make([]row, 20)
	for i := range rows {
		rows[i] = row{ID: [5]byte{byte(i), 1}, N: make([]int64, i%4)}
		if i%3 > 0 {
			x := float32(i)
			rows[i].X = &x
		}
	}
	options := []parquet.WriterOption{parquet.DataPageVersion(1), parquet.PageBufferSize(64)}
	for _, kind := range []parquet.Kind{parquet.FixedLenByteArray, parquet.Float, parquet.Int64} {
		options = append(options, parquet.DefaultEncodingFor(kind, &parquet.ByteStreamSplit))
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[row](&out, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestAgainstParquetGo decodes what parquet-go wrote with random settings, and compares with the rows themselves.
func TestAgainstParquetGo(t *testing.T) {
	rounds := uint64(40)
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			rows, want := goRows(r, oneOf(r, 1, 63, 64, 300, 1500))
			data := goFile(t, r, rows)
			f, err := readFooter(data)
			if err != nil {
				t.Fatal(err)
			}
			checkParquetGo(t, f, data, want, oneOf(r, 1, 33, 64, 1<<20))
		})
	}
}

func checkParquetGo(t *testing.T, f *footer.Footer, data []byte, want map[string][]any, window int) {
	t.Helper()
	sources := withOwn(f)
	whole, err := decodeAll(NewDecoder(sources, testMemory), f, data, window, 0)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := decodePieces(NewDecoder(sources, testMemory), f, data, window, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sources {
		rows, known := want[s.GetName()]
		if !known {
			t.Errorf("%s is not in the rows", s.GetName())
		}
		compare(t, s.GetName(), whole[i], rows)
		compare(t, s.GetName()+" in pieces", parts[i], rows)
	}
	for name := range want {
		if !slices.ContainsFunc(f.Schema.Columns, func(c spec.Column) bool {
			return c.Name == name &&
				c.Unsupported == ""
		}) {
			t.Errorf("%s cannot be read", name)
		}
	}
}

// TestHeaderOfLongStatistics: writers may put a page's least and greatest value, whole, into its header.
func TestHeaderOfLongStatistics(t *testing.T) {
	type row struct{ Text []byte }
	for size, want := range map[int]string{1 << 20: "", 9 << 20: "header of more than 16777216 bytes"} { // twice
		var file bytes.Buffer
		w := parquet.NewGenericWriter[row](&file, parquet.DataPageStatistics(true))
		if _, err := w.Write([]row{{bytes.Repeat([]byte("ab"), size/2)}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := readFooter(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, decode := range []func(*Decoder, *footer.Footer, []byte, int, int) ([][]any, error){
			decodeAll,
			decodePieces,
		} {
			_, err = decode(NewDecoder(sourcesOf(f), testMemory), f, file.Bytes(), 1, 0)
			if got := fmt.Sprint(err); err == nil && want != "" || !strings.Contains(got, want) {
				t.Errorf("a value of %d bytes: got %v, want %q", size, err, want)
			}
		}
	}
}
