package arrow_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// FuzzFile reads files of any bytes: all of one is decoded, or refused.
func FuzzFile(f *testing.F) {
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := filetest.Schema(r)
		for _, options := range [][]ipc.Option{nil, {ipc.WithZstd()}} {
			f.Add(filetest.Arrow(f, s, filetest.Records(r, s, 3, 2), options...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { _ = formattest.Read(t.Context(), data) })
}
