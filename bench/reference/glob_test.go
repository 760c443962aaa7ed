package reference

import (
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	names := strings.Fields("int_10 int_2 int_1 int_01 cat_1 cat_12 a.b x")
	for pattern, want := range map[string]string{
		"int_*":      "int_01 int_1 int_2 int_10",
		"*_1":        "cat_1 int_1",
		"int_?":      "int_1 int_2",
		"cat_1[0-3]": "cat_12",
		"[ci]*t_1":   "cat_1 int_1",
		"[^ci]*":     "a.b x",
		"*.b":        "a.b",
		"nothing*":   "",
		"plain":      "plain",
		"*":          "a.b cat_1 cat_12 int_01 int_1 int_2 int_10 x",
		"int_[12]":   "int_1 int_2",
		`int\_1`:     "int_1",
		`*\.*`:       "a.b",
		"cat_[":      "",
	} {
		if got := strings.Join(expand(pattern, names), " "); got != want {
			t.Errorf("%s: got %s; want %s", pattern, got, want)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	want := strings.Fields("a a1 a2 a10 a10b a11 b1c2 b1c10 b01d")
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, naturally)
	if !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}
