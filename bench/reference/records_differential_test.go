package reference

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// TestRecordsDifferential spells random tables in each format, at random and sometimes wrongly: the worker and the
// interpreter see the same columns and rows, or both refuse the file.
func TestRecordsDifferential(t *testing.T) {
	refused, read := 0, 0
	for name, draw := range map[string]func(t *rapid.T) formattest.File{
		"jsonl": drawLines, "csv": drawCSV, "tar": drawTar, "tfrecord": drawTFRecord, "mds": drawMDS,
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				f := draw(r)
				f.Name = "a." + name
				if name != "mds" {
					f = pack(r, f)
				}
				if agree(t, r, f) {
					read++
				} else {
					refused++
				}
			})
		})
	}
	if refused == 0 || read < refused {
		t.Errorf("%d files were read, and %d refused", read, refused)
	}
}

// agree holds what the worker has of a file against what the interpreter has; false: both refuse it.
func agree(t *testing.T, r *rapid.T, f formattest.File) bool {
	theirs := f.Read(t.Context())
	want := map[string][]string{}
	if theirs == nil {
		columns, rows := formattest.Values(t, f)
		for i, c := range columns {
			name := fmt.Sprint(c.Name, " ", c.Type, " ", c.Own)
			want[name] = []string{}
			for _, row := range rows {
				want[name] = append(want[name], shownValueOf(row[i], c.Type))
			}
		}
	}
	got, ours := interpreted(t, f)
	switch {
	case (ours == nil) != (theirs == nil):
		r.Fatalf("%s, %v:\n%.1000q\nthe worker says %v\nthe interpreter says %v", f.Name, f.How, f.Data, theirs, ours)
	case ours != nil:
		return false
	}
	for name := range want {
		if got[name] == nil || !slices.Equal(got[name], want[name]) {
			r.Fatalf("%s, %v:\n%.1000q\ncolumn %s is %.300q, not %.300q", f.Name, f.How, f.Data, name, got[name], want[name])
		}
	}
	for name := range got {
		if want[name] == nil {
			r.Fatalf("%s, %v:\n%.1000q\nthe worker has no column %s", f.Name, f.How, f.Data, name)
		}
	}
	return true
}

// interpreted are the interpreter's values of all columns of a file.
func interpreted(t *testing.T, f formattest.File) (map[string][]string, error) {
	uri := "mem://" + f.Name
	in := &Interpreter{store: memoryStore{uri: f.Data}, spec: &pb.Spec{Dataset: &pb.Dataset{Format: f.How}}}
	of, err := in.open(t.Context(), &pb.File{Uri: uri, Size: int64(len(f.Data))})
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	fill := make([]filler, len(of.all()))
	name := func(c column) string { return fmt.Sprint(c.name, " ", c.typ, " ", c.own) }
	all := union{} // which drops those of one name
	for _, c := range of.all() {
		if _, twice := all[c.name]; twice {
			c.typ = spec.Type{}
		}
		all[c.name] = c
	}
	for i, c := range of.all() {
		if !all[c.name].supported() {
			continue
		}
		out[name(c)] = []string{}
		if fill[i], err = of.find(c, "", &cell{null: true}); err != nil {
			return nil, err
		}
	}
	return out, of.rows(t.Context(), func(int64) {}, func() error {
		for i, c := range of.all() {
			if fill[i] == nil {
				continue
			}
			var at cell
			if err := fill[i](&at); err != nil {
				return fmt.Errorf("column %s: %w", c.name, err)
			}
			out[name(c)] = append(out[name(c)], shown(&at, c))
		}
		return nil
	})
}

// shownValueOf prints a value of the worker's as shown prints a cell.
func shownValueOf(v any, t spec.Type) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(boolInt(v))
	case uint64:
		return fmt.Sprint(math.Float64frombits(v))
	case uint32:
		return fmt.Sprint(float64(math.Float32frombits(v)))
	case string:
		return fmt.Sprintf("%x", v)
	case []any:
		out := []string{}
		for _, e := range v {
			out = append(out, shownValueOf(e, t))
		}
		return fmt.Sprint(out)
	}
	return fmt.Sprint(v)
}

// once in n is whether something rare is drawn.
func once(r *rapid.T, n int) bool { return rapid.IntRange(1, n).Draw(r, "once") == n }

func oneOf[T any](r *rapid.T, from ...T) T { return rapid.SampledFrom(from).Draw(r, "one") }

