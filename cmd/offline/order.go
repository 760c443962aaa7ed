package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/cmd/convert"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	mastercommand "github.com/penstock-ml/penstock/master/command"
	"github.com/penstock-ml/penstock/master/features"
	"github.com/penstock-ml/penstock/master/words"
)

// ordering orders a conversion's columns by what sessions read.
type ordering struct {
	from    string // the flag
	masters []string
	ports   cli.RPCFlags

	reads *pb.DatasetReads
	names []string  // in place of reads
	told  *foretold // once the order is known
	tell  io.Writer // nil: nobody
}

// foretold is what is said of an order before anything is written.
type foretold struct {
	From     string `json:"from"`
	Sessions int64  `json:"sessions"`
	Columns  int    `json:"columns"`
	features.Arrangement
}

// popularity is what --order is, alone or with "=" and a file.
const popularity = "popularity"

// maxPopularity bounds the bytes of such a file.
const maxPopularity = 64 << 20

func (r *ordering) register(flags *pflag.FlagSet) {
	flags.StringVar(&r.from, "order", "", "order columns by popularity: those that sessions read together next to "+
		"each other, most read first. A master is asked what was read of the inputs' folders, or popularity=FILE has "+
		"what penstock features printed: as JSON, or names one a line")
	flags.StringSliceVar(&r.masters, "master", []string{"127.0.0.1:7070"}, "addresses of masters (--order)")
	r.ports.RegisterClient(flags)
}

// use says how columns are to be ordered, if they are.
func (r *ordering) use(o *convert.Options) error {
	order := &convert.Order{From: r.from, Of: r.of}
	kind, file, named := strings.Cut(r.from, "=")
	switch {
	case r.from == "":
		return nil
	case kind != popularity || named && file == "":
		return fmt.Errorf("--order %s: there is popularity, which asks a master, and popularity=FILE", r.from)
	case named:
		order.Begin = func(context.Context) error { return r.read(file) }
	default:
		inputs := o.Inputs
		order.Begin = func(ctx context.Context) error { return r.ask(ctx, inputs) }
	}
	o.Order = order
	return nil
}

func (r *ordering) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("--order: %w", err)
	}
	defer f.Close() // only read from
	text, err := io.ReadAll(io.LimitReader(f, maxPopularity+1))
	switch {
	case err != nil:
		return fmt.Errorf("--order: %w", err)
	case len(text) > maxPopularity:
		return fmt.Errorf("--order: %s has more than %s: give what penstock features printed", file,
			humanize.IBytes(maxPopularity))
	}
	if r.reads, r.names, err = features.Read(text); err != nil {
		return fmt.Errorf("--order: %s:%w", file, err)
	}
	return nil
}

// ask asks a master for what was read of the inputs' folders.
func (r *ordering) ask(ctx context.Context, inputs []string) error {
	cfg, err := r.ports.Config()
	if err != nil {
		return err
	}
	var dirs []string
	for _, uri := range inputs {
		if uri, err = storage.Canonical(uri); err != nil {
			return err
		}
		dirs = append(dirs, features.Prefix(uri, storage.FormatOf(uri) != "" || storage.IsText(uri)))
	}
	sum, found := features.Load(nil), false
	var none mastercommand.NotReadError
	for _, dir := range features.Prefixes(dirs, nil) {
		reply, err := mastercommand.ListFeatures(ctx, r.masters, cfg, dir)
		switch {
		case errors.As(err, &none):
			continue
		case err != nil:
			return fmt.Errorf("--order: %w", err)
		}
		found = true
		sum.Add(features.Load(reply.GetDatasets()[0]))
	}
	if !found {
		return fmt.Errorf("--order: %w; or give popularity=FILE, with what was read elsewhere", none)
	}
	r.reads = sum.Proto()
	return nil
}

// of orders columns, and tells what comes of it.
func (r *ordering) of(ctx context.Context, columns []string, sample func() ([]byte, error)) ([]int, error) {
	r.told = &foretold{From: r.from, Sessions: r.reads.GetSessions(), Columns: len(columns)}
	if r.reads == nil {
		r.told.Arrangement = features.ArrangeByName(r.names, columns)
	} else {
		chunks, err := chunksOf(ctx, sample)
		if err != nil {
			return nil, err
		}
		r.told.Arrangement = features.Arrange(r.reads, columns, chunks)
	}
	if r.told.Read == 0 {
		return nil, fmt.Errorf("--order %s: none of its %d names is one of the %d columns, which are %s, ...: give "+
			"what was read of a dataset with these columns", r.from, r.told.Unknown, len(columns),
			strings.Join(columns[:min(3, len(columns))], ", "))
	}
	if r.tell != nil {
		if err := r.told.write(r.tell); err != nil {
			return nil, err
		}
	}
	return r.told.Order, nil
}

// write says what an order is, and what it saves.
func (f *foretold) write(w io.Writer) error {
	fmt.Fprintf(w, "order %s: %d of %s are read, and come first\n", f.From, f.Read,
		english.Plural(f.Columns, "column", ""))
	if f.Unknown > 0 {
		fmt.Fprintf(w, "%s that %s read %s in none of the columns\n", english.Plural(f.Unknown, "feature", ""),
			english.PluralWord(f.Unknown, "was", "were"), english.PluralWord(f.Unknown, "lies", "lie"))
	}
	if f.Costs == nil {
		_, err := fmt.Fprintln(w, "what it saves is not known: names alone do not tell which columns are read "+
			"together; give what penstock features prints with --output json")
		return err
	}
	now, then := f.Costs.Now, f.Costs.Ordered
	_, err := fmt.Fprintf(w, "a row group: %s %s %s of it, and %s %s in %.1f requests; in this order %s in %.1f\n",
		english.Plural(int(f.Sessions), "session", ""), english.PluralWord(int(f.Sessions), "wants", "want"),
		words.Size(now.Wanted), english.PluralWord(int(f.Sessions), "reads", "read"), words.Size(now.Bytes),
		now.Requests, words.Size(then.Bytes), then.Requests)
	return err
}

// chunksOf are the chunks of a Parquet file.
func chunksOf(ctx context.Context, sample func() ([]byte, error)) (*pb.FileColumns, error) {
	data, err := sample()
	if err != nil {
		return nil, err
	}
	f, err := formats.Load(ctx, storage.InMemory(data), "", &pb.File{Uri: "first.parquet", Size: int64(len(data))}, nil)
	if err != nil {
		return nil, fmt.Errorf("the first row group: %w", err)
	}
	return features.Columns([]format.File{f}), nil
}
