package transform

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
)

// ErrUnknownOp is in the chain of errors about an op, or a version of one, that a registry lacks: another worker may
// have it.
var ErrUnknownOp = errors.New("unknown op")

// Registry is an immutable set of ops. It implements spec.Catalog with the newest version of each.
type Registry struct {
	ops map[string][]*Op // the versions of each name, ascending
}

var _ spec.Catalog = (*Registry)(nil)

// Builtin returns the ops that Penstock comes with.
func Builtin() *Registry {
	ops := []Op{
		bucketize(), cast(), clamp(), expression(), fillNull(), firstX(), lastX(), log1p(), ngram(), normalize(),
		sample(), sigridHash(), boxCox(), logit(), positiveModulus(), scaleTo01(), scaleToZScore(), onehot(),
		mapID(), mapIDOfInts(), localHour(), join(), lookupRow(), lookupColumn(), vocabularyID(), packTexts(),
		cartesian(), enumerate(), intersect(), sortByScore(), union(),
		cosineSimilarity(), hasOverlap(), idOverlapCount(), jaccardSimilarity(), scoreMax(), scoreMin(), scoreSum(),
		centerCrop(), decodeImage(), decodeJPEG(), decodePNG(), flip(), randomResizedCrop(), resize(),
	}
	for i := range ops {
		ops[i].builtin = true
	}
	r, err := new(Registry).With(ops...)
	if err != nil {
		panic(err) // a mistake in the list above
	}
	return r
}

// With returns a registry that has r's ops and those given. An op may come in several versions: specs get the newest,
// sessions that were opened with an older one keep that. A version of a name that is there already, or an op that is
// not complete, is an error.
func (r *Registry) With(ops ...Op) (*Registry, error) {
	all := maps.Clone(r.ops)
	if all == nil {
		all = make(map[string][]*Op, len(ops))
	}
	for _, op := range ops {
		if err := op.complete(); err != nil {
			return nil, fmt.Errorf("add op %q to the registry: %w", op.Name, err)
		}
		versions := all[op.Name]
		if slices.ContainsFunc(versions, func(o *Op) bool { return o.Version == op.Version }) {
			return nil, fmt.Errorf("add op %q to the registry: there is one of that name and version already", op.Name)
		}
		op.Params = slices.Clone(op.Params)
		versions = append(slices.Clone(versions), &op)
		slices.SortFunc(versions, func(a, b *Op) int { return cmp.Compare(a.Version, b.Version) })
		all[op.Name] = versions
	}
	return &Registry{ops: all}, nil
}

// complete reports what an op's declaration lacks.
func (op *Op) complete() error {
	switch {
	case op.Name == "":
		return errors.New("it has no name")
	case op.Version == 0:
		return errors.New("its version is 0; versions count from 1")
	case op.kinds() != 1:
		return errors.New("exactly one of New and Select must be set")
	case op.New != nil && op.Infer == nil:
		return errors.New("it has New but not Infer")
	case op.Select != nil && op.Maps:
		return errors.New("an op that selects rows has no inputs to map")
	}
	for i, p := range op.Params {
		switch {
		case p.Name == "op" || p.Name == "in" || p.Name == "out" || p.Name == "":
			return fmt.Errorf("a parameter may not be named %q", p.Name)
		case p.Want < Int || p.Want > Texts:
			return fmt.Errorf("parameter %s does not say what it takes", p.Name)
		case slices.ContainsFunc(op.Params[:i], func(q Param) bool { return q.Name == p.Name }):
			return fmt.Errorf("parameter %s is declared twice", p.Name)
		case p.Default != nil && (p.Required || p.canonical(literal(p.Default)) == nil):
			return fmt.Errorf("parameter %s: %v cannot be its default", p.Name, p.Default)
		}
	}
	return nil
}

// kinds counts what the op declares itself to be.
func (op *Op) kinds() (n int) {
	for _, is := range []bool{op.New != nil, op.Select != nil, op.newLookup != nil, op.resolved} {
		if is {
			n++
		}
	}
	return n
}

// Ops returns the newest version of each op, sorted by name.
func (r *Registry) Ops() []Op {
	ops := make([]Op, 0, len(r.ops))
	for _, name := range r.Names() {
		op := *r.newest(name)
		op.builtin = false // of the copy, which may become another op
		ops = append(ops, op)
	}
	return ops
}