// pack may compress a file, in parts that cut its records.
func pack(r *rapid.T, f formattest.File) formattest.File {
	how := rapid.IntRange(0, 3).Draw(r, "packed")
	if how < 2 {
		return f
	}
	var out bytes.Buffer
	for rest := f.Data; ; {
		n := rapid.IntRange(0, len(rest)).Draw(r, "part")
		if once(r, 3) {
			n = len(rest)
		}
		if how == 2 {
			w := gzip.NewWriter(&out)
			_, _ = w.Write(rest[:n])
			_ = w.Close()
		} else {
			w, _ := zstd.NewWriter(&out)
			_, _ = w.Write(rest[:n])
			_ = w.Close()
		}
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	f.Name += []string{".gz", ".zst"}[how-2]
	f.Data = out.Bytes()
	if once(r, 10) {
		f.Data = f.Data[:rapid.IntRange(0, len(f.Data)).Draw(r, "cut")]
	}
	return f
}

// Numbers as texts have them.
func drawInt(r *rapid.T) string {
	return oneOf(r, "0", "-0", "7", "-12", "300", "2147483648", "9007199254740993", "9223372036854775807",
		"-9223372036854775808")
}

func drawFloat(r *rapid.T) string {
	return oneOf(r, "0.5", "-0.0", "1e3", "1E-2", "3.14159265358979312", "5e-324", "1.7976931348623157e308", "16777217.0",
		"0.1", "1e22", "123456789012345678901234567890", "3.4028236e38", "1e-46")
}

// drawLines draws JSON lines. Values that do not fit come in columns that are declared.
func drawLines(r *rapid.T) formattest.File {
	f := formattest.File{How: &pb.Format{Name: oneOf(r, "", "jsonl", "JSON Lines")}}
	faults := once(r, 3)
	if faults {
		f.How.Columns = map[string]string{
			"i": oneOf(r, "int64", "int8", "uint16", "int32"), "x": oneOf(r, "float32", "float64"), "s": "string",
			"b": "bool", "l": "list<int64>", "ll": "list<list<float32>>", "o.k": "int64", "o.p.q": "string",
			"e.a": "list<int64>", "e.b": "list<string>",
		}
	}
	var out strings.Builder
	if once(r, 10) {
		out.WriteString("\ufeff")
	}
	for range rapid.IntRange(0, 6).Draw(r, "records") {
		if once(r, 8) {
			out.WriteString(oneOf(r, "\n", " \t\r\n"))
		}
		out.WriteString(drawObject(r, faults, map[string]func() string{
			"i": func() string { return drawInt(r) },
			"x": func() string { return oneOf(r, drawInt(r), drawFloat(r), "NaN", "Infinity", "-Infinity") },
			"s": func() string { return drawString(r, faults) },
			"b": func() string { return oneOf(r, "true", "false") },
			"l": func() string { return drawList(r, func() string { return oneOf(r, drawInt(r), "null") }) },
			"ll": func() string {
				return drawList(r, func() string {
					return oneOf(r, "null", drawList(r, func() string { return oneOf(r, drawFloat(r), "null") }))
				})
			},
			"o": func() string {
				return drawObject(r, faults, map[string]func() string{
					"k": func() string { return drawInt(r) },
					"p": func() string {
						return drawObject(r, faults, map[string]func() string{"q": func() string { return drawString(r, false) }})
					},
				})
			},
			"e": func() string {
				return drawList(r, func() string {
					return oneOf(r, "null", drawObject(r, faults, map[string]func() string{
						"a": func() string { return drawInt(r) },
						"b": func() string { return drawString(r, false) },
					}))
				})
			},
			"mixed": func() string { return oneOf(r, "1", `"x"`, "[1]", "{}") },
			"à b":   func() string { return oneOf(r, "1", "2.5") },
		}))
		out.WriteString(oneOf(r, "\n", "\r\n", " \n"))
	}
	f.Data = []byte(out.String())
	if once(r, 3) {
		f.Data = bytes.TrimRight(f.Data, "\r\n")
	}
	return f
}

// drawObject draws an object with some of the names, in any order, with blanks anywhere.
func drawObject(r *rapid.T, faults bool, values map[string]func() string) string {
	blank := func() string { return oneOf(r, "", "", " ", "\t") }
	var names []string
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	names = rapid.Permutation(names).Draw(r, "names")
	names = names[:rapid.IntRange(0, len(names)).Draw(r, "some")]
	if faults && len(names) > 0 && once(r, 20) {
		names = append(names, names[0])
	}
	var members []string
	for _, name := range names {
		value := values[name]()
		switch {
		case once(r, 8):
			value = "null"
		case faults && once(r, 25):
			value = oneOf(r, "1.5", "1e400", "9223372036854775808", "true", `"1"`, "[]", "{}", "[[1]]", "-129")
		}
		quoted := `"` + name + `"`
		if once(r, 6) {
			quoted = `"` + fmt.Sprintf(`\u%04x`, []rune(name)[0]) + string([]rune(name)[1:]) + `"`
		}
		members = append(members, blank()+quoted+blank()+":"+blank()+value+blank())
	}
	return blank() + "{" + strings.Join(members, ",") + blank() + "}" + blank()
}

func drawList(r *rapid.T, value func() string) string {
	var out []string
	for range rapid.IntRange(0, 3).Draw(r, "elements") {
		out = append(out, value())
	}
	return "[" + strings.Join(out, oneOf(r, ",", " , ")) + "]"
}

func drawString(r *rapid.T, faults bool) string {
	out := `"`
	for range rapid.IntRange(0, 4).Draw(r, "characters") {
		out += oneOf(r, "a", "é", `\u00e9`, "🐟", `\ud83d\udc1f`, `\n`, `\"`, `\\`, `\/`, "/", `\u0000`, `\\ud83d`, "}", "]", "�",
			strings.Repeat("long ", 20))
	}
	if faults && once(r, 20) {
		out += oneOf(r, `\ud83d`, `\udc1f`, `\ud83d\ud83d`, "\xff", "\t", `\x`)
	}
	return out + `"`
}

// drawCSV draws a table of text.
func drawCSV(r *rapid.T) formattest.File {
	text := func(s string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: s}} }
	f := formattest.File{How: &pb.Format{Name: "CSV", Options: map[string]*pb.Value{}, Columns: map[string]string{}}}
	delimiter, quote, null := oneOf(r, ",", ";", "\t"), oneOf(r, `"`, `"`, "'", ""), oneOf(r, "", "", "NA")
	f.How.Options["delimiter"] = text(delimiter)
	f.How.Options["quote"] = text(quote)
	if null != "" {
		f.How.Options["nulls"] = &pb.Value{Kind: &pb.Value_List{List: &pb.List{Values: []*pb.Value{text(null)}}}}
	}
	if once(r, 4) {
		f.How.Options["comment"] = text("#")
	}
	values := []func() string{
		func() string { return oneOf(r, "0", "-7", "+3", "9223372036854775807", "12") },
		func() string { return oneOf(r, "0.5", ".5", "5.", "1e3", "nan", "-inf", "Infinity", "7", "-0.0") },
		func() string { return oneOf(r, "true", "False", "TRUE") },
		func() string {
			return oneOf(r, "x", "007", "a b", "é", "5\" pipe", "x'y", "2026-01-02x", "  x ", "\xff")
		},
		func() string { return oneOf(r, "2026-01-02", "1969-12-31", "0001-01-01") },
		func() string {
			return oneOf(r, "2026-01-02 03:04:05", "2026-01-02T03:04:05.5Z", "2026-01-02 03:04:05.123456789",
				"2026-01-02", "2026-01-02 03:04:05+02:00", "2026-01-02 03:04")
		},
		func() string {
			return oneOf(r, "1", "x", "true", "2.5", "2026-01-02", "9223372036854775808", "1_0", "0x1p3")
		},
	}
	width := rapid.IntRange(1, len(values)).Draw(r, "width")
	values = rapid.Permutation(values).Draw(r, "columns")[:width]
	if once(r, 3) {
		f.How.Columns["c0"] = oneOf(r, "string", "binary", "int64", "float32", "int8", "date", "timestamp", "bool",
			"timestamp[ns]", "uint32")
	}
	end := oneOf(r, "\n", "\r\n", "\r")
	var lines []string
	var names []string
	for i := range values {
		names = append(names, fmt.Sprint("c", i))
	}
	if once(r, 5) {
		f.How.Options["header"] = &pb.Value{Kind: &pb.Value_Bool{Bool: false}}
	} else {
		lines = append(lines, strings.Join(names, delimiter))
	}
	for range rapid.IntRange(0, 8).Draw(r, "rows") {
		var fields []string
		for _, value := range values {
			fields = append(fields, drawField(r, value(), delimiter, quote, null))
		}
		if once(r, 100) {
			fields = append(fields, "more")
		}
		lines = append(lines, strings.Join(fields, delimiter))
		if once(r, 8) {
			lines = append(lines, oneOf(r, "", "#"+quote))
		}
	}
	f.Data = []byte(strings.Join(lines, end) + oneOf(r, end, ""))
	if once(r, 8) {
		f.Data = append([]byte("\ufeff"), f.Data...)
	}
	return f
}

