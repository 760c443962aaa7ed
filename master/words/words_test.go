package words_test

import (
	"testing"

	"github.com/penstock-ml/penstock/master/words"
)

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		words.Percent(0):      "0%",
		words.Percent(0.0123): "1.2%",
		words.Percent(0.0999): "10%",
		words.Size(-1):        "0 B",
		words.Size(3 << 29):   "1.5 GiB",
		words.Rate(54_321):    "54.3 k rows/s",
		words.Demand(99e6):    "99 M rows/s",
		words.Demand(1e9):     "all that comes",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