func (r *Registry) newest(name string) *Op {
	versions := r.ops[name]
	if len(versions) == 0 {
		return nil
	}
	return versions[len(versions)-1]
}

// Names returns the names of all ops that specs may use, sorted.
func (r *Registry) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.ops)), func(name string) bool {
		op := r.newest(name)
		return op.hidden || op.newLookup != nil
	})
}

// Maps reports whether an op is applied to each of its inputs by itself, and whether it exists.
func (r *Registry) Maps(op string) (isMap, ok bool) {
	o := r.newest(op)
	return o != nil && o.Maps, o != nil
}

// Fitting is what an op may ask of the data.
func (r *Registry) Fitting(op string) spec.Fitting {
	if o := r.newest(op); o != nil {
		return o.Fitting
	}
	return spec.Fitting{}
}

// Check infers what an op makes of inputs of the given types (one of them for an op that maps), or returns all that is
// wrong with its parameters, or else what is wrong with its inputs.
func (r *Registry) Check(op string, params map[string]*pb.Value, in []spec.Type) (spec.Signature, error) {
	o, err := r.find(op)
	if err != nil {
		return spec.Signature{}, err
	}
	b, err := o.bind(params, in)
	if err != nil {
		return spec.Signature{}, err
	}
	return spec.Signature{
		Version: o.Version, Out: b.out, SelectsRows: b.selector != nil, Keeps: o.Keeps,
		Params: b.params.values,
	}, nil
}

func (r *Registry) find(op string) (*Op, error) {
	if o := r.newest(op); o != nil {
		return o, nil
	}
	hint := "`penstock ops` lists those there are"
	if near := natural.Nearest(op, slices.Values(r.Names())); near != "" {
		hint = "nearest: " + near
	}
	return nil, fmt.Errorf("%w %s; %s", ErrUnknownOp, op, hint)
}

// version returns an op as a session has pinned it.
func (r *Registry) version(op string, version uint32) (*Op, error) {
	if _, err := r.find(op); err != nil {
		return nil, err
	}
	var have []string
	for _, o := range r.ops[op] {
		if o.Version == version {
			return o, nil
		}
		have = append(have, fmt.Sprint(o.Version))
	}
	return nil, fmt.Errorf(
		"%w %s of version %d: this worker has version %s; run one of the release that opened the session",
		ErrUnknownOp, op, version, strings.Join(have, " and "))
}

// bound is an op with its parameters and the types of its inputs: a kernel and its result's type, or a selector.
type bound struct {
	params   Params
	out      spec.Type
	kernel   Kernel
	guest    bool // the kernel is not built in
	selector Selector
}

func (op *Op) bind(params map[string]*pb.Value, in []spec.Type) (bound, error) {
	return op.join(params, in, nil)
}

// join is bind for an op that may look values up in a table, without which it has no kernel.
func (op *Op) join(params map[string]*pb.Value, in []spec.Type, table *lookup.Table) (b bound, err error) {
	if b.params, err = newParams(op, params); err != nil || op.resolved {
		return b, err
	}
	if op.Select != nil {
		if len(in) > 0 && op.Names == "" {
			return bound{}, fmt.Errorf("in: %s selects rows and takes no features, found %d", op.Name, len(in))
		}
		b.selector, err = op.Select(b.params, in)
		return b, err
	}
	if op.Maps && len(in) != 1 {
		return bound{}, fmt.Errorf("in: %s takes one feature at a time, found %d", op.Name, len(in))
	}
	unknown := func(t spec.Type) bool { return !t.Computes() || !op.Pictures && isPicture(t) }
	if slices.ContainsFunc(in, unknown) {
		return bound{}, fmt.Errorf("in: want %s, found %v", op.Inputs, in)
	}
	if b.out, err = op.Infer(b.params, in); err != nil {
		return bound{}, err
	}
	if op.newLookup != nil {
		if table != nil {
			b.kernel, err = op.newLookup(b.params, in, table)
		}
		return b, err
	}
	b.guest = !op.builtin
	b.kernel, err = op.New(b.params, in)
	return b, err
}
