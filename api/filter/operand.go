package filter

import (
	"fmt"
	"strconv"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// Operand is what a test looks at: a column, the hash of a column or of the row's place, or a remainder of these.
type Operand struct {
	Column  string // "" where the row's place is hashed
	Hashed  bool
	Seed    int64 // of the hash
	Modulus int64 // 0: no remainder is taken
}

// OfRow reports whether the operand is made of the row's place, and of no column.
func (o Operand) OfRow() bool { return o.Hashed && o.Column == "" }

// Computed reports whether the operand is another value than the column's.
func (o Operand) Computed() bool { return o.Hashed || o.Modulus != 0 }

// String is the operand as the language has it.
func (o Operand) String() string {
	text := "row()"
	if o.Column != "" {
		text = expr.ColumnName(o.Column)
	}
	if o.Hashed {
		text = fmt.Sprintf("hash(%s, %d)", text, o.Seed)
	}
	if o.Modulus != 0 {
		text += " % " + strconv.FormatInt(o.Modulus, 10)
	}
	return text
}

// of computes the operand of a column's value, or of a row's id; known is false of null.
func (o Operand) of(v expr.Value, known bool) (_ expr.Value, isKnown bool, err error) {
	if o.Hashed {
		id := NullID
		if known {
			id = idOf(v)
		}
		v, known = expr.Int(NewHash(o.Seed).Of(id)), true
	}
	if o.Modulus == 0 || !known {
		return v, known, nil
	}
	if v, err = readText(v, pb.Kind_INT64); err != nil || v.Kind != pb.Kind_INT64 {
		return v, true, fmt.Errorf("%s is no integer; %% takes integers", v)
	}
	return expr.Int(Remainder(v.Int, o.Modulus)), true, nil
}

// Remainder is x modulo a positive number: in [0, modulus) for negative ones, too.
func Remainder(x, modulus int64) int64 {
	if x %= modulus; x < 0 {
		x += modulus
	}
	return x
}
