package spec

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
)

// Given is what a spec is resolved with.
type Given struct {
	Schema  Schema  // of the dataset's files
	Catalog Catalog // of ops
	Fitted  Fitted  // nil: nothing is
	// Tables are the side tables that the spec names: Tables lists them.
	Tables map[TableName]*SideTable
}

// Resolve turns a spec into the program that workers run, given what the dataset's files and the ops offer. Only
// what the outputs, the filter and ops that select rows need ends in the program. The error is Problems: all
// mistakes of the spec.
func Resolve(s *pb.Spec, given Given) (*pb.Program, error) {
	r := newResolver(s, given)
	r.session(s)
	r.transforms(s)
	r.filter(s.GetFilter())
	r.features(s)
	r.checkPinned()
	if err := r.problems.err(); err != nil {
		return nil, err
	}
	p := r.program(s)
	r.checkPins(s, p)
	r.checkSkippedRows(s, p)
	if err := r.problems.err(); err != nil {
		return nil, err
	}
	return p, nil
}

func newResolver(s *pb.Spec, given Given) *resolver {
	return &resolver{
		index:   newIndex(given.Schema),
		catalog: given.Catalog,
		known:   given.Fitted,
		tables:  given.Tables,
		storage: s.GetDataset().GetStorage(),
		code:    s.GetCode(),
		sources: map[string]*feature{},
		derived: map[string]*feature{},
		owned:   map[string]*feature{},
	}
}

func (r *resolver) transforms(s *pb.Spec) {
	for i, t := range s.GetTransforms() {
		if r.serving != nil && t.GetOp() == sampleOp { // which may look at columns that rows lack, as a filter may
			continue
		}
		r.transform(fmt.Sprintf("transforms[%d]", i), t)
	}
}

// feature is a column of values on its way through the program.
type feature struct {
	name string
	// typ has kind unspecified if a mistake that has been reported keeps it unknown.
	typ Type
	// source is set for columns of the dataset.
	source  *pb.Source
	meaning string  // of a source, or of one whose values these are; see Column.Meaning
	text    bool    // as meaning; see Column.Text
	date    bool    // as meaning; see Column.Date
	shape   []int32 // of each row, where all have one
	column  int     // of the schema, of sources
	at      string  // the transform that made it, else empty
	lacks   string  // the column for want of which its type is unknown; see serving
	by      *step   // that makes it
	formula string  // see resolver.formula
	needed  bool
	slot    uint32
}

func (f *feature) unknown() bool { return f.typ.Kind == pb.Kind_KIND_UNSPECIFIED }

// step is an op on features. One without outs selects rows.
type step struct {
	proto     *pb.Step
	transform *pb.Transform
	asked     map[string]Statistic // parameters that the data say
	behind    *step                // that decided which rows there are
	in, outs  []*feature
	one       [1]*feature // where outs lie, of nearly all steps
	table     *joined     // that it looks values up in, and the column that it takes, if it does
	column    *pb.Source
}

// needed reports whether a step has an effect: it decides which rows there are, or one of its results is needed.
func (st *step) needed() bool {
	return RowsOfStep(st.proto) != SameRows || slices.ContainsFunc(st.outs, func(f *feature) bool { return f.needed })
}

// makes gives a step its results.
func (st *step) makes(outs ...*feature) {
	st.outs, st.proto.Outs = append(st.one[:0], outs...), uint32(len(outs))
	for i, f := range outs {
		f.by = st
		if i == 0 {
			st.proto.Type = f.typ.Proto()
		} else {
			st.proto.More = append(st.proto.More, f.typ.Proto())
		}
	}
}

// resolver gathers a program and what is wrong with its spec.
type resolver struct {
	index    *index
	catalog  Catalog
	known    Fitted
	pass     *pass // nil: what is not fitted is a mistake
	tables   map[TableName]*SideTable
	joins    []*joined
	storage  string   // the dataset's profile
	code     *pb.Code // of the functions that transforms call
	named    named    // those of them that have names
	first    caller   // the first transform that calls one
	problems Problems
	// sources that the spec mentions, and results of transforms, by name. A result hides the source of its name.
	sources, derived map[string]*feature
	// owned are sources, too, of kinds that only tensors have.
	owned   map[string]*feature
	steps   []*step
	timed   string // the filter with numbers in place of times; "": it names none
	barrier string // the first transform behind which there may be other rows than the files', and what it calls
	behind  *step  // the last one that decides which rows there are
	outputs []*output
	serving *serving // nil: sessions run the program
	// suggestions made, which cost a look at each name
	suggestions int
	listed      bool // the columns, for a name that is near to none
}

