package client

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// checkBatch compares every value of a batch with what its rows' ids say, and returns the ids.
func checkBatch(b *Batch) ([]int64, error) {
	ids := b.Labels[0].I64
	if len(ids) != b.Rows {
		return nil, fmt.Errorf("%d labels for %d rows", len(ids), b.Rows)
	}
	for i, id := range ids {
		r := fake.RowOf(id)
		lo, hi := b.Sparse[0].Offsets[i], b.Sparse[0].Offsets[i+1]
		t := b.Bytes[0]
		ok := r.Epoch == b.Epoch && b.Dense[2*i] == float32(r.Window) && b.Dense[2*i+1] == float32(r.K) &&
			int(hi-lo) == fake.Values(id) && b.Labels[1].Bool[i] == (r.K%3 == 0) &&
			string(t.Data[t.Offsets[i]:t.Offsets[i+1]]) == fmt.Sprint(id) &&
			b.Images[0].Data[4*i] == byte(r.K) && b.Images[0].Data[4*i+3] == byte(r.Window) &&
			b.Files[i] == int32(r.Shard) && b.RowIDs[i] == int64(r.K)
		for j := range int(hi - lo) {
			at := int(lo) + j
			ok = ok && b.Sparse[0].Values[at] == id+int64(j) && b.Sparse[1].Floats[at] == float32(r.K)+float32(j) &&
				b.Sparse[2].Values[at] == id*int64(j) && b.Sparse[2].Weights[at] == float32(j)/2
		}
		matrix, moments := Values[uint16](b.Tensors[0].Data)[4*i:][:4], Values[int64](b.Tensors[2].Data)[3*i:][:3]
		for j := range 3 {
			ok = ok && matrix[j] == uint16(4*r.K+j) && moments[j] == int64(3*r.K+j)
		}
		recent := fake.Recent(r.K)
		ok = ok && matrix[3] == uint16(4*r.K+3) && b.Tensors[1].Data[i] == byte(r.K%2) &&
			b.Padded[0].Lengths[i] == int32(len(recent)) &&
			slices.Equal(Values[int64](b.Padded[0].Data)[4*i:][4-len(recent):4], recent)
		if !ok {
			return nil, fmt.Errorf("row %d of the batch (%+v) has wrong values", i, r)
		}
	}
	return ids, nil
}
