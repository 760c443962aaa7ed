package transform

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// isInteger and isFloat classify kinds; together they are the numbers.
func isInteger(k pb.Kind) bool { return k == pb.Kind_INT32 || k == pb.Kind_INT64 }

func isFloat(k pb.Kind) bool { return k == pb.Kind_FLOAT32 || k == pb.Kind_FLOAT64 }

// overflows reports whether a finite number is infinite as float32.
func overflows(x float64) bool { return math.IsInf(float64(float32(x)), 0) && !math.IsInf(x, 0) }

// What built-in ops take, in the words of Op.Inputs.
const (
	scalarOrListOfAnything = "scalar or list of anything"
	scalarOrListOfNumbers  = "scalar or list of numbers"
	sameAsInput            = "the input's type"
)

// checkNumbers refuses an input that is not of numbers.
func checkNumbers(in spec.Type) error {
	if !isInteger(in.Kind) && !isFloat(in.Kind) {
		return fmt.Errorf("in: want a scalar or list of numbers, found %v; cast turns it into one", in)
	}
	return nil
}
