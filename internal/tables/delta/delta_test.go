package delta_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/tables/delta"
	"github.com/penstock-ml/penstock/internal/tables/tabletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTables(t *testing.T) { tabletest.Run(t, delta.Kind(), "testdata/tables") }
