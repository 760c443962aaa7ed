package transform

import (
	"fmt"
	"slices"
	"sort"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform/zoneinfo"
)

// localHour is the hour of the day that clocks of a time zone show.
func localHour() Op {
	return Op{
		Name:    "local_hour",
		Version: 1,
		Summary: "The hour of the day, 0 to 23, of timestamps in a time zone. It goes by release " + zoneinfo.Release +
			" of the IANA database, which workers bring along.",
		Exact: "int32: the hour, 0 to 23, that clocks of the time zone show at that time since 1970-01-01 UTC, " +
			"rounded down to the second, see below. Of a column of timestamps the unit must be its own, behind " +
			"ops that hand on the values of their first input, too: `fill_null`, `clamp`, `cast`, `first_x`, " +
			"`last_x`, `sort_by_score`, `intersect`, `union`",
		Maps:   true,
		Inputs: "scalar or list of ints: time since 1970-01-01 00:00 UTC",
		Output: "int32, scalar or list like the input",
		Params: []Param{
			{Name: "timezone", Want: Text, Required: true, Positional: true, Doc: "its IANA name, as Europe/Berlin"},
			{
				Name: "unit", Want: Text, OneOf: []string{"s", "ms", "us", "ns"}, Default: "s",
				Doc: "what the timestamps count; a column of timestamps has its own",
			},
		},
		Example: "{op: local_hour, in: int_1, timezone: America/New_York, unit: ms}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if !isInteger(in[0].Kind) {
				return spec.Type{}, fmt.Errorf("in: want a scalar or list of ints, found %v", in[0])
			}
			return spec.Type{Kind: pb.Kind_INT32, List: in[0].List}, nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			z, err := newZone(p.Text("timezone"))
			if err != nil {
				return nil, err
			}
			perSecond := map[string]int64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[p.Text("unit")]
			if in[0].Kind == pb.Kind_INT32 {
				return Elementwise(func(dst, src []int32) { hours(dst, src, z, perSecond) }), nil
			}
			return Elementwise(func(dst []int32, src []int64) { hours(dst, src, z, perSecond) }), nil
		},
	}
}

// zone has the spans of a time zone.
type zone struct{ zoneinfo.Spans }

const (
	day        = zoneinfo.Day
	cycle      = zoneinfo.Cycle
	cycleStart = zoneinfo.CycleStart
	cycleEnd   = zoneinfo.CycleEnd
)

func newZone(name string) (*zone, error) {
	spans, ok, err := zoneinfo.Zone(name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, unknownZone(name)
	}
	return &zone{spans}, nil
}

func unknownZone(name string) error {
	names, err := zoneinfo.Names()
	if err != nil {
		return err
	}
	hint := "names are as Europe/Berlin, or UTC"
	if near := natural.Nearest(name, slices.Values(names)); near != "" {
		hint = "nearest: " + near
	}
	return fmt.Errorf("timezone: release %s of the IANA database has no %s; %s", zoneinfo.Release, name, hint)
}

// span returns the bounds and the offset of the span that has t, which is below cycleEnd.
func (z *zone) span(t int64) (start, end, offset int64) {
	next := sort.Search(len(z.Starts), func(i int) bool { return z.Starts[i] > t })
	end = cycleEnd
	if next < len(z.Starts) {
		end = z.Starts[next]
	}
	return z.Starts[next-1], end, z.Offsets[next-1]
}

// hours remembers the last span: timestamps that stand together are mostly of one time.
func hours[S int32 | int64](dst []int32, src []S, z *zone, perSecond int64) {
	dst = dst[:len(src)]
	start, end, offset := z.span(0)
	for i, v := range src {
		t := seconds(int64(v), perSecond)
		if t >= cycleEnd {
			t = cycleStart + (t-cycleStart)%cycle
		}
		if t < start || t >= end {
			start, end, offset = z.span(t)
		}
		local := t % day
		if local < 0 {
			local += day
		}
		if local += offset; local >= day {
			local -= day
		}
		dst[i] = int32(local / (60 * 60))
	}
}

// seconds rounds down. The compiler multiplies where it knows the divisor.
func seconds(v, perSecond int64) int64 {
	t := v
	switch perSecond {
	case 1e3:
		t = v / 1e3
	case 1e6:
		t = v / 1e6
	case 1e9:
		t = v / 1e9
	}
	if t*perSecond > v {
		t--
	}
	return t
}
