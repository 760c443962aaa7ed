package plan_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/master/plan"
)

func TestCheckStands(t *testing.T) {
	files := []plan.File{makeFile(t, "file:///a", 1, schema(), uniform(10, 80))}
	for stands, ok := range map[string]bool{"number": true, "date": false, "": true} {
		err := plan.CheckStands(map[string]string{"id": stands}, files)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "file:///a: column id is number here, and date") {
			t.Errorf("%q: %v", stands, err)
		}
	}
	of := spec.Schema{Columns: []spec.Column{
		{Name: "id", Type: spec.Type{Kind: pb.Kind_INT64}},
		{Name: "unread", Type: spec.Type{Kind: pb.Kind_INT64}},
		{Name: "x", Type: spec.Type{Kind: pb.Kind_FLOAT32}},
	}}
	got := plan.Stands(of, program(source("id", pb.Kind_INT64, false), source("x", pb.Kind_FLOAT32, false)))
	if want := map[string]string{"id": "number"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
