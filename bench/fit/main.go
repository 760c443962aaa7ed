// Command fit measures client/fit beside DuckDB and Polars, on the same columns in memory, in one run:
//
//	go run ./bench/fit --rows 1000000 --python .venv-peers/bin/python
//	go run ./bench/fit --ids 100000000 --memory 1GiB
//
// The first has Criteo's shape: means, deviations and 100 quantiles of 13 numbers, and 26 vocabularies. The second is
// one vocabulary of many ids. For each it prints seconds, CPU seconds, and the greatest memory of the process.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/fit"
	"github.com/penstock-ml/penstock/internal/fitted"
)

func main() {
	rows := pflag.Int("rows", 1_000_000, "rows of Criteo's shape")
	ids := pflag.Int("ids", 0, "instead, so many ids of one column")
	limit := pflag.String("memory", "1GiB", "for counts, of each system")
	python := pflag.String("python", "python", "the interpreter that has the others; empty: none")
	dir := pflag.String("dir", "", "where data and spilled counts go; empty: a temporary folder")
	profile := pflag.String("profile", "", "a file for a CPU profile of Penstock's part")
	pflag.Parse()
	if err := run(*rows, *ids, *limit, *python, *dir, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(1)
	}
}

func run(rows, ids int, limit, python, dir, profile string) error {
	bytes, err := humanize.ParseBytes(limit)
	if err != nil {
		return err
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "penstock-bench-fit-*"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	shape := criteo()
	if ids > 0 {
		shape, rows = []feature{{name: "id", distinct: float64(ids)}}, ids
	}
	path := filepath.Join(dir, "data.parquet")
	if err := write(path, shape, rows); err != nil {
		return err
	}
	if profile != "" {
		to, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer to.Close()
		if err := pprof.StartCPUProfile(to); err != nil {
			return err
		}
	}
	if err := penstock(shape, rows, int64(bytes), filepath.Join(dir, "spill")); err != nil {
		return err
	}
	pprof.StopCPUProfile()
	if python == "" {
		return nil
	}
	cmd := exec.CommandContext(context.Background(), python, "bench/fit/others.py", path,
		strconv.FormatUint(bytes, 10), filepath.Join(dir, "others"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// feature is a column: numbers, texts of so many distinct values, or, if it is called id, ids.
type feature struct {
	name     string
	distinct float64
	text     bool
	random   *rand.Rand
}

// criteo is the shape of Criteo's click logs, with their numbers of distinct values.
func criteo() []feature {
	var shape []feature
	for i := range 13 {
		shape = append(shape, feature{name: fmt.Sprintf("int_%d", i), distinct: 1e5})
	}
	for i, n := range []float64{
		1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
		2173, 4, 7046547, 18, 15, 286181, 105, 142572,
	} {
		shape = append(shape, feature{name: fmt.Sprintf("cat_%d", i), distinct: n, text: true})
	}
	return shape
}

func (f *feature) kind() (pb.Kind, arrow.DataType) {
	switch {
	case f.text:
		return pb.Kind_BINARY, arrow.BinaryTypes.String
	case f.name == "id":
		return pb.Kind_INT64, arrow.PrimitiveTypes.Int64
	}
	return pb.Kind_FLOAT32, arrow.PrimitiveTypes.Float32
}

// make makes the next values; a tenth of Criteo's are null.
func (f *feature) make(n int) arrow.Array {
	_, t := f.kind()
	b := array.NewBuilder(memory.DefaultAllocator, t)
	for range n {
		v := uint64(math.Exp(f.random.Float64() * math.Log(f.distinct)))
		switch b := b.(type) {
		case *array.Int64Builder:
			b.Append(int64(f.random.Uint64N(uint64(f.distinct)) * 0x9e3779b97f4a7c15))
			continue
		case *array.Float32Builder:
			b.Append(float32(v))
		case *array.StringBuilder:
			b.Append(fmt.Sprintf("%08x", uint32(v*0x9e3779b1)))
		}
	}
	return b.NewArray()
}

const part = 1 << 16

// each makes the rows, the same each time.
func each(shape []feature, rows int, take func(arrow.Record) error) error {
	var fields []arrow.Field
	for i := range shape {
		shape[i].random = rand.New(rand.NewPCG(uint64(i), 7))
		_, t := shape[i].kind()
		fields = append(fields, arrow.Field{Name: shape[i].name, Type: t, Nullable: true})
	}
	schema := arrow.NewSchema(fields, nil)
	for at := 0; at < rows; at += part {
		n := min(part, rows-at)
		var columns []arrow.Array
		for i := range shape {
			columns = append(columns, shape[i].make(n))
		}
		if err := take(array.NewRecord(schema, columns, int64(n))); err != nil {
			return err
		}
	}
	return nil
}

func write(path string, shape []feature, rows int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	var w *pqarrow.FileWriter
	err = each(shape, rows, func(rec arrow.Record) (err error) {
		if w == nil {
			props := parquet.NewWriterProperties(parquet.WithMaxRowGroupLength(1<<20),
				parquet.WithDictionaryDefault(false))
			if w, err = pqarrow.NewFileWriter(rec.Schema(), file, props, pqarrow.DefaultWriterProps()); err != nil {
				return err
			}
		}
		return w.WriteBuffered(rec)
	})
	return errors.Join(err, w.Close())
}

// penstock fits, and leaves out what making the rows takes.
func penstock(shape []feature, rows int, bytes int64, folder string) error {
	var columns []fit.Column
	for _, f := range shape {
		c := fit.Column{Name: f.name}
		c.Kind, _ = f.kind()
		if c.Kind == pb.Kind_FLOAT32 {
			c.Statistics = []fitted.Statistic{{Name: fitted.Moments}, {Name: fitted.Quantiles, Parts: 100}}
		} else {
			c.Statistics = []fitted.Statistic{{Name: fitted.Vocabulary}}
		}
		columns = append(columns, c)
	}
	f, err := fit.Open(columns, fit.Options{Memory: bytes, Folder: folder})
	if err != nil {
		return err
	}
	var records []arrow.Record
	var wall, cpu time.Duration
	timed := func(do func() error) error {
		began, used := time.Now(), used()
		err := do()
		wall, cpu = wall+time.Since(began), cpu+usedSince(used)
		return err
	}
	flush := func() error {
		return timed(func() error {
			for _, rec := range records {
				if err := f.AddRecord(rec); err != nil {
					return err
				}
			}
			records = records[:0]
			return f.Add(make([][]fit.Values, len(columns)), nil) // waits for all
		})
	}
	if err := each(shape, rows, func(rec arrow.Record) error {
		if records = append(records, rec); len(records) < 16 {
			return nil
		}
		return flush()
	}); err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	if err := timed(func() error {
		w, err := fitted.NewWriter(io.Discard, fitted.Info{})
		if err != nil {
			return err
		}
		return errors.Join(f.Write(context.Background(), w), w.Close())
	}); err != nil {
		return err
	}
	var peak syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &peak); err != nil {
		return err
	}
	fmt.Printf("%-10s %8.2f s %8.2f CPU s   peak %d MiB (with the making of rows)\n", "penstock", wall.Seconds(),
		cpu.Seconds(), peak.Maxrss>>10)
	return f.Close()
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func usedSince(before time.Duration) time.Duration { return used() - before }
