package main

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// row is one row as a map from feature to value: a number, or a list's. Nulls are absent.
type row map[int]any

// throughRows makes rows of columns, and columns of the rows.
func throughRows(columns []*vector.Vector) ([]*vector.Vector, error) {
	if len(columns) == 0 {
		return columns, nil
	}
	rows := make([]row, columns[0].Rows)
	for i := range rows {
		rows[i] = make(row, len(columns))
	}
	for c, v := range columns {
		if err := toRows(rows, c, v); err != nil {
			return nil, err
		}
	}
	out := make([]*vector.Vector, len(columns))
	for c, v := range columns {
		out[c] = fromRows(rows, c, v)
	}
	return out, nil
}

func toRows(rows []row, c int, v *vector.Vector) error {
	for i := range rows {
		if v.IsNull(i) {
			continue
		}
		switch {
		case v.Type.List && v.Type.Kind == pb.Kind_INT64 && v.ElemValid == nil:
			rows[i][c] = append([]int64(nil), v.I64[v.Offsets[i]:v.Offsets[i+1]]...)
		case v.Type.Kind == pb.Kind_INT64 && !v.Type.List:
			rows[i][c] = v.I64[i]
		case v.Type.Kind == pb.Kind_INT32 && !v.Type.List:
			rows[i][c] = v.I32[i]
		case v.Type.Kind == pb.Kind_FLOAT32 && !v.Type.List:
			rows[i][c] = v.F32[i]
		default:
			return fmt.Errorf("the workloads have no %v with nulls in lists", v.Type)
		}
	}
	return nil
}

// fromRows makes a column of the shape of v.
func fromRows(rows []row, c int, like *vector.Vector) *vector.Vector {
	v := &vector.Vector{Type: like.Type, Rows: len(rows), Valid: make([]uint64, vector.Words(len(rows)))}
	if v.Type.List {
		v.Offsets = make([]int32, 1, len(rows)+1)
	}
	for i, r := range rows {
		value, ok := r[c]
		if ok {
			v.Valid[i>>6] |= 1 << (i & 63)
		}
		switch v.Type.Kind {
		case pb.Kind_INT32:
			x, _ := value.(int32) // 0 if it is null
			v.I32 = append(v.I32, x)
		case pb.Kind_FLOAT32:
			x, _ := value.(float32)
			v.F32 = append(v.F32, x)
		default:
			if v.Type.List {
				list, _ := value.([]int64)
				v.I64 = append(v.I64, list...)
				v.Offsets = append(v.Offsets, int32(len(v.I64)))
				continue
			}
			x, _ := value.(int64)
			v.I64 = append(v.I64, x)
		}
	}
	return v
}
