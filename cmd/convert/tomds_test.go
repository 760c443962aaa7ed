package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestToMDS: shards are read back as what was written, and index.json tells of all of them, also of a run that goes on.
func TestToMDS(t *testing.T) {
	var text strings.Builder
	text.WriteString("n,half,name\n")
	for i := range 9000 {
		fmt.Fprintf(&text, "%d,%g,é %d\n", i, float64(i)/2, i)
	}
	in := []string{write(t, "a.csv", text.String())}
	for _, compression := range []string{"", "zstd"} {
		o := Options{
			Inputs: in, To: "mds", FileRows: 4500, Compression: compression, Output: filepath.Join(t.TempDir(), "out"),
		}
		_ = stopAfter(t, o, 5000)
		r := run(t, o)
		expectEqual(t, Options{Inputs: []string{o.Output}}, Options{Inputs: in})
		var index struct {
			Version int
			Shards  []struct {
				Samples     int
				Compression string
				Encodings   []string `json:"column_encodings"`
				Names       []string `json:"column_names"`
				Sizes       []*int   `json:"column_sizes"`
				Raw         mdsFile  `json:"raw_data"`
				Zip         *mdsFile `json:"zip_data"`
			}
		}
		data, err := os.ReadFile(filepath.Join(o.Output, "index.json"))
		if err == nil {
			err = json.Unmarshal(data, &index)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range index.Shards {
			file := s.Raw
			if compression != "" {
				file = *s.Zip
			}
			info, err := os.Stat(filepath.Join(o.Output, file.Name))
			if err != nil || info.Size() != file.Bytes || s.Samples != 4500 ||
				s.Raw.Name != fmt.Sprintf("shard.0000%d.mds", i) || s.Compression != compression ||
				!slices.Equal(s.Encodings, []string{"int", "float64", "str"}) || s.Sizes[2] != nil {
				t.Errorf("%+v: %v", s, err)
			}
		}
		if len(index.Shards) != 2 || index.Version != 2 || len(r.Files) != 2 {
			t.Errorf("%s, %+v", data, r)
		}
		o.Overwrite = true
		if again := run(t, o); again.Bytes != r.Bytes {
			t.Errorf("%+v, then %+v", r, again)
		}
	}
}
