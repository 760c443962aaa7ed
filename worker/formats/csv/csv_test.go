package csv_test

import (
	"testing"

	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// TestFilesOfOthers: files that others wrote have the rows of their twins.
func TestFilesOfOthers(t *testing.T) {
	for _, o := range filetest.Others(t, "csv") {
		t.Run(o.File, func(t *testing.T) {
			how := o.How(t)
			if o.File == "csv/numbers.csv" { // 007 is an identifier, if nobody says otherwise
				how.Columns = map[string]string{"i": "int64"}
			}
			if _, headless := o.Options["header"]; headless {
				how.Options["names"] = texts("id", "price", "name", "count", "flag", "note")
			}
			formattest.EqualTwin(t, o, how)
		})
	}
}
