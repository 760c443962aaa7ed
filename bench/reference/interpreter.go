package reference

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables"
)

// Interpreter says what rows a spec should deliver.
type Interpreter struct {
	spec    *pb.Spec
	store   storage.Storage
	program *program
	files   []*pb.File    // by URI, those of the partitions asked for
	table   *tables.Table // nil: the dataset is none
	foreign map[*pb.File]bool
	rows    int64 // of all files
}

// New resolves a spec against the files of its dataset, which it lists. It reads every file's footer: names in the spec
// are looked up in the columns of all files.
func New(ctx context.Context, spec *pb.Spec, store storage.Storage) (*Interpreter, error) {
	in := &Interpreter{spec: spec, store: store}
	listed, err := tables.Tell(ctx, store, spec.GetDataset())
	if err != nil {
		return nil, fmt.Errorf("reference: list the dataset: %w", err)
	}
	in.table = listed.Table
	if in.files, err = partitions(listed.Files, spec.GetDataset().GetPartitions()); err != nil {
		return nil, fmt.Errorf("reference: dataset.partitions: %w", err)
	}
	if err := in.leaveOut(ctx); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	columns, err := in.columns(ctx)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	addKeys(columns, in.files)
	if in.program, err = resolve(spec, columns, in.sides(ctx)); err != nil {
		return nil, fmt.Errorf("reference: spec: %w", err)
	}
	return in, nil
}

// leaveOut finds the files that are of no format by their names nor by what they hold, or of another than the dataset
// names. They have no rows.
func (in *Interpreter) leaveOut(ctx context.Context) error {
	in.foreign = map[*pb.File]bool{}
	want := formatOf("", in.spec.GetDataset().GetFormat().GetName())
	for _, f := range in.files {
		if !f.GetUnknown() {
			continue
		}
		isParquet, err := in.isParquet(ctx, f)
		if err != nil {
			return err
		}
		if isParquet {
			in.foreign[f] = want != "" && want != parquetName
			continue
		}
		data, err := in.read(ctx, f)
		if err != nil {
			return err
		}
		data, err = unpacked(data)
		like := formatLike(data)
		in.foreign[f] = err != nil || like == "" || want != "" && like != want
	}
	return nil
}

