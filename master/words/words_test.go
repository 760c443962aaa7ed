package words_test

import (
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
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
		words.Ways(0, 0, 0):   "",
		words.Ways(8, 8, 0):   "all in memory",
		words.Ways(8, 0, 6):   "75% by link, 25% by gRPC",

		words.Count(1, "row"):                                  "1 row",
		words.Count(1234, "row"):                               "1,234 rows",
		words.Duration(-time.Second):                           "0 s",
		words.Duration(99 * time.Second):                       "99 s",
		words.Duration(40 * time.Minute):                       "40 min",
		words.Duration(5 * time.Hour):                          "5.0 h",
		words.Duration(72 * time.Hour):                         "3 days",
		words.State(pb.SessionState_ABANDONED):                 "abandoned",
		words.State(pb.SessionState_SESSION_STATE_UNSPECIFIED): "no answer",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