// session checks what is neither feature nor transform.
func (r *resolver) session(s *pb.Spec) {
	if len(s.GetDataset().GetUri()) == 0 || slices.Contains(s.GetDataset().GetUri(), "") {
		r.problems.add("dataset.uri",
			"found nothing; want where the files lie, such as s3://bucket/dir/ or file:///data/*.parquet")
	}
	if text := s.GetDataset().GetPartitions(); text != "" {
		if _, err := filter.ParsePartitions(text); err != nil {
			r.problems.add("dataset.partitions", "%v", err)
		}
	}
	if name := s.GetPython(); name != "" && !isLabel(name) {
		r.problems.add("python", "found %.40q; want the name of an environment of the workers, such as default", name)
	}
	r.sizes(s)
	r.checkCode(s.GetCode())
}

func (r *resolver) filter(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	n, err := expr.Parse(text)
	if err == nil {
		n, err = r.timedFilter(n)
	}
	if err != nil {
		r.problems.add("filter", "%v", err)
		return
	}
	for _, err := range filter.Of(n).Check(r.filterColumn) {
		r.problems.add("filter", "%v", err)
	}
}

// filterColumn finds a column of the filter, which sees sources only, and marks it as needed.
func (r *resolver) filterColumn(name string) (expr.Type, error) {
	f, err := r.source(name)
	if err != nil {
		return expr.Type{}, err
	}
	if f != nil && !f.typ.Computes() {
		return expr.Type{}, fmt.Errorf("%s; no filter takes lists of lists", typed(f))
	}
	if f != nil {
		f.needed = true
		return expr.Type{Kind: f.typ.Kind, List: f.typ.List}, nil
	}
	if d := r.derived[name]; d != nil {
		return expr.Type{}, fmt.Errorf("%s is made by %s; filters see the dataset's columns only", name, d.at)
	}
	return expr.Type{}, fmt.Errorf("no column %s%s; text goes in quotes", name,
		r.suggestColumn(name, slices.Values(r.index.names)))
}

// source returns the feature of a source column, or nil if there is none of that name.
func (r *resolver) source(name string) (*feature, error) {
	if f, ok := r.sources[name]; ok {
		return f, nil
	}
	src, column, err := r.index.source(name)
	if src == nil {
		return nil, err
	}
	of := r.index.columns[column]
	f := &feature{
		name: name, typ: TypeFromProto(src.GetType()), source: src, meaning: src.GetMeaning(), text: of.Text,
		date:   of.Date,
		column: column,
	}
	if f.typ.List {
		f.shape = of.Shape
	}
	r.sources[name] = f
	return f, nil
}

// find returns the feature that a name stands for at this point, or nil. Where rows are served, it is never nil.
func (r *resolver) find(name string) (*feature, error) {
	f, err := r.present(name)
	if f == nil && err == nil && r.serving != nil {
		f = r.serving.lacking(name)
	}
	return f, err
}

// present returns the feature that bears a name at this point, or nil.
func (r *resolver) present(name string) (*feature, error) {
	if f, ok := r.derived[name]; ok {
		return f, nil
	}
	f, err := r.source(name)
	if f != nil && r.serving != nil && r.serving.absent[r.index.columns[f.column].Name] {
		return nil, nil
	}
	return f, err
}

// exact reports whether a feature or column bears the name itself.
func (r *resolver) exact(name string) bool {
	_, column := r.index.byName[name]
	return column || r.derived[name] != nil
}

// names of all features at this point, in no order.
func (r *resolver) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range r.index.names {
			if !yield(name) {
				return
			}
		}
		for name := range r.derived {
			if _, hides := r.index.byName[name]; !hides && !yield(name) {
				return
			}
		}
	}
}

// maxSuggestions bounds the work for specs that are wrong all over.
const maxSuggestions = 50

func (r *resolver) nearest(name string, candidates iter.Seq[string]) string {
	r.suggestions++
	if r.suggestions > maxSuggestions {
		return ""
	}
	return natural.Nearest(name, candidates)
}

// suggestColumn is what follows "no such column".
func (r *resolver) suggestColumn(name string, candidates iter.Seq[string]) string {
	return cmp.Or(hint(r.nearest(name, candidates)), r.columns())
}

// columns says once what columns there are.
func (r *resolver) columns() string {
	if r.listed || len(r.index.names) == 0 {
		return ""
	}
	r.listed = true
	return fmt.Sprintf("; there are %s; `penstock show URI` lists all columns", some(r.index.names))
}

