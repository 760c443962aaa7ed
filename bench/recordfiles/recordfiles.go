// Package recordfiles writes rows to files of each format whose files are runs of records, and to files of tokens, for
// tests and benchmarks that know the rows. It shares no code with what reads them.
package recordfiles

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
)

// Row is a row. Tables of text have no lists, and files of tokens nothing but the key and the list.
type Row struct {
	Key  int64
	X    float64 // NaN: null, where a format has it
	IDs  []int64
	Blob []byte // ASCII
}

// Kinds are the endings of files' names.
func Kinds() []string {
	return []string{
		"tar", "tar.gz", "tar.zst", "jsonl", "jsonl.gz", "jsonl.zst", "csv", "tfrecord", "mds", "ds",
	}
}

// Features are those of a spec that read all of a row of a kind.
func Features(kind string) string {
	switch format, _, _ := strings.Cut(kind, "."); format {
	case "tar":
		return "[{label: key.cls}, {dense: meta.json.x}, {sparse: ids.npy}, {bytes: blob.bin}]"
	case "csv":
		return "[{label: key}, {dense: x}, {bytes: blob}]"
	case "ds":
		return "[{sparse: tokens}]"
	}
	return "[{label: key}, {dense: x}, {sparse: ids}, {bytes: blob}]"
}

// partBytes is what a member of gzip or a frame of zstd has, decompressed.
const partBytes = 1 << 20

// Write writes rows as a file of a kind, and as what has to lie beside it: bytes by what its name has behind the
// file's, which is "" for the file itself.
func Write(kind string, rows []Row) (map[string][]byte, error) {
	format, packed, _ := strings.Cut(kind, ".")
	writers := map[string]func([]Row) ([]byte, error){
		"tar": writeTar, "jsonl": writeLines, "csv": writeCSV, "tfrecord": writeTFRecord, "mds": writeMDS,
	}
	if format == "ds" {
		tokens, ends := writeTokens(rows)
		return map[string][]byte{"": tokens, ".index": ends}, nil
	}
	write, ok := writers[format]
	if !ok {
		return nil, fmt.Errorf("recordfiles: no kind %q", kind)
	}
	data, err := write(rows)
	if err != nil {
		return nil, fmt.Errorf("recordfiles: %w", err)
	}
	var out bytes.Buffer
	for at := 0; packed != "" && at < len(data); at += partBytes {
		if err := pack(&out, packed, data[at:min(at+partBytes, len(data))]); err != nil {
			return nil, fmt.Errorf("recordfiles: %w", err)
		}
	}
	if packed != "" {
		data = out.Bytes()
	}
	return map[string][]byte{"": data}, nil
}

