package delta

import (
	"fmt"
	"slices"
	"strings"
)

// protocol says what a table's readers must know.
type protocol struct {
	Reader   int      `json:"minReaderVersion"`
	Features []string `json:"readerFeatures"`
}

const newestReader = 3

// known reports whether a feature of readers is respected. Columns of type variant are left out.
func known(feature string) bool {
	switch feature {
	case "columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening",
		"typeWidening-preview", "variantType", "variantType-preview", "variantShredding", "variantShredding-preview":
		return true
	}
	return false
}

// check refuses tables that must not be read.
func (p *protocol) check() error {
	if p.Reader > newestReader || p.Reader < 1 {
		return fmt.Errorf("it wants readers of version %d; this one is of version %d: write the table anew with an "+
			"older protocol, or convert its rows to Parquet files", p.Reader, newestReader)
	}
	if p.Reader < newestReader {
		return nil
	}
	var unknown []string
	for _, f := range p.Features {
		if f == "catalogManaged" || f == "catalogOwned-preview" {
			return fmt.Errorf("a catalog manages it (%s): its newest commits are known to the catalog alone; write "+
				"its rows to a table of files", f)
		}
		if !known(f) {
			unknown = append(unknown, f)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("it uses the features %s, which are not supported: drop them (ALTER TABLE … DROP FEATURE), "+
			"or convert its rows to Parquet files", strings.Join(unknown, ", "))
	}
	return nil
}

// maps reports whether the property for column mapping counts.
func (p *protocol) maps() bool {
	return p.Reader == 2 || p.Reader == newestReader && slices.Contains(p.Features, "columnMapping")
}
