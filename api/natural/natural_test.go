package natural

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	names := []string{"label", "country", "user.age", "scores", "scores.7"}
	for i := range 26 {
		names = append(names, fmt.Sprint("cat_", i))
	}
	for name, want := range map[string]string{
		"cat_27": "cat_17", "Label": "label", "lable": "label", "contry": "country", "user_age": "user.age",
		"zzzzzz":   "",
		"scores/7": "scores.7", "": "", strings.Repeat("x", 300): "",
	} {
		if got := Nearest(name, slices.Values(names)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestNearestDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[ab_]{0,3}[0-3]{0,2}`), 1, 8, rapid.ID).Draw(t, "names")
		name := rapid.StringMatching(`[ab_]{0,3}[0-3]{0,2}`).Draw(t, "name")
		shuffled := rapid.Permutation(names).Draw(t, "shuffled")
		if a, b := Nearest(name, slices.Values(names)), Nearest(name, slices.Values(shuffled)); a != b {
			t.Fatalf("got %q and %q", a, b)
		}
		if name != "" && slices.Contains(names, name) && Nearest(name, slices.Values(names)) != name {
			t.Fatal("a name is nearest to itself")
		}
	})
}

func TestDistance(t *testing.T) {
	var rows [3][]int
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"abc", "acb", 1},
		{"kitten", "sitting", 3},
		{"ab", "ba", 1},
	} {
		if got := distance(c.a, c.b, 10, &rows); got != c.want {
			t.Errorf("%s, %s: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	sorted := []string{
		"", "a", "a01", "a1", "a1b", "a2", "a10", "a10b2", "a10b10", "a_1", "b", "b99999999999999999999",
		"b100000000000000000000",
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := Compare(a, b) < 0; got != (i < j) {
				t.Errorf("%q before %q: got %v", a, b, got)
			}
		}
	}
}

func TestNaturalOrderIsAnOrder(t *testing.T) {
	name := rapid.StringMatching(`[a0-2]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if (Compare(a, b) == 0) != (a == b) || Compare(a, b) != -Compare(b, a) {
			t.Fatalf("%q, %q: %d and %d", a, b, Compare(a, b), Compare(b, a))
		}
		if Compare(a, b) <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
			t.Fatalf("%q <= %q <= %q", a, b, c)
		}
	})
}