// pack compresses a part.
func pack(out *bytes.Buffer, how string, part []byte) error {
	if how == "gz" {
		w, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
		if err == nil {
			_, err = w.Write(part)
		}
		if err != nil {
			return err
		}
		return w.Close()
	}
	w, err := zstd.NewWriter(out)
	if err == nil {
		_, err = w.Write(part)
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// float is a number that is X exactly, or null.
func float(x float64) string {
	if math.IsNaN(x) {
		return "null"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func writeTar(rows []Row) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i, r := range rows {
		for _, part := range []struct {
			name string
			data []byte
		}{
			{"key.cls", strconv.AppendInt(nil, r.Key, 10)},
			{"meta.json", []byte(`{"x": ` + float(r.X) + `}`)},
			{"ids.npy", npy(r.IDs)},
			{"blob.bin", r.Blob},
		} {
			h := &tar.Header{Name: fmt.Sprintf("train/%08d.%s", i, part.name), Mode: 0o644, Size: int64(len(part.data))}
			if err := w.WriteHeader(h); err != nil {
				return nil, err
			}
			if _, err := w.Write(part.data); err != nil {
				return nil, err
			}
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// npy is an array of NumPy.
func npy(ids []int64) []byte {
	const whole = 128
	head := fmt.Sprintf("{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", len(ids))
	out := append([]byte("\x93NUMPY\x01\x00"), whole-10, 0)
	out = append(out, head...)
	out = append(append(out, strings.Repeat(" ", whole-1-len(out))...), '\n')
	return raw(out, ids)
}

func raw(to []byte, ids []int64) []byte {
	for _, id := range ids {
		to = binary.LittleEndian.AppendUint64(to, uint64(id))
	}
	return to
}

func writeLines(rows []Row) ([]byte, error) {
	var out bytes.Buffer
	for i, r := range rows {
		blob, err := json.Marshal(string(r.Blob))
		if err != nil {
			return nil, err
		}
		ids := strings.ReplaceAll(fmt.Sprint(r.IDs), " ", ",")
		members := []string{
			`"key": ` + strconv.FormatInt(r.Key, 10), `"ids": ` + ids, `"x":` + float(r.X), `"blob":` + string(blob),
		}
		if i%3 == 1 {
			members[0], members[2] = members[2], members[0]
		}
		if i%3 == 2 && math.IsNaN(r.X) { // what is not there is null, too
			members = append(members[:2], members[3])
		}
		out.WriteString("{" + strings.Join(members, ", ") + "}\n")
	}
	return out.Bytes(), nil
}

func writeCSV(rows []Row) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.Write([]string{"key", "x", "blob"}); err != nil {
		return nil, err
	}
	for _, r := range rows {
		x := float(r.X)
		if x == "null" {
			x = ""
		}
		if err := w.Write([]string{strconv.FormatInt(r.Key, 10), x, string(r.Blob)}); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return out.Bytes(), w.Error()
}

func writeTFRecord(rows []Row) (out []byte, _ error) {
	message := func(to []byte, n protowire.Number, data []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, n, protowire.BytesType), data)
	}
	feature := func(to []byte, name string, kind protowire.Number, list []byte) []byte {
		entry := message(message(nil, 1, []byte(name)), 2, message(nil, kind, list))
		return message(to, 1, entry)
	}
	ints := func(values ...int64) (packed []byte) {
		for _, x := range values {
			packed = protowire.AppendVarint(packed, uint64(x))
		}
		return message(nil, 1, packed)
	}
	for _, r := range rows {
		features := feature(nil, "key", 3, ints(r.Key))
		if !math.IsNaN(r.X) {
			x := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(r.X)))
			features = feature(features, "x", 2, message(nil, 1, x))
		}
		features = feature(features, "ids", 3, ints(r.IDs...))
		features = feature(features, "blob", 1, message(nil, 1, r.Blob))
		example := message(nil, 1, features)
		length := binary.LittleEndian.AppendUint64(nil, uint64(len(example)))
		out = binary.LittleEndian.AppendUint32(append(out, length...), masked(length))
		out = binary.LittleEndian.AppendUint32(append(out, example...), masked(example))
	}
	return out, nil
}

// masked is the checksum that TFRecord has.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (sum>>15 | sum<<17) + 0xa282ead8
}

func writeMDS(rows []Row) ([]byte, error) {
	const eight = 8
	size := func(n int) *int { return &n }
	head, err := json.Marshal(map[string]any{
		"version": 2, "format": "mds",
		"column_names":     []string{"key", "x", "ids", "blob"},
		"column_encodings": []string{"int", "float64", "ndarray:int64", "bytes"},
		"column_sizes":     []*int{size(eight), size(eight), nil, nil},
	})
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	var samples []byte
	begin := 4 + 4*(len(rows)+1) + len(head)
	out := le.AppendUint32(nil, uint32(len(rows)))
	out = le.AppendUint32(out, uint32(begin))
	for _, r := range rows {
		samples = le.AppendUint32(samples, uint32(2+eight*len(r.IDs)))
		samples = le.AppendUint32(samples, uint32(len(r.Blob)))
		samples = raw(samples, []int64{r.Key})
		samples = le.AppendUint64(samples, math.Float64bits(r.X))
		samples = raw(append(samples, 1<<2, byte(len(r.IDs))), r.IDs) // one dimension, as one byte
		samples = append(samples, r.Blob...)
		out = le.AppendUint32(out, uint32(begin+len(samples)))
	}
	return append(append(out, head...), samples...), nil
}

// writeTokens writes documents of uint32, of which a key is the first token, and where they end.
func writeTokens(rows []Row) (tokens, ends []byte) {
	for _, r := range rows {
		tokens = binary.LittleEndian.AppendUint32(tokens, uint32(r.Key))
		for _, id := range r.IDs {
			tokens = binary.LittleEndian.AppendUint32(tokens, uint32(id))
		}
		ends = binary.LittleEndian.AppendUint64(ends, uint64(len(tokens)/4))
	}
	return tokens, ends
}
