package filter

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/expr"
)

// TestHashesStay holds values that data sets are split by, as docs/reference/filters.md shows them; another program, in
// Python, found the same.
func TestHashesStay(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/filters.md")
	if err != nil {
		t.Fatal(err)
	}
	row := expr.Int(int64(RowID(TextID([]byte("s3://bucket/a.parquet")), 41)))
	for _, c := range []struct {
		shown string
		key   expr.Value
		seed  int64
		want  int64
	}{
		{"`0`, `-0.0`, `false`", expr.Int(0), 7, 4836237696110517927},
		{"`1`, `1.0`, `true`", expr.Int(1), 7, 2786740710214564362},
		{"`123456789`", expr.Int(123456789), 7, 2521110722212891697},
		{"`-1`, null", expr.Int(-1), 7, 6612919898181497795},
		{"`0.5`", expr.Float64(0.5), 7, 4813143892751350127},
		{"NaN", expr.Float64(math.NaN()), 7, 6489124591852506485},
		{"`'user-17'`", expr.Text("user-17"), 7, 8331901311314879332},
		{"`''`", expr.Text(""), 7, 3607693029532013467},
		{"row 41 of `s3://bucket/a.parquet`", row, 7, 3252091219648710061},
		{"", expr.Int(123456789), 0, 548258565502629306},
		{"", expr.Int(123456789), -1, 6186543539090367576},
		{"", expr.Float64(0), 7, 4836237696110517927},
		{"", expr.Float64(math.Copysign(0, -1)), 7, 4836237696110517927},
		{"", expr.Bool(false), 7, 4836237696110517927},
		{"", expr.Float32(1), 7, 2786740710214564362},
		{"", expr.Bool(true), 7, 2786740710214564362},
		{"", expr.Float32(0.5), 7, 4813143892751350127},
		{"", expr.Float32(float32(math.NaN())), 7, 6489124591852506485},
		{"", expr.Float64(math.Float64frombits(0xfff8000000000001)), 7, 6489124591852506485},
		{"", expr.Float64(math.Inf(1)), 7, 2349890670117205946},
		{"", expr.Float64(1 << 63), 7, 3726913294136537528},
		{"", expr.Float64(-1 << 63), 7, NewHash(7).Of(1 << 63)},
	} {
		got, known, err := Operand{Column: "x", Hashed: true, Seed: c.seed}.of(c.key, true)
		if err != nil || !known || got != expr.Int(c.want) {
			t.Errorf("hash(%v, %d) is %v, %v; want %d", c.key, c.seed, got, err, c.want)
		}
		if line := fmt.Sprintf("| %s | %d |", c.shown, c.want); c.shown != "" && !strings.Contains(string(page), line) {
			t.Errorf("docs/reference/filters.md lacks %s", line)
		}
	}
	if got, known, _ := (Operand{Column: "x", Hashed: true, Seed: 7}).of(expr.Value{}, false); !known ||
		got != expr.Int(6612919898181497795) {
		t.Errorf("the hash of null is %v", got)
	}
}

// Nine tenths and the last tenth are just that of numbers in a row, and those of another seed are others.
func TestHashesSplitEvenly(t *testing.T) {
	const n = 100_000
	train, both := 0, 0
	for id := range uint64(n) {
		if NewHash(7).Of(id)%100 < 90 {
			train++
			if NewHash(8).Of(id)%100 < 90 {
				both++
			}
		}
	}
	if math.Abs(float64(train)/n-0.9) > 0.005 || math.Abs(float64(both)/n-0.81) > 0.005 {
		t.Errorf("of %d ids %d are below 90, and %d of two seeds", n, train, both)
	}
}
