package csv_test

import "github.com/penstock-ml/penstock/api/pb"

func text(s string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: s}} }

func texts(s ...string) *pb.Value {
	list := &pb.List{}
	for _, s := range s {
		list.Values = append(list.Values, text(s))
	}
	return &pb.Value{Kind: &pb.Value_List{List: list}}
}