// drawField spells a field: null, quoted, with blanks around it.
func drawField(r *rapid.T, value, delimiter, quote, null string) string {
	switch {
	case once(r, 5):
		return null
	case once(r, 12) && quote != "":
		return quote + quote
	case once(r, 8):
		value = " " + value
	case once(r, 12) && quote != "":
		value += delimiter + oneOf(r, "\n", "\r\n", "") + quote
	}
	if quote != "" && (once(r, 3) || strings.ContainsAny(value, delimiter+"\r\n")) {
		value = quote + strings.ReplaceAll(value, quote, quote+quote) + quote
		if once(r, 60) {
			value += oneOf(r, "x", quote, " ")
		}
	}
	return value
}

// drawTar draws a WebDataset.
func drawTar(r *rapid.T) formattest.File {
	f := formattest.File{How: &pb.Format{Columns: map[string]string{}}}
	if once(r, 3) {
		f.How.Columns["cls"] = oneOf(r, "float32", "int8", "string", "bool", "binary")
	}
	if once(r, 5) {
		f.How.Columns["meta.json.a"] = oneOf(r, "int64", "float64", "string")
	}
	arrays := []string{"<f4", "<f4", "<f4", "<f4", "<f4", "<f8", "|u1", "<i2"}
	if once(r, 3) {
		arrays = []string{"<f4", "<f4", "<f4", "<f4", ">f4", "<c8", "cut"}
	}
	if once(r, 3) {
		f.How.Columns["vec.npy"] = oneOf(r, "list<float32>", "list<float64>", "list<int16>", "list<int64>")
		arrays = append(arrays, ">f4", "<c8", "cut")
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	form := oneOf(r, tar.FormatUSTAR, tar.FormatGNU, tar.FormatPAX)
	write := func(name string, kind byte, data []byte) {
		h := &tar.Header{Name: name, Typeflag: kind, Size: int64(len(data)), Mode: 0o644, Format: form}
		if kind != tar.TypeReg {
			h.Size, data = 0, nil
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		_, _ = w.Write(data)
	}
	folder := oneOf(r, "", "./train/", "a.b/")
	if once(r, 4) && form != tar.FormatUSTAR {
		folder += strings.Repeat("long", 40) + "/"
	}
	key := 0
	for range rapid.IntRange(0, 5).Draw(r, "samples") {
		if key++; once(r, 60) {
			key = 1
		}
		parts := rapid.Permutation([]string{
			"txt", "cls", "meta.json", "JPG", "vec.npy", "seg.png", "json",
		}).Draw(r, "parts")
		for _, part := range parts[:rapid.IntRange(0, len(parts)).Draw(r, "some")] {
			if once(r, 20) {
				if once(r, 2) {
					write(folder+"dir.x/", tar.TypeDir, nil)
				} else {
					write(folder+oneOf(r, ".hidden", "README", "x."), tar.TypeReg, nil)
				}
			}
			write(fmt.Sprintf("%s%04d.%s", folder, key, part), tar.TypeReg, drawPart(r, part, arrays))
		}
		if once(r, 20) {
			write("__meta__/x.txt", tar.TypeReg, []byte("x"))
		}
	}
	_ = w.Close()
	f.Data = out.Bytes()
	switch {
	case once(r, 15):
		f.Data = f.Data[:len(f.Data)-1024]
		f.How.Options = map[string]*pb.Value{"missing_end": {Kind: &pb.Value_Bool{Bool: once(r, 2)}}}
	case once(r, 30):
		f.Data = append(f.Data, f.Data...)
	}
	return f
}

func drawPart(r *rapid.T, part string, arrays []string) []byte {
	switch part {
	case "txt":
		return []byte(oneOf(r, "", "a text", "é🐟", "\n", oneOf(r, "x", "y", "z", "\xff")))
	case "cls":
		return []byte(oneOf(r, "7", " -3\n", "127", "9223372036854775807", oneOf(r, "1", "0", "5", "300", "dog", "2.5", "true")))
	case "meta.json":
		return []byte(drawObject(r, false, map[string]func() string{
			"a": func() string { return oneOf(r, "1", "2", "1e1") },
			"b": func() string {
				return drawObject(r, false, map[string]func() string{"c": func() string { return drawString(r, false) }})
			},
			"l": func() string { return drawList(r, func() string { return drawFloat(r) }) },
		}))
	case "json":
		return []byte(oneOf(r, "[1, 2]", "[]", "null", " [3]"))
	case "vec.npy":
		return drawNpy(r, oneOf(r, arrays...))
	}
	return []byte(oneOf(r, "", "\xff\xd8picture"))
}

// drawNpy draws an array of a type.
func drawNpy(r *rapid.T, kind string) []byte {
	cut := kind == "cut"
	if cut {
		kind = "<f4"
	}
	rows := rapid.IntRange(0, 3).Draw(r, "rows")
	shape := fmt.Sprintf("(%d, 2)", rows)
	width := int(kind[2] - '0')
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
	head += strings.Repeat(" ", 117-len(head)) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), 0)
	out = append(out, head...)
	for i := range rows * 2 * width {
		out = append(out, byte(i*37))
	}
	if cut {
		out = out[:len(out)-1]
	}
	return out
}

