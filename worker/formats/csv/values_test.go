package csv_test

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

func csvOf(text string, how *pb.Format) formattest.File {
	return formattest.File{Name: "x.csv", Data: []byte(text), How: how}
}

func text(s string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: s}} }

func boolean(b bool) *pb.Value { return &pb.Value{Kind: &pb.Value_Bool{Bool: b}} }

func texts(s ...string) *pb.Value {
	list := &pb.List{}
	for _, s := range s {
		list.Values = append(list.Values, text(s))
	}
	return &pb.Value{Kind: &pb.Value_List{List: list}}
}

func options(name string, v *pb.Value) *pb.Format { return withOption(&pb.Format{}, name, v) }

func withOption(how *pb.Format, name string, v *pb.Value) *pb.Format {
	if how.Options == nil {
		how.Options = map[string]*pb.Value{}
	}
	how.Options[name] = v
	return how
}

// declared has names and types of columns.
func declared(columns ...string) *pb.Format { return declaredWith(&pb.Format{}, columns...) }

func declaredWith(how *pb.Format, columns ...string) *pb.Format {
	how.Columns = map[string]string{}
	for i := 0; i < len(columns); i += 2 {
		how.Columns[columns[i]] = columns[i+1]
	}
	return how
}
