package pipeline

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	rowfilter "github.com/penstock-ml/penstock/worker/filter"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// engine is what a stream works with, compiled of its program, and its memory but for chunks.
type engine struct {
	decoder   formats.Decoder
	constants formats.Constants
	filter    *rowfilter.Program // nil: all rows
	expr      *filter.Expr       // that filter was compiled of
	chain     *transform.Chain
	builder   *tensor.Builder // nil: no batches are made
	reads     []bool          // for each source, whether it is for more than to choose rows
	windows   windowScratch
	bad       badRows
	extra     map[*tensor.Batch]int64 // what each batch has beyond the usual
}

// compile makes the engine of a stream's program, for batches or for none.
func compile(s *Stream, batches bool) (_ *engine, err error) {
	e := &engine{extra: make(map[*tensor.Batch]int64, batchesOut)}
	if e.chain, err = transform.Compile(s.cfg.Ops, s.program, s.functions, s.tables.Lookups()...); err != nil {
		return nil, err
	}
	if err := e.compile(s.program, s.file.Format(), batches); err != nil {
		e.giveUp()
		return nil, err
	}
	return e, nil
}

// compile makes what stands beside the chain.
func (e *engine) compile(program *pb.Program, kind string, batches bool) (err error) {
	if batches {
		if e.builder, err = tensor.NewBuilder(program, batchesOut); err != nil {
			return err
		}
	}
	e.reads = reads(program)
	own := format.OwnOf(program.GetSources())
	if e.decoder, err = formats.New(kind, own.Sources); err != nil {
		return err
	}
	e.constants = formats.Constants{Own: own, Memory: e.decoder.Memory()}
	if err := e.compileFilter(program); err != nil {
		return err
	}
	decoder, ok := e.decoder.(formats.Early)
	for i := range program.GetSources() {
		early, has := e.chain.Early(i)
		at, own := own.Place(i)
		if ok && has && own && (e.filter == nil || !slices.Contains(e.filter.Columns(), i)) {
			decoder.TakeEarly(at, early)
		}
	}
	return nil
}

func (e *engine) compileFilter(program *pb.Program) (err error) {
	late, isLate := e.decoder.(formats.Late)
	if program.GetFilter() == "" {
		if isLate && e.chain.Selects() {
			late.DecodeFirst(e.constants.Places(e.chain.SelectsBy()))
		}
		return nil
	}
	expr, err := filter.Parse(program.GetFilter())
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	names := spec.SourcesByName(program.GetSources())
	types := make([]spec.Type, len(program.GetSources()))
	for i, src := range program.GetSources() {
		types[i] = spec.TypeFromProto(src.GetType())
	}
	if e.filter, err = rowfilter.Compile(expr, names, types); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	e.expr = expr
	e.chain.Keep(e.filter.Bytes())
	if isLate {
		late.DecodeFirst(e.constants.Places(e.choosing()))
	}
	if coded, ok := e.decoder.(formats.Coded); ok {
		coded.AsCodes(e.constants.Places(e.unread()))
	}
	return nil
}

// choosing are the sources that the filter or a step looks at which chooses rows, each once.
func (e *engine) choosing() []int {
	all := append(e.filter.Columns(), e.chain.SelectsBy()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// reads finds the sources that a step or an output reads.
func reads(program *pb.Program) []bool {
	reads := make([]bool, len(program.GetSources()))
	read := func(slots ...uint32) {
		for _, slot := range slots {
			if int(slot) < len(reads) {
				reads[slot] = true
			}
		}
	}
	for _, step := range program.GetSteps() {
		read(step.GetIn()...)
	}
	for _, o := range program.GetOutputs() {
		read(o.GetSlots()...)
		if o.Weights != nil {
			read(o.GetWeights())
		}
	}
	return reads
}

// unread are the other sources.
func (e *engine) unread() (slots []int) {
	for i, read := range e.reads {
		if !read {
			slots = append(slots, i)
		}
	}
	return slots
}

// choice is what chooses rows, for files that tell where they are.
func (e *engine) choice() format.Filter {
	if e.filter == nil {
		return format.Filter{}
	}
	return format.Filter{Expr: e.expr, Sources: e.constants.Places(e.filter.Columns())}
}

// beyond is what all batches have beyond the usual.
func (e *engine) beyond() (bytes int64) {
	for _, n := range e.extra {
		bytes += n
	}
	return bytes
}

// giveUp gives up the memory of batches, and what functions keep.
func (e *engine) giveUp() {
	if e == nil {
		return
	}
	e.chain.Close()
	if e.builder != nil {
		e.builder.Close()
	}
}