// columns unites the columns of all files.
func (in *Interpreter) columns(ctx context.Context) (map[string]column, error) {
	all := union{}
	for _, file := range in.files {
		if in.foreign[file] {
			continue
		}
		f, err := in.open(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", file.GetUri(), err)
		}
		in.rows += f.count()
		if err := all.add(file.GetUri(), f.all()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Fields are the outputs of each row, in the order in which they are hashed.
func (in *Interpreter) Fields() []Field {
	fields := make([]Field, len(in.program.outputs))
	for i, o := range in.program.outputs {
		fields[i] = o.field
	}
	return fields
}

// Expected interprets all files, several at once, and returns what an epoch (counted from 0) should deliver. progress,
// which may be nil, is called by one goroutine at a time with the number of source rows read so far and of all.
func (in *Interpreter) Expected(
	ctx context.Context, epoch uint32, progress func(done, total int64),
) (*Expected, error) {
	out := &Expected{files: make([]expectedFile, len(in.files))}
	var mu sync.Mutex
	var done int64
	report := func(rows int64) {
		mu.Lock()
		defer mu.Unlock()
		if done += rows; progress != nil {
			progress(done, in.rows)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range in.files {
		if out.files[i].uri = file.GetUri(); in.foreign[file] {
			continue
		}
		group.Go(func() error {
			if err := newReading(in, file, epoch, &out.files[i]).file(ctx, report); err != nil {
				return fmt.Errorf("reference: %s: %w", file.GetUri(), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// place says which row is being interpreted; whatever is random depends on nothing else.
type place struct {
	seed  int64
	epoch uint32
	uri   string
	row   int64
}

// reading is the state of one file's interpretation.
type reading struct {
	in     *Interpreter
	p      *program
	source *pb.File
	out    *expectedFile
	at     place
	hasher *Hasher
	cells  []cell         // of each slot
	inputs [][]*cell      // of each step
	fill   []filler       // of each source
	gone   map[int64]bool // rows that are excluded
}

func newReading(in *Interpreter, file *pb.File, epoch uint32, out *expectedFile) *reading {
	p := in.program
	r := &reading{
		in: in, p: p, source: file, out: out, hasher: NewHasher(in.Fields()),
		at:    place{seed: in.spec.GetSeed(), epoch: epoch, uri: file.GetUri()},
		cells: make([]cell, len(p.types)),
		fill:  make([]filler, len(p.sources)),
	}
	for _, s := range p.steps {
		var cells []*cell
		for _, slot := range s.in {
			cells = append(cells, &r.cells[slot])
		}
		r.inputs = append(r.inputs, cells)
	}
	return r
}

// file interprets all rows of the file.
func (r *reading) file(ctx context.Context, progress func(rows int64)) error {
	f, err := r.in.open(ctx, r.source)
	if err != nil {
		return err
	}
	if r.gone, err = r.in.excluded(ctx, r.source); err != nil {
		return err
	}
	ofTable, _ := constants(r.source)
	for i, s := range r.p.sources {
		if v, ok := ofTable[s.name]; ok && s.column.key {
			r.fill[i] = always(v)
			continue
		}
		if v, ok := keyOf(r.source, s.name, s.column.typ.Kind); ok && s.column.key {
			key, err := keyCell(v, s.column.typ.Kind)
			if err != nil {
				return fmt.Errorf("the key %s: %w", s.name, err)
			}
			r.fill[i] = always(key)
			continue
		}
		if r.fill[i], err = f.find(s.column, s.key, s.fallback); err != nil {
			return err
		}
	}
	return f.rows(ctx, progress, r.next)
}

// next interprets the row that the scan is at.
func (r *reading) next() error {
	for i, s := range r.p.sources {
		if err := r.fill[i](&r.cells[s.slot]); err != nil {
			return fmt.Errorf("row %d: column %s: %w", r.at.row, s.column.name, err)
		}
	}
	if r.gone[r.at.row] {
		r.at.row++
		return nil
	}
	if err := r.row(); err != nil {
		return fmt.Errorf("row %d: %w", r.at.row, err)
	}
	r.at.row++
	return nil
}

// row interprets the row whose sources are in the cells.
func (r *reading) row() error {
	if r.p.filter != nil && r.p.filter(r.cells, r.at) != yes {
		return nil
	}
	for i, s := range r.p.steps {
		if s.op.keep != nil {
			if !s.op.keep(r.inputs[i], r.at) {
				return nil
			}
			continue
		}
		out := &r.cells[s.out]
		out.clear()
		if err := s.op.run(r.inputs[i], out); err != nil {
			return fmt.Errorf("%s: %w", s.at, err)
		}
	}
	r.hasher.Reset()
	for _, o := range r.p.outputs {
		if err := r.output(o); err != nil {
			return fmt.Errorf("%s: %w", o.field.Name, err)
		}
	}
	r.out.rows = append(r.out.rows, r.at.row)
	r.out.hashes = append(r.out.hashes, r.hasher.Sum())
	return nil
}

// output adds one tensor's part of the row to its hash.
func (r *reading) output(o output) error {
	c, kind := &r.cells[o.slots[0]], r.p.types[o.slots[0]].Kind
	switch o.field.Layout {
	case pb.Layout_DENSE:
		for _, slot := range o.slots {
			r.hasher.Float32(denseValue(&r.cells[slot], r.p.types[slot].Kind))
		}
		return nil
	case pb.Layout_SPARSE:
		return r.sparse(o, c, kind)
	case pb.Layout_LABEL:
		return r.label(c, kind)
	case pb.Layout_BYTES:
		if c.null {
			r.hasher.Bytes(nil)
		} else {
			r.hasher.Bytes(c.texts[0])
		}
		return nil
	case pb.Layout_TENSOR:
		return r.tensor(o, c, r.p.types[o.slots[0]])
	case pb.Layout_PADDED:
		r.padded(o, c)
		return nil
	}
	return r.image(o, c)
}

func denseValue(c *cell, k pb.Kind) float32 {
	switch {
	case c.null:
		return float32(math.NaN())
	case holdingOf(k) == storedFloats:
		return float32(c.floats[0])
	}
	return float32(c.ints[0])
}

func (r *reading) sparse(o output, c *cell, k pb.Kind) error {
	var weights *cell
	var weightKind pb.Kind
	if o.weights >= 0 {
		weights, weightKind = &r.cells[o.weights], r.p.types[o.weights].Kind
		if a, b := c.count(k), weights.count(weightKind); a != b && r.p.types[o.slots[0]].List {
			return fmt.Errorf("%d ids but %d weights", a, b)
		}
	}
	n := 0
	for j := range c.count(k) {
		if o.keep || !c.isGone(j) {
			n++
		}
	}
	r.hasher.Len(n)
	for j := range c.count(k) {
		from, at := c, j
		if c.isGone(j) {
			if !o.keep {
				continue
			}
			from, at = o.fill, 0
		}
		if o.field.Kind == pb.Kind_INT64 {
			r.hasher.Int(from.ints[at])
		} else {
			r.hasher.Float32(float32(from.floats[at]))
		}
		if weights != nil {
			r.hasher.Float32(weightAt(weights, weightKind, j))
		}
	}
	return nil
}

func weightAt(c *cell, k pb.Kind, j int) float32 {
	switch {
	case c.null || c.isGone(j):
		return float32(math.NaN())
	case holdingOf(k) == storedFloats:
		return float32(c.floats[j])
	}
	return float32(c.ints[j])
}

func (r *reading) label(c *cell, k pb.Kind) error {
	switch {
	case k == pb.Kind_FLOAT32 && c.null:
		r.hasher.Float32(float32(math.NaN()))
	case k == pb.Kind_FLOAT32:
		r.hasher.Float32(float32(c.floats[0]))
	case k == pb.Kind_FLOAT64 && c.null:
		r.hasher.Float64(math.NaN())
	case k == pb.Kind_FLOAT64:
		r.hasher.Float64(c.floats[0])
	case c.null:
		return fmt.Errorf("a label of kind %v is null; filter it (`is not null`), use fill_null, or declare a default",
			k)
	default:
		r.hasher.Int(c.ints[0])
	}
	return nil
}

// image adds raw pixels; null is all zeros.
func (r *reading) image(o output, c *cell) error {
	size := 1
	for _, d := range o.field.Shape {
		size *= int(d)
	}
	if c.null {
		r.hasher.Bytes(make([]byte, size))
		return nil
	}
	if len(c.texts[0]) != size {
		return fmt.Errorf("%d bytes; shape %v takes %d", len(c.texts[0]), o.field.Shape, size)
	}
	r.hasher.Bytes(c.texts[0])
	return nil
}
