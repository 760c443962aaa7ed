package parquet

import "testing"

// TestOldDictionaries reads a file of a parquet-mr before 1.2.9, as arrow does.
func TestOldDictionaries(t *testing.T) {
	data, f := openFile(t, "testdata/nation.dict-malformed.parquet")
	table := readTable(t, data)
	sources := sourcesOf(f)
	for _, window := range []int{1, 7, 25, 100} {
		got, err := decodeAll(NewDecoder(sources, testMemory), f, data, window, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range sources {
			want := arrowRows(table.Column(i).Data(), s.GetType().GetKind())
			compare(t, s.GetName(), got[i], want)
		}
	}
}
