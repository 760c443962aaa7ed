package filetest

import (
	"embed"
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// others are files that the writers of their formats wrote; its README says more.
//
//go:embed others/cases.json others/csv others/jsonl others/mds others/tfrecord others/tokens others/webdataset
var others embed.FS

// Other is such a file, with its twin of Parquet.
type Other struct {
	File, Twin string
	Options    map[string]any
	About      string
}

// Others are those of a format.
func Others(t testing.TB, folder string) (found []Other) {
	t.Helper()
	var all []Other
	if err := json.Unmarshal(Bytes(t, "cases.json"), &all); err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if strings.HasPrefix(o.File, folder+"/") {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		t.Fatalf("there are no files in %s", folder)
	}
	return found
}

// Data are the file's bytes.
func (o Other) Data(t testing.TB) []byte { return Bytes(t, o.File) }

// TwinData are those of its twin.
func (o Other) TwinData(t testing.TB) []byte { return Bytes(t, o.Twin) }

// Bytes are those of one of the files by its name: "tfrecord/plain.tfrecord.idx".
func Bytes(t testing.TB, name string) []byte {
	t.Helper()
	data, err := others.ReadFile("others/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// How is what a dataset says of the file.
func (o Other) How(t testing.TB) *pb.Format {
	t.Helper()
	how := &pb.Format{Options: map[string]*pb.Value{}}
	for name, v := range o.Options {
		how.Options[name] = valueOf(t, v)
	}
	return how
}

func valueOf(t testing.TB, v any) *pb.Value {
	t.Helper()
	switch v := v.(type) {
	case string:
		return &pb.Value{Kind: &pb.Value_Text{Text: v}}
	case bool:
		return &pb.Value{Kind: &pb.Value_Bool{Bool: v}}
	case []any:
		list := &pb.List{}
		for _, e := range v {
			list.Values = append(list.Values, valueOf(t, e))
		}
		return &pb.Value{Kind: &pb.Value_List{List: list}}
	}
	t.Fatalf("an option is %v", v)
	return nil
}
