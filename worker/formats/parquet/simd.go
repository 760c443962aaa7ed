package parquet

import "github.com/penstock-ml/penstock/internal/simd"

// simdLevel says which instructions loops may use. Results do not depend on it.
var simdLevel = simd.Best() //nolint:gochecknoglobals // a property of the machine: only tests write it
