package reference

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/penstock-ml/penstock/api/pb"
)

// table is an open file, of which one goroutine reads the rows.
type table interface {
	// all are the columns that it shows.
	all() []column
	count() int64
	// find returns how to read a column of the dataset; key selects a key of a map. Absent is what it is in a row that
	// lacks it.
	find(c column, key string, absent *cell) (filler, error)
	// rows calls row for each row, which fillers then read.
	rows(ctx context.Context, progress func(rows int64), row func() error) error
}

// open opens a file of any format.
func (in *Interpreter) open(ctx context.Context, file *pb.File) (table, error) {
	how := in.spec.GetDataset().GetFormat()
	name := formatOf(file.GetUri(), how.GetName())
	if name == "" {
		isParquet, err := in.isParquet(ctx, file)
		if err != nil {
			return nil, err
		}
		if isParquet {
			name = parquetName
		}
	}
	if name == parquetName {
		f, err := in.openFile(ctx, file, in.table)
		if err != nil {
			return nil, err
		}
		return &scan{file: f}, nil
	}
	data, err := in.read(ctx, file)
	if err != nil {
		return nil, err
	}
	if name == tokensName { // which are not compressed
		return in.openTokens(ctx, file, data, how)
	}
	if data, err = unpacked(data); err != nil {
		return nil, err
	}
	if name == "" {
		name = formatLike(data)
	}
	readers := map[string]func(data []byte, how *pb.Format) (*recordFile, error){
		jsonName: readLines, csvName: readCSV, tsvName: readTSV, tarName: readTar, tfrecordName: readTFRecord,
		mdsName: readMDS,
	}
	if readers[name] == nil {
		return nil, fmt.Errorf("no reader for the format %q", name)
	}
	return readers[name](data, how)
}

// isParquet reports whether a file ends as those of Parquet do.
func (in *Interpreter) isParquet(ctx context.Context, file *pb.File) (bool, error) {
	end := make([]byte, min(4, file.GetSize()))
	err := in.store.ReadAt(ctx, in.spec.GetDataset().GetStorage(), file, end, file.GetSize()-int64(len(end)))
	return string(end) == "PAR1", err
}

// The formats.
const (
	parquetName  = "parquet"
	jsonName     = "json lines"
	csvName      = "csv"
	tsvName      = "tsv"
	tarName      = "webdataset"
	tfrecordName = "tfrecord"
	mdsName      = "mds"
	tokensName   = "tokens"
)

// formatOf is the format that a dataset names, or else a file's name; "" if none does.
func formatOf(uri, named string) string {
	aliases := map[string]string{"jsonl": jsonName, "ndjson": jsonName, "json": jsonName, "tar": tarName}
	endings := map[string]string{
		".parquet": parquetName, ".parq": parquetName, ".pq": parquetName, ".jsonl": jsonName, ".ndjson": jsonName,
		".csv": csvName, ".tsv": tsvName, ".tab": tsvName, ".tar": tarName, ".tgz": tarName,
		".tfrecord": tfrecordName, ".tfrecords": tfrecordName, ".tfrec": tfrecordName, ".mds": mdsName,
		".ds": tokensName, ".bin": tokensName,
	}
	if named = strings.ToLower(named); aliases[named] != "" {
		return aliases[named]
	}
	if named != "" {
		return named
	}
	name := strings.ToLower(uri)
	for _, packed := range []string{".gz", ".zst", ".zstd"} {
		name = strings.TrimSuffix(name, packed)
	}
	for ending, format := range endings {
		if strings.HasSuffix(name, ending) {
			return format
		}
	}
	if !strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ".") {
		return ""
	}
	return parquetName
}

// formatLike is the format that a file's first bytes are like; "" if they are like none.
func formatLike(data []byte) string {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		return jsonName
	case len(data) > 262 && string(data[257:262]) == "ustar":
		return tarName
	case len(data) >= 12 && masked(data[:8]) == binary.LittleEndian.Uint32(data[8:]):
		return tfrecordName
	}
	return ""
}

// masked is the checksum that TFRecord has of bytes: a CRC-32C, turned by 15 bits, and a number added.
func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// read is all of a file.
func (in *Interpreter) read(ctx context.Context, file *pb.File) ([]byte, error) {
	data := make([]byte, file.GetSize())
	return data, in.store.ReadAt(ctx, in.spec.GetDataset().GetStorage(), file, data, 0)
}

// unpacked is what the bytes of a file are if they are not compressed, by gzip or zstd.
func unpacked(data []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case isZstd(data):
		r, err := zstd.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return data, nil
}

// isZstd reports whether data begins with a frame of zstd, or one of those to skip.
func isZstd(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\x28\xb5\x2f\xfd")) ||
		len(data) > 4 && data[0]&0xf0 == 0x50 && string(data[1:4]) == "\x2a\x4d\x18"
}

func (s *scan) all() []column { return s.file.columns }

func (s *scan) count() int64 { return s.file.rows }

func (s *scan) find(c column, key string, absent *cell) (filler, error) {
	at := slices.IndexFunc(s.file.columns, func(have column) bool { return have.name == c.name })
	if at < 0 {
		return always(absent), nil
	}
	return s.bind(s.file.columns[at], key)
}

// always reads the same of each row.
func always(same *cell) filler {
	return func(c *cell) error {
		c.copyFrom(same)
		return nil
	}
}
