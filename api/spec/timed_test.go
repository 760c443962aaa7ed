package spec

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestTimesBecomeNumbers: programs have the numbers that columns have in place of dates and times as text.
func TestTimesBecomeNumbers(t *testing.T) {
	day, at, odd := column("day", pb.Kind_INT32), column("at", pb.Kind_INT64), column("odd", pb.Kind_INT64)
	day.Date, at.Meaning, odd.Meaning = true, "timestamp[ms]", "timestamp[?]"
	given := Given{Schema: Schema{Columns: append(newSchema().Columns, day, at, odd)}, Catalog: newCatalog()}
	for text, want := range map[string]string{
		"filter: day  >=  19723\n":                                         "day  >=  19723",
		"filter: day >= '2024-01-01' and at < '2024-01-01'\n":              "day >= 19723 and at < 1704067200000",
		"filter: at in ('2024-01-01 01:00:00.5+01', 7)\n":                  "at in (1704067200500, 7)",
		"filter: day < '2024-01-01 00:00:01'\n":                            "day < 19724",
		"filter: day >= 'x'\n":                                             "filter: column 8: day is a date, but is compared with 'x'",
		"filter: odd >= '2024-01-01'\n":                                    "odd is int64, but is compared with '2024-01-01'; want a number",
		"filter: user.age >= '2024-01-01'\n":                               "user.age is",
		"filter: DAY >= '2024-01-01'\n":                                    "no column DAY",
		"filter: at in (" + strings.Repeat("'2024-01-01',", 5000) + "0)\n": "the limit is 65536",
	} {
		p, err := Resolve(mustParse(t, head+text+ok), given)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && p.GetFilter() != want {
			t.Errorf("%.60s:\ngot  %.200s, %v\nwant %s", text, p.GetFilter(), err, want)
		}
	}
}

func TestTimesInExpressionsBecomeNumbers(t *testing.T) {
	at := column("at", pb.Kind_INT64)
	at.Meaning = "timestamp[ms]"
	given := Given{Schema: Schema{Columns: append(newSchema().Columns, at)}, Catalog: newCatalog()}
	s := mustParse(t, head+ok+`transforms:
- {op: fill_null, in: at, out: since}
- {op: sample, rate: 0.1, where: at >= '1970-01-01 00:00:01'}
- {op: expr, expr: "since < '1970-01-01 00:00:01Z'", out: old}
`)
	s.Features = append(s.Features, featureOf(pb.Layout_DENSE, "old"))
	before := s.String()
	p, err := Resolve(s, given)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range p.GetSteps() {
		got = append(got, step.GetParams()[ExprOp].GetText()+step.GetParams()[SampleWhere].GetText())
	}
	if text := strings.Join(got, ";"); text != ";at >= 1000;since < 1000" || s.String() != before {
		t.Errorf("%s of %v", text, s)
	}
	s.Transforms[2].Params[ExprOp] = &pb.Value{Kind: &pb.Value_Text{Text: "since < 'today'"}}
	if _, err = Resolve(s, given); err == nil || !strings.Contains(err.Error(),
		"transforms[2].expr: column 9: since is timestamp[ms], but is compared with 'today'; want a time") {
		t.Error(err)
	}
}
