package parquet

import "testing"

func TestWritersThatLeaveHeadersOut(t *testing.T) {
	for writer, want := range map[string]bool{
		"": false, "parquet-cpp-arrow version 1.2.0": false, "impala version 1.2.0": false,
		"parquet-mr": true, "parquet-mr (build 32c46643)": true, "parquet-mr version 1.0.0": true,
		"parquet-mr version 1.2.8 (build 91dc9b)": true, "parquet-mr version 1.2.5-cdh4.5.0": true,
		"parquet-mr version 1.2.9": false, "parquet-mr version 1.12.3 (build f8dced)": false,
		"parquet-mr version 2.0.0": false, "parquet-mr version 99999999999999999999.1": true,
	} {
		if got := leavesHeadersOut(writer); got != want {
			t.Errorf("%q: got %v", writer, got)
		}
	}
}
