package arrow_test

import (
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

func TestFormat(t *testing.T) {
	for name, options := range map[string][]ipc.Option{"plain": nil, "zstd": {ipc.WithZstd()}, "lz4": {ipc.WithLZ4()}} {
		t.Run(name, func(t *testing.T) {
			formattest.Run(t, func(t testing.TB, s *arrow.Schema, records []arrow.Record) []byte {
				return filetest.Arrow(t, s, records, options...)
			})
		})
	}
}
