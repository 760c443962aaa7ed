package main

import (
	"slices"
	"strings"
	"testing"
)

// The target is met only by what was measured, and of plain TCP's speed.
func TestCheck(t *testing.T) {
	of := func(size int, tcp float64) line { return line{Kind: penstock, Bytes: size, OfTCP: tcp, OfTuned: 0.5} }
	met := []line{of(256<<10, 1.2), of(1<<20, target), of(8<<20, 0.1), {Kind: overGRPC, Bytes: 1 << 20, OfTCP: 0.2}}
	verdict, err := report(met).check()
	if err != nil || !strings.Contains(verdict, "256 KiB have 120.0% of plain TCP's speed (tuned: 50%)") {
		t.Errorf("%q, %v", verdict, err)
	}
	for want, r := range map[string]report{
		"1024 KiB have 84.0% of plain TCP's speed (tuned: 50%)":    {met[0], of(1<<20, 0.84)},
		"penstock was not measured with batches of 256 KiB":        met[1:],
		"penstock was not measured with batches of 1024 KiB":       {met[0], met[2], met[3]},
		"not measured with batches of 256 KiB, which there is":     nil,
		"256 KiB have 10.0% of plain TCP's speed (tuned: -); the ": {{Kind: penstock, Bytes: 256 << 10, OfTCP: 0.1}, met[1]},
	} {
		if _, err := r.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestBatchSizes(t *testing.T) {
	var b batchSizes
	if err := b.Set("256KiB,1MiB"); err != nil || !slices.Equal(b, batchSizes{256 << 10, 1 << 20}) || b.String() != "256KiB,1.0MiB" {
		t.Errorf("%v, %v", b, err)
	}
	for _, s := range []string{"", "1MiB,", "12", "1GiB", "many"} {
		if err := b.Set(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}
