package apply

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/worker/apply"
)

// Whatever lines hold, they are rows or an error, by their own types and by those of other ones.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		`{"a": 1, "b": [1.5, null], "c": {"d": "x", "e": {"base64": "AAE="}}, "f": {}, "g": [], "h": [[]], "i": true}`,
		`{"a": null}` + "\n" + `{"a": 1e400}`, `{"a": [{"b": 1}, {"c": [2]}]}`, `{"": 0, "a": -0.0}`, `{"a": "` + "\xff" + `"}`,
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		l := newLines("rows", strings.NewReader(first), nil)
		one, err := l.next()
		if err != nil || one == nil {
			return
		}
		if _, err := apply.SchemaOf(t.Context(), one.Schema()); err != nil {
			t.Fatalf("%v of %s", err, first)
		}
		like := newLines("rows", strings.NewReader(second), one.Schema())
		if other, err := like.next(); err == nil && other != nil && other.NumCols() > one.NumCols() {
			t.Errorf("%v has columns that %v lacks", other.Schema(), one.Schema())
		}
	})
}