// drawTFRecord draws Examples, spelled as protobuf allows it.
func drawTFRecord(r *rapid.T) formattest.File {
	f := formattest.File{How: &pb.Format{Columns: map[string]string{}}}
	if once(r, 3) {
		f.How.Columns["i"] = oneOf(r, "int64", "int32", "int8", "list<int64>", "float32")
		f.How.Columns["v"] = oneOf(r, "list<float32>", "list<float64>", "tensor<2xfloat32>")
		f.How.Columns["s"] = oneOf(r, "string", "list<string>")
	}
	for range rapid.IntRange(0, 5).Draw(r, "records") {
		data := drawExample(r, len(f.How.Columns) > 0)
		var head [8]byte
		binary.LittleEndian.PutUint64(head[:], uint64(len(data)))
		f.Data = append(f.Data, head[:]...)
		f.Data = binary.LittleEndian.AppendUint32(f.Data, masked(head[:]))
		f.Data = append(f.Data, data...)
		f.Data = binary.LittleEndian.AppendUint32(f.Data, masked(data))
	}
	if len(f.Data) > 0 && once(r, 20) {
		f.Data[rapid.IntRange(0, len(f.Data)-1).Draw(r, "byte")] ^= 4
	}
	return f
}

func drawExample(r *rapid.T, declared bool) (out []byte) {
	message := func(to []byte, n protowire.Number, data []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, n, protowire.BytesType), data)
	}
	var features []byte
	for _, name := range rapid.Permutation([]string{"i", "v", "s", "gone"}).Draw(r, "names") {
		if once(r, 5) {
			continue
		}
		feature := drawFeature(r, name, message)
		entry := message(nil, 1, []byte(name))
		if once(r, 4) {
			entry = message(message(nil, 2, feature), 1, []byte(name))
		} else {
			entry = message(entry, 2, feature)
		}
		if features = message(features, 1, entry); declared && once(r, 8) { // of two of a name the last one counts
			features = message(features, 1, message(message(nil, 1, []byte(name)), 2, drawFeature(r, name, message)))
		}
		if once(r, 8) {
			features = protowire.AppendVarint(protowire.AppendTag(features, 9, protowire.VarintType), 5)
		}
	}
	if cut := rapid.IntRange(0, 3).Draw(r, "parts"); cut == 0 && len(features) == 0 {
		return message(nil, 1, features)
	}
	return message(protowire.AppendFixed32(protowire.AppendTag(nil, 15, protowire.Fixed32Type), 1), 1, features)
}

