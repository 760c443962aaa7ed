package tar

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/npy"
	decoders "github.com/penstock-ml/penstock/worker/formats/records"
)

// set sets the values of an array, in C's order. A column that is no list takes the one value of an array.
func (s *array) set(a npy.Array, c *decoders.Column) error {
	n := len(a.Data) / spec.Width(a.Kind)
	switch {
	case a.Meaning != s.meaning:
		return fmt.Errorf("its array is of %s: declare it in dataset.format.columns, such as list<float32>",
			described(a))
	case s.shape != nil && !slices.Equal(s.shape, a.Shape) && spec.Count(s.shape, 1) == n:
		return fmt.Errorf("its array has the shape %v where others of the file have %v: write it with theirs",
			a.Shape, s.shape)
	case !c.Type.List && n != 1:
		return fmt.Errorf("its array has %d values where one is wanted", n)
	case !c.Type.List:
		return values(a, c)
	}
	if err := c.Open(); err != nil {
		return err
	}
	defer c.Close()
	return values(a, c)
}

func described(a npy.Array) string {
	if a.Meaning != "" {
		return a.Meaning
	}
	return spec.KindName(a.Kind)
}

// values sets an array's values, which are those of the column, or convert to them.
func values(a npy.Array, c *decoders.Column) error {
	if !decoders.Converts(a.Kind, c.Type.Kind) {
		return fmt.Errorf("its array is of %s where %s is wanted: declare it in dataset.format.columns",
			described(a), spec.KindName(c.Type.Kind))
	}
	return c.From(a.Kind, a.Data)
}
