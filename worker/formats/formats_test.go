package formats_test

import (
	"testing"

	"github.com/penstock-ml/penstock/internal/formats"
	decoders "github.com/penstock-ml/penstock/worker/formats"
)

// TestEachFormatHasADecoder: what can be described can be decoded.
func TestEachFormatHasADecoder(t *testing.T) {
	for _, f := range formats.All() {
		if _, err := decoders.New(f.Name(), nil); err != nil {
			t.Error(err)
		}
	}
}
