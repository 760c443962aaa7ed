package reference

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform/zoneinfo"
)

func isInt(k pb.Kind) bool { return k == pb.Kind_INT32 || k == pb.Kind_INT64 }

// positiveModulus is the remainder of each id, from 0.
func positiveModulus(p parameters, in []spec.Type) (operation, error) {
	modulus, err := p.int("modulus", 0)
	if err != nil || modulus < 1 || !isInt(in[0].Kind) {
		return operation{}, errors.Join(fmt.Errorf("input %v, modulus %d", in[0], modulus), err)
	}
	out := spec.Type{Kind: pb.Kind_INT64, List: in[0].List}
	return eachInt(out, func(x int64) int64 { return modulo(uint64(x), modulus) }), nil
}

// mapID looks up each value in a list of keys, or in a range.
func mapID(p parameters, in []spec.Type) (operation, error) {
	first, err1 := p.int("first", 0)
	count, err2 := p.int("count", 0)
	if err := errors.Join(err1, err2); err != nil {
		return operation{}, err
	}
	keys, values := listed(p["keys"]), listed(p["values"])
	out := spec.Type{Kind: pb.Kind_INT64, List: in[0].List}
	for _, v := range append(listed(p["values"]), p["default"]) {
		if _, is := v.GetKind().(*pb.Value_Float); is {
			out.Kind = pb.Kind_FLOAT32
		}
	}
	place := func(c *cell, j int) int64 {
		if count > 0 {
			if at := uint64(c.ints[j]) - uint64(first); at < uint64(count) {
				return int64(at)
			}
			return -1
		}
		for i, key := range keys {
			if n, ok := integer(key); ok && in[0].Kind != pb.Kind_BINARY && n == c.ints[j] {
				return int64(i)
			}
			if in[0].Kind == pb.Kind_BINARY && key.GetText() == string(c.texts[j]) {
				return int64(i)
			}
		}
		return -1
	}
	return operation{out: out, run: func(in []*cell, result *cell) error {
		result.null = in[0].null
		for j := range max(len(in[0].ints), len(in[0].texts)) {
			at, gone, value := place(in[0], j), in[0].isGone(j), p["default"]
			switch {
			case at >= 0 && p["values"] != nil:
				value = values[at]
			case at >= 0:
				value = &pb.Value{Kind: &pb.Value_Int{Int: at}}
			case value == nil && !out.List:
				result.null = true
				return nil
			case value == nil:
				gone, value = true, &pb.Value{Kind: &pb.Value_Int{}}
			}
			if err := result.appendConstant(value, out.Kind); err != nil {
				return err
			}
			if out.List {
				result.gone = append(result.gone, gone)
			}
		}
		return nil
	}}, nil
}

// listed are the values of a list in any of its forms; a single one is a list, too.
func listed(v *pb.Value) (out []*pb.Value) {
	switch list := v.GetKind().(type) {
	case *pb.Value_List:
		return list.List.GetValues()
	case *pb.Value_Floats:
		for _, x := range list.Floats.GetValues() {
			out = append(out, &pb.Value{Kind: &pb.Value_Float{Float: x}})
		}
		return out
	case *pb.Value_Ints:
		for _, n := range list.Ints.GetValues() {
			out = append(out, &pb.Value{Kind: &pb.Value_Int{Int: n}})
		}
		return out
	}
	return []*pb.Value{v}
}

// localHour asks the time package, with the ops' own time zones.
func localHour(p parameters, in []spec.Type) (operation, error) {
	name := p["timezone"].GetText()
	data, ok, err := zoneinfo.Load(name)
	if !ok || err != nil || !isInt(in[0].Kind) {
		return operation{}, errors.Join(fmt.Errorf("input %v, time zone %q", in[0], name), err)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return operation{}, err
	}
	perSecond, ok := map[string]int64{
		"": 1, "s": 1, "ms": 1_000, "us": 1_000_000,
		"ns": 1_000_000_000,
	}[p["unit"].GetText()]
	if !ok {
		return operation{}, fmt.Errorf("unit is %v", p["unit"])
	}
	out := spec.Type{Kind: pb.Kind_INT32, List: in[0].List}
	return eachInt(out, func(x int64) int64 {
		t := x / perSecond
		if t*perSecond > x {
			t--
		}
		return int64(time.Unix(nearYear(t), 0).In(zone).Hour())
	}), nil
}

// nearYear is a time of the years from 1 to 2499 at which clocks show the same: the calendar repeats every 400 years,
// and zones have had rules, or have kept one time, for longer.
func nearYear(t int64) int64 {
	const cycle, year1, year2100 = 146_097 * 86_400, -62_135_596_800, 4_102_444_800
	switch {
	case t >= year2100:
		return year2100 + (t-year2100)%cycle
	case t < year1:
		return year1 + modulo(uint64(t-year1), cycle)
	}
	return t
}

// onehot is a list with 1 at the places of a row's ids.
func onehot(p parameters, in []spec.Type) (operation, error) {
	size, err := p.int("size", 0)
	if err != nil || !isInt(in[0].Kind) {
		return operation{}, errors.Join(fmt.Errorf("input %v", in[0]), err)
	}
	return operation{out: spec.Type{Kind: pb.Kind_FLOAT32, List: true}, run: func(in []*cell, out *cell) error {
		out.null = false
		out.floats, out.gone = append(out.floats, make([]float64, size)...), append(out.gone, make([]bool, size)...)
		for j, id := range in[0].ints {
			if !in[0].null && !in[0].isGone(j) && id >= 0 && id < size {
				out.floats[id] = 1
			}
		}
		return nil
	}}, nil
}

// enumerate numbers the elements of lists.
func enumerate(p parameters, in []spec.Type) (operation, error) {
	start, err := p.int("start", 0)
	if err != nil || !in[0].List {
		return operation{}, errors.Join(fmt.Errorf("input %v", in[0]), err)
	}
	return operation{out: spec.Type{Kind: pb.Kind_INT64, List: true}, run: func(in []*cell, out *cell) error {
		out.null = in[0].null
		for j := range in[0].gone {
			out.ints, out.gone = append(out.ints, start+int64(j)), append(out.gone, false)
		}
		return nil
	}}, nil
}
