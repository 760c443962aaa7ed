package tar

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

const (
	optionMembers = "max_members"
	optionName    = "max_name_bytes"
	optionSamples = "max_samples"
	optionNoEnd   = "missing_end"
)

// Options are those of the format.
func (Kind) Options() []records.Option {
	whole := func(n int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }
	return []records.Option{
		{Name: optionMembers, Doc: "members of a sample at most", Default: whole(1000)},
		{Name: optionName, Doc: "bytes of a member's name at most", Default: whole(4096)},
		{
			Name: optionSamples, Doc: "samples of a file at most; finding them takes some 20 bytes of memory for each",
			Default: whole(4 << 20),
		},
		{
			Name: optionNoEnd, Doc: "whether a file may lack the zeros that end an archive, as one that was cut off",
			Default: &pb.Value{Kind: &pb.Value_Bool{Bool: false}}, Cuts: true,
		},
	}
}

// limits are what the options say.
type limits struct {
	members, name, samples int
	noEnd                  bool
}

func limitsOf(f *records.Front) (l limits, err error) {
	for _, o := range (Kind{}).Options() {
		v, err := f.Option(o)
		if err != nil {
			return l, err
		}
		to, isNumber := map[string]*int{
			optionMembers: &l.members, optionName: &l.name, optionSamples: &l.samples,
		}[o.Name]
		switch {
		case !isNumber:
			l.noEnd = v.GetBool()
		case v.GetInt() < 1 || v.GetInt() > math.MaxInt32:
			return l, fmt.Errorf("dataset.format.%s: want a whole number from 1 to %d", o.Name, math.MaxInt32)
		default:
			*to = int(v.GetInt())
		}
	}
	return l, nil
}