func drawFeature(r *rapid.T, name string, message func([]byte, protowire.Number, []byte) []byte) (out []byte) {
	count := oneOf(r, 1, 1, 1, 0, 2)
	packed := once(r, 2)
	var list []byte
	switch {
	case name == "gone" || once(r, 12):
		return nil
	case name == "i":
		var numbers []byte
		for range count {
			x := oneOf(r, int64(0), -1, 127, 1<<40, math.MinInt64)
			if numbers = protowire.AppendVarint(numbers, uint64(x)); !packed {
				list = protowire.AppendVarint(protowire.AppendTag(list, 1, protowire.VarintType), uint64(x))
			}
		}
		if packed {
			list = message(nil, 1, numbers)
		}
		return message(nil, 3, list)
	case name == "v":
		var numbers []byte
		for range count + 1 {
			x := math.Float32bits(oneOf(r, float32(0.5), -3, float32(math.Inf(1)), float32(math.NaN())))
			if numbers = protowire.AppendFixed32(numbers, x); !packed {
				list = protowire.AppendFixed32(protowire.AppendTag(list, 1, protowire.Fixed32Type), x)
			}
		}
		if packed {
			list = message(nil, 1, numbers)
		}
		return message(nil, 2, list)
	}
	for range count {
		list = message(list, 1, []byte(oneOf(r, "", "x", "é")))
	}
	return message(nil, 1, list)
}

