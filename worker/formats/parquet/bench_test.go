package parquet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/klauspost/compress/zstd"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// BenchmarkDecode decodes files as training data is made of, from memory, and reports how many times the CPU time other
// readers take, by each one's best of some turns: arrow's for Go, and pyarrow and DuckDB, if python3 has them, by the
// best of three ways each and one thread. Where half of the time is zstd's, which columns and arrow have the same
// library for, it reports arrow's without that, too. `-cpu 1` keeps Go's collector from CPUs that have nothing to do.
func BenchmarkDecode(b *testing.B) {
	for _, t := range trainingFiles() {
		b.Run(t.name, func(b *testing.B) { benchDecode(b, t) })
	}
}

// otherTurns is how often each of the other readers has its turn.
const otherTurns = 3

func benchDecode(b *testing.B, t training) {
	f := newBenchFile(b, t)
	b.ReportAllocs()
	own, others := math.Inf(1), map[string]float64{}
	for turn := 0; b.Loop(); turn++ {
		own = min(own, cpuTime(b, f.byColumns))
		if turn >= otherTurns {
			continue
		}
		b.StopTimer()
		byArrow := func() error { return f.byArrow(b.Context()) }
		for name, read := range map[string]func() error{"pqarrow": byArrow, "zstd": f.byZstd} {
			if took := cpuTime(b, read); turn == 0 || took < others[name] {
				others[name] = took
			}
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*float64(f.footer.Rows)/b.Elapsed().Seconds(), "rows/s")
	for name, took := range f.byPython(b) {
		b.ReportMetric(took/own, "x-"+name)
	}
	if arrow, alone := others["pqarrow"], others["zstd"]; arrow > 0 {
		b.ReportMetric(arrow/own, "x-pqarrow")
		if alone > own/2 {
			b.ReportMetric((arrow-alone)/max(own-alone, 1e-6), "x-pqarrow-without-zstd")
		}
	}
}

// errCannot says that a reader does not know what the file has.
var errCannot = errors.New("the reader cannot")

// cpuTime is what reading takes, in seconds; 0 if the reader cannot.
func cpuTime(b *testing.B, read func() error) float64 {
	var before, after syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	if err == nil {
		err = read()
	}
	if err == nil {
		err = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	}
	took := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	if errors.Is(err, errCannot) {
		return 0
	}
	if err != nil {
		b.Fatal(err)
	}
	return float64(took) / 1e9
}

// benchFile is a file in memory, with what of it is to be read.
type benchFile struct {
	data    []byte
	footer  *footer.Footer
	sources []*pb.Source
	columns []string // at the top level
	leaves  []int
	pages   []packedPage
	zstd    *zstd.Decoder
	buffer  []byte
}

func newBenchFile(b *testing.B, t training) *benchFile {
	f := &benchFile{data: t.write(b)}
	var err error
	if f.footer, err = readFooter(f.data); err != nil {
		b.Fatal(err)
	}
	for _, s := range sourcesOf(f.footer) {
		name := strings.TrimSuffix(strings.TrimSuffix(s.GetName(), ".key"), ".value")
		if t.columns != nil && !slices.Contains(t.columns, name) {
			continue
		}
		f.sources = append(f.sources, s)
		if slices.Contains(f.columns, name) {
			continue
		}
		f.columns = append(f.columns, name)
		column, _ := f.footer.Column(name)
		for leaf, end := f.footer.LeavesOf(column); leaf < end; leaf++ {
			f.leaves = append(f.leaves, leaf)
		}
	}
	f.findPages(b)
	return f
}

// packedPage is what zstd compressed of a page, and how long it was.
type packedPage struct {
	bytes []byte
	size  int
}

func (f *benchFile) findPages(b *testing.B) {
	for _, g := range f.footer.RowGroups {
		for _, leaf := range f.leaves {
			c := &g.Chunks[leaf]
			if c.Codec != codecZstd {
				return
			}
			chunk := f.data[c.Offset:][:c.Length]
			eachPage(b, chunk, func(at int, h *header) {
				levels := h.defLength + h.repLength
				if h.kind == dataPageV2 && !h.packed || h.uncompressed == levels {
					return
				}
				f.pages = append(f.pages, packedPage{chunk[at+h.size:][levels:h.stored], h.uncompressed - levels})
			})
		}
	}
	var err error
	if f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)); err != nil {
		b.Fatal(err)
	}
}

