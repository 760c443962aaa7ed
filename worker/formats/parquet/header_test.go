package parquet

import (
	"strings"
	"testing"
)

// Pages that are larger than can be read are not called damaged: what to do about them is said.
func TestPagesThatAreTooLarge(t *testing.T) {
	const large = maxPage + 1
	page := func(stored, uncompressed int) error {
		h := header{kind: dataPage, known: true, stored: stored, uncompressed: uncompressed}
		return h.check(8 << 30)
	}
	for name, err := range map[string]error{
		"not compressed":       checkSize(codecNone, large, large),
		"snappy":               checkSize(codecSnappy, large/2, large),
		"header":               page(3<<30, 3<<30),
		"header, decompressed": page(1<<20, 3<<30),
		"header, wrapped":      page(-1<<30, -1<<30),
	} {
		if err == nil || !strings.Contains(err.Error(), "smaller pages") || strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := page(1<<30, 1<<30); err != nil {
		t.Errorf("the largest page: %v", err)
	}
}