// drawMDS draws a shard.
func drawMDS(r *rapid.T) formattest.File {
	encodings := []struct {
		name string
		size int // 0: it differs
		draw func() []byte
	}{
		{"int", 8, nil},
		{"uint8", 1, nil},
		{"int16", 2, nil},
		{"float16", 2, nil},
		{"float32", 4, nil},
		{"uint64", 8, nil},
		{"str", 0, func() []byte { return []byte(oneOf(r, "", "é", "x", oneOf(r, "y", "z", "w", "\xff"))) }},
		{"bytes", 0, func() []byte { return []byte(oneOf(r, "", "\xff\x00")) }},
		{"str_int", 0, func() []byte { return []byte(oneOf(r, "5", "-7", "0", oneOf(r, "1", "2", "3", "1.5"))) }},
		{"str_float", 0, func() []byte { return []byte(oneOf(r, "5", "-7.5", "nan", "1e3")) }},
		{"json", 0, func() []byte {
			return []byte(oneOf(r, `{"a": 1}`, `{"a": -2, "b": {"c": "x"}}`, `{"d": [1, 2]}`, `[]`, `{`))
		}},
		{"ndarray:int32", 0, func() []byte {
			return oneOf(r, []byte("\x08\x02\x02____----****++++"), []byte("\x08\x01\x01aaaa"), []byte("\x08\x00\x01"))
		}},
		{"ndarray:uint8:2,3", 6, nil},
		{"ndarray", 0, func() []byte {
			return oneOf(r, []byte("\x22\x04\x02abcdefgh"), []byte("\x22\x04\x00"), []byte("\x22\x04\x01abcd"), []byte("\x22\x04\x01abcd"))
		}},
		{"list[jpeg]", 0, func() []byte {
			return oneOf(r, []byte("\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("\x00\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00x"))
		}},
		{"pil", 0, func() []byte { return []byte("?") }},
	}
	encodings = rapid.Permutation(encodings).Draw(r, "columns")[:rapid.IntRange(1, 6).Draw(r, "width")]
	head := struct {
		Version   int      `json:"version"`
		Format    string   `json:"format"`
		Names     []string `json:"column_names"`
		Encodings []string `json:"column_encodings"`
		Sizes     []*int   `json:"column_sizes"`
	}{Version: 2, Format: "mds"}
	for i, e := range encodings {
		head.Names, head.Encodings = append(head.Names, fmt.Sprint("c", i)), append(head.Encodings, e.name)
		head.Sizes = append(head.Sizes, nil)
		if e.size > 0 {
			head.Sizes[i] = &e.size
		}
	}
	var samples []byte
	ends := []int{0}
	for range rapid.IntRange(0, 5).Draw(r, "samples") {
		var sizes, values []byte
		for _, e := range encodings {
			if e.size > 0 {
				values = append(values, rapid.SliceOfN(rapid.Byte(), e.size, e.size).Draw(r, "value")...)
				continue
			}
			v := e.draw()
			sizes, values = binary.LittleEndian.AppendUint32(sizes, uint32(len(v))), append(values, v...)
		}
		samples = append(append(samples, sizes...), values...)
		ends = append(ends, len(samples))
	}
	text, _ := json.Marshal(head)
	begin := 4 + 4*len(ends) + len(text)
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(ends)-1))
	for _, end := range ends {
		out = binary.LittleEndian.AppendUint32(out, uint32(begin+end))
	}
	out = append(append(out, text...), samples...)
	if once(r, 20) {
		out = out[:rapid.IntRange(0, len(out)).Draw(r, "cut")]
	}
	return formattest.File{Data: out, How: &pb.Format{Name: "MDS"}}
}