// byColumns decodes in windows of about 4 MiB, as a worker does, by a new decoder: where in memory zstd's library has
// its state makes a difference.
func (f *benchFile) byColumns() error {
	foot, err := readFooter(f.data)
	if err != nil {
		return err
	}
	d := NewDecoder(f.sources, 1<<30)
	for rg := range foot.RowGroups {
		chunks, err := chunksOf(d, foot, rg, f.data)
		if err != nil {
			return err
		}
		if err := d.reset("bench", foot, rg, chunks); err != nil {
			return err
		}
		window := f.windowRows(&foot.RowGroups[rg])
		for left := int(foot.RowGroups[rg].Rows); left > 0; left -= window {
			if _, err := d.Next(min(window, left)); err != nil {
				return err
			}
		}
	}
	return nil
}

// windowRows is about how many rows a worker decodes at a time.
func (f *benchFile) windowRows(g *footer.RowGroup) int {
	const windowBytes = 4 << 20
	size := int64(1)
	for i := range f.sources {
		size += max(4*g.Chunks[f.leaves[i]].Values, g.Chunks[f.leaves[i]].Uncompressed)
	}
	return int(min(g.Rows, max(256, windowBytes/(size/max(g.Rows, 1)+1))))
}

// byArrow decodes by pqarrow.
func (f *benchFile) byArrow(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errCannot, p)
		}
	}()
	r, err := file.NewParquetReader(bytes.NewReader(f.data))
	if err != nil {
		return err
	}
	fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: trainingRows}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	// Its ReadTable decodes in goroutines, whose panics nobody could catch.
	records, err := fr.GetRecordReader(ctx, f.leaves, nil)
	if err != nil {
		return err
	}
	defer records.Release()
	rows := int64(0)
	for records.Next() {
		rows += records.Record().NumRows()
	}
	if err := records.Err(); err != nil && !errors.Is(err, io.EOF) || rows != f.footer.Rows {
		return fmt.Errorf("%w: %d of %d rows, %w", errCannot, rows, f.footer.Rows, err)
	}
	return nil
}

// byZstd decompresses all pages to the same memory, and does nothing with them.
func (f *benchFile) byZstd() (err error) {
	for _, p := range f.pages {
		if f.buffer, err = f.zstd.DecodeAll(p.bytes, f.buffer[:0]); err != nil {
			return err
		}
		if len(f.buffer) != p.size {
			return fmt.Errorf("a page has %d bytes where its header says %d", len(f.buffer), p.size)
		}
	}
	return nil
}

// byPython is what pyarrow and DuckDB take, in seconds; nothing if they are not there.
func (f *benchFile) byPython(b *testing.B) (took map[string]float64) {
	path, stored := filepath.Join(b.TempDir(), "file.parquet"), int64(0)
	if err := os.WriteFile(path, f.data, 0o600); err != nil {
		b.Fatal(err)
	}
	for _, leaf := range f.leaves {
		stored += f.footer.RowGroups[0].Chunks[leaf].Length
	}
	arguments := []string{"testdata/readers.py", path, strconv.FormatInt(stored, 10), strconv.Itoa(otherTurns)}
	out, err := exec.Command("python3", append(arguments, f.columns...)...).Output()
	if err != nil {
		b.Logf("without pyarrow and DuckDB: %v", err)
		return nil
	}
	if err := json.Unmarshal(out, &took); err != nil {
		b.Fatalf("%s: %v", out, err)
	}
	return took
}
