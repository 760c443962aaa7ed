package main

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // a checksum that DuckDB has, too
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/bench/recordfiles"
)

// The dataset has many small files of several row groups, so that a small job has many shards and streams in flight.
// cmd/demo/dataset's are for throughput: few and large.
const (
	datasetSeed   = 20
	rowsPerFile   = 1500
	rowsPerGroup  = 400
	longestBlob   = 600
	longestList   = 8
	nullsOfTwenty = 1
)

// values are what a row has in the columns key (int64), x (float32, some null), ids (list of int64) and blob. In a full
// run there is photo, too: see picture.
type values struct {
	key  int64
	x    float32 // NaN: null
	ids  []int64
	blob []byte
}

// rowValues are the values of a row of a file.
func rowValues(file, row int) values {
	random := rand.New(rand.NewPCG(datasetSeed+uint64(file), uint64(row)))
	v := values{
		key: random.Int64(), x: random.Float32()*2000 - 1000, ids: make([]int64, random.IntN(longestList+1)),
		blob: make([]byte, random.IntN(longestBlob)),
	}
	if random.IntN(20) < nullsOfTwenty {
		v.x = float32(math.NaN())
	}
	for i := range v.ids {
		v.ids[i] = random.Int64()
	}
	for i := range v.blob {
		v.blob[i] = byte(random.Uint32()) & 0x7f // which JSON can hold
	}
	return v
}

// What the spec of a full run does with a row, as recount.py does, too.
const (
	minX         = -800 // of rows that the filter keeps
	clampX       = 500
	maxIDs       = 4
	pictureSide  = 6
	pictureShown = 4 // its middle, whose sides are as long
	fullSpec     = "filter: x >= -800\ntransforms:\n- {op: clamp, in: x, min: -500, max: 500}\n- {op: first_x, in: " +
		"ids, x: 4}\n" +
		"- {op: decode_png, in: photo}\n- {op: resize, in: photo, size: 5}\n- {op: center_crop, in: photo, size: 4}\n"
)

// wanted is what trainers get of a row, if they get it.
func (o *options) wanted(v values) (values, bool) {
	if o.full {
		if !(v.x >= minX) { // nor a null
			return v, false
		}
		v.x, v.ids = min(max(v.x, -clampX), clampX), v.ids[:min(len(v.ids), maxIDs)]
	}
	if o.functions {
		v = marked(v)
	}
	return v, true
}

// expected is how many rows of files an epoch has.
func (o *options) expected(files []int) (n int64) {
	for f, rows := range files {
		for row := range rows {
			if _, kept := o.wanted(rowValues(f, row)); kept {
				n++
			}
		}
	}
	return n
}

// shade is the grey of all of a row's picture.
func shade(key int64) byte { return byte(key) }

// pictures are PNGs of each shade.
func pictures() ([][]byte, error) {
	out := make([][]byte, 256)
	for i := range out {
		img := image.NewGray(image.Rect(0, 0, pictureSide, pictureSide))
		for p := range img.Pix {
			img.Pix[p] = byte(i)
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			return nil, err
		}
		out[i] = b.Bytes()
	}
	return out, nil
}

// sums are what the ledger has of a row's values.
type sums struct {
	key     int64
	x       float32
	ids     int32
	idsXor  int64
	blobMD5 int64 // its first 60 bits
}

func (v values) sums() sums { return sumsOf(v.key, v.x, v.ids, v.blob) }

func sumsOf(key int64, x float32, ids []int64, blob []byte) sums {
	s := sums{key: key, x: x, ids: int32(len(ids))}
	for _, id := range ids {
		s.idsXor ^= id
	}
	h := md5.Sum(blob) //nolint:gosec // see above
	s.blobMD5 = int64(binary.BigEndian.Uint64(h[:8]) >> 4)
	return s
}

// equal compares, with a null like another.
func (s sums) equal(o sums) bool {
	sameX := s.x == o.x || s.x != s.x && o.x != o.x //nolint:staticcheck // NaN is not itself
	o.x = s.x
	return sameX && (s == o || s.x != s.x && s.key == o.key && s.ids == o.ids && s.idsXor == o.idsXor && s.blobMD5 == o.blobMD5) //nolint:staticcheck // as above
}

// fileRows cuts rows into files of different sizes.
func fileRows(rows int) []int {
	random := rand.New(rand.NewPCG(datasetSeed, 0))
	var files []int
	for rows > 0 {
		n := min(rows, 1+random.IntN(2*rowsPerFile))
		files = append(files, n)
		rows -= n
	}
	return files
}

