package expr

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/times"
)

func TestTimesThatAreNone(t *testing.T) {
	unitOf := func(column string) times.Unit {
		return map[string]times.Unit{"day": times.Days, "at": "us"}[column]
	}
	for text, says := range map[string]string{
		`day >= '2024-13-01'`:                      "column 8: day is a date, but is compared with '2024-13-01'; want a time that there is, such as '2024-01-31'",
		`at in ('2024-01-01', 'x')`:                "at is timestamp[us], but is compared with 'x'; want a time that there is, such as '2024-01-31 12:00:00'",
		`'24-1-1' < at`:                            "column 1: at is",
		`day between '2024-01-01' and '2024'`:      "compared with '2024'",
		`at == '2024-01-01 12:00:00.123456789012'`: "compared with",
		`nullif(at, '') is null`:                   "compared with ''",
	} {
		n, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = n.Timed(unitOf); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
	n, err := Parse(`name == '2024-01-01' and day == 19000 and nullif(day, '1970-01-01') is null`)
	if err != nil {
		t.Fatal(err)
	}
	timed, err := n.Timed(unitOf)
	if want := `name == '2024-01-01' and day == 19000 and nullif(day, 0) is null`; err != nil || timed.String() != want {
		t.Errorf("%v, %v, want %s", timed, err, want)
	}
}
