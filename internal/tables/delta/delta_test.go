package delta_test

import (
	"testing"

	"github.com/penstock-ml/penstock/internal/tables/delta"
	"github.com/penstock-ml/penstock/internal/tables/tabletest"
)

func TestTables(t *testing.T) { tabletest.Run(t, delta.Kind(), "testdata/tables") }