// writeRecords writes the rows of a dataset's files as files of another format, which sort as these do, into a folder
// beside it, and returns their paths. Each third file of JSON lines is compressed.
func writeRecords(ctx context.Context, dir string, files []int, kind string) ([]string, error) {
	paths := make([]string, len(files))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for i, n := range files {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rows := make([]recordfiles.Row, n)
		for row := range rows {
			v := rowValues(i, row)
			rows[row] = recordfiles.Row{Key: v.key, X: float64(v.x), IDs: v.ids, Blob: v.blob}
		}
		of := kind
		if kind == "jsonl" && i%3 == 2 {
			of += ".gz"
		}
		written, err := recordfiles.Write(of, rows)
		if err != nil {
			return nil, err
		}
		paths[i] = filepath.Join(dir, fmt.Sprintf("part-%05d.%s", i, of))
		if err := os.WriteFile(paths[i], written[""], 0o600); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// writeDataset writes the files into dir and returns their paths, in the order of their names.
func writeDataset(ctx context.Context, dir string, files []int, full bool) ([]string, error) {
	paths := make([]string, len(files))
	var photos [][]byte
	if full {
		var err error
		if photos, err = pictures(); err != nil {
			return nil, err
		}
	}
	for i, rows := range files {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		paths[i] = filepath.Join(dir, fmt.Sprintf("part-%05d.parquet", i))
		if err := writeFile(paths[i], i, rows, photos); err != nil {
			return nil, fmt.Errorf("chaos: write %s: %w", paths[i], err)
		}
	}
	return paths, nil
}

func writeFile(path string, file, rows int, photos [][]byte) error {
	fields := []arrow.Field{
		{Name: "key", Type: arrow.PrimitiveTypes.Int64},
		{Name: "x", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "blob", Type: arrow.BinaryTypes.Binary},
	}
	if photos != nil {
		fields = append(fields, arrow.Field{Name: "photo", Type: arrow.BinaryTypes.Binary})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	ids := b.Field(2).(*array.ListBuilder)
	for row := range rows {
		v := rowValues(file, row)
		b.Field(0).(*array.Int64Builder).Append(v.key)
		if x := b.Field(1).(*array.Float32Builder); math.IsNaN(float64(v.x)) {
			x.AppendNull()
		} else {
			x.Append(v.x)
		}
		ids.Append(true)
		ids.ValueBuilder().(*array.Int64Builder).AppendValues(v.ids, nil)
		b.Field(3).(*array.BinaryBuilder).Append(v.blob)
		if photos != nil {
			b.Field(4).(*array.BinaryBuilder).Append(photos[shade(v.key)])
		}
	}
	return writeParquet(path, b, rowsPerGroup)
}

// writeParquet writes what a builder has into a new file.
func writeParquet(path string, b *array.RecordBuilder, groupRows int64) error {
	rec := b.NewRecord()
	defer rec.Release()
	table := array.NewTableFromRecords(rec.Schema(), []arrow.Record{rec})
	defer table.Release()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy))
	// The writer closes the file.
	if err := pqarrow.WriteTable(table, f, groupRows, props, pqarrow.DefaultWriterProps()); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// specText is the session's spec.
func specText(uri string, o options) string {
	more, transforms := "", ""
	if o.full {
		more, transforms = ", {image: photo}", fullSpec
	}
	features := strings.TrimSuffix(recordfiles.Features(o.format), "]") + more + "]"
	text := fmt.Sprintf("dataset: {uri: %q}\nfeatures: %s\n%s"+
		"shuffle: true\nseed: %d\nprovenance: true\nepochs: %d\nlast_batch: %s\n", uri, features, transforms, o.seed,
		o.epochs, o.lastBatch)
	if o.order == deterministic {
		// Each world size that the job may have divides the number of lanes.
		lanes := lcm(lcm(max(1, o.trainers-1), o.trainers), o.trainers+1)
		return text + fmt.Sprintf("order: %s\nlanes: %d\nglobal_batch_size: %d\n",
			o.order, lanes, lanes*max(1, o.trainers*batchSize/lanes))
	}
	return text + fmt.Sprintf("batch_size: %d\n", batchSize)
}

// lcm is the least common multiple.
func lcm(a, b int) int {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}
