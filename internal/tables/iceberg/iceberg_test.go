package iceberg_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/tables/iceberg"
	"github.com/penstock-ml/penstock/internal/tables/tabletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTables(t *testing.T) { tabletest.Run(t, iceberg.Kind(), "testdata/tables") }