// expand returns the features that names and globs stand for, each once, and reports those that stand for none.
func (r *resolver) expand(path string, patterns []string) []*feature {
	var found []*feature
	seen := map[*feature]bool{}
	add := func(name string) bool {
		f, err := r.find(name)
		if err != nil {
			r.problems.add(path, "%v", err)
			return true
		}
		if f != nil && !seen[f] {
			seen[f] = true
			found = append(found, f)
		}
		return f != nil
	}
	for _, pattern := range patterns {
		switch {
		case pattern == "":
			r.problems.add(path, "found an empty name; want a feature's name or a glob")
		case !r.exact(pattern) && isGlob(pattern):
			names, err := r.matches(pattern)
			if err != nil {
				r.problems.add(path, "%v", err)
			}
			for _, name := range names {
				add(name)
			}
		case !add(pattern):
			r.problems.add(path, "no feature %s%s", pattern, r.suggestColumn(pattern, r.names()))
		}
	}
	return found
}

// matches returns the names that a glob stands for, in natural order: at least one, or an error.
func (r *resolver) matches(pattern string) ([]string, error) {
	g, err := newGlob(pattern)
	if err != nil {
		return nil, fmt.Errorf(
			"the glob %s is malformed; it may have *, ?, [a-z] and \\ before a character to be taken as it is", pattern)
	}
	if err := r.untyped(g); err != nil {
		return nil, err
	}
	names := slices.SortedFunc(r.flat(g.filtered(r.names())), natural.Compare)
	if len(names) == 0 && r.serving != nil {
		return []string{pattern}, nil
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no feature matches %s%s", pattern, cmp.Or(r.unseen(g), r.columns()))
	}
	return names, nil
}

// flat leaves lists of lists out, which few layouts take, and keys of partitions: they must be named.
func (r *resolver) flat(names iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range names {
			f, err := r.find(name)
			if err == nil && (f.typ.Nested > 0 || f.source.GetPartition()) {
				continue
			}
			if !yield(name) {
				return
			}
		}
	}
}

// unseen explains to those who meant them that a glob does not see maps, and columns that cannot be features.
func (r *resolver) unseen(g glob) string {
	for _, c := range r.index.columns {
		switch {
		case !g.match(c.Name) && !strings.HasPrefix(g.pattern, strings.Join(c.Path, ".")+"."):
		case c.Unsupported != "":
			return fmt.Sprintf("; %s cannot be a feature: it is %s", c.Name, c.Unsupported)
		case c.Key != pb.Kind_KIND_UNSPECIFIED:
			return "; keys of maps must be named one by one"
		case c.Type.Nested > 0:
			return "; lists of lists must be named one by one"
		case c.Partition:
			return "; keys of partitions must be named one by one"
		}
	}
	return ""
}

// needInputs has all that needed steps are made of be needed, too.
func (r *resolver) needInputs() {
	for _, st := range slices.Backward(r.steps) {
		if st.needed() {
			for _, f := range st.in {
				f.needed = true
			}
		}
	}
}

// program keeps what is needed and numbers its slots.
func (r *resolver) program(s *pb.Spec) *pb.Program {
	r.needInputs()
	p := &pb.Program{
		Storage: s.GetDataset().GetStorage(), Format: s.GetDataset().GetFormat(),
		Filter: cmp.Or(r.timed, strings.TrimSpace(s.GetFilter())),
		Seed:   s.GetSeed(), Shuffle: s.GetShuffle(), Provenance: s.GetProvenance(),
	}
	var slots uint32
	number := func(f *feature) {
		f.slot = slots
		slots++
	}
	sources := slices.AppendSeq(slices.Collect(maps.Values(r.sources)), maps.Values(r.owned))
	slices.SortFunc(sources, bySchema)
	for _, f := range sources {
		if f.needed {
			number(f)
			p.Sources = append(p.Sources, f.source)
		}
	}
	for _, st := range r.steps {
		if !st.needed() {
			continue
		}
		for _, f := range st.in {
			st.proto.In = append(st.proto.In, f.slot)
		}
		for _, f := range st.outs {
			number(f)
		}
		st.joinsOf(p)
		p.Steps = append(p.Steps, st.proto)
	}
	for _, o := range r.outputs {
		p.Outputs = append(p.Outputs, o.resolved())
	}
	return p
}

// bySchema orders sources as they lie in the files, keys of one map by name.
func bySchema(a, b *feature) int {
	if a.column != b.column {
		return cmp.Compare(a.column, b.column)
	}
	return cmp.Or(natural.Compare(a.name, b.name), cmp.Compare(a.typ.Kind, b.typ.Kind))
}
