package apply_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/apply"
	"github.com/penstock-ml/penstock/worker/transform"
)

const priced = `
dataset: {uri: s3://bucket/clicks/}
batch_size: 10
features: [{dense: price}]
transforms:
  - {op: lookup, in: item, table: "s3://bucket/items.parquet", key: item_id, columns: price}
  - {op: log1p, in: price}
`

// pinnedTo is a spec as a session pins it.
func pinnedTo(t *testing.T, s *pb.Spec, st files) *pb.Spec {
	t.Helper()
	schema := spec.Schema{Columns: []spec.Column{
		{Name: "item", Path: []string{"item"}, Type: spec.Type{Kind: pb.Kind_INT64}},
	}}
	p, err := spec.Resolve(s, st.given(t, s, schema))
	if err != nil {
		t.Fatal(err)
	}
	return spec.PinTo(s, p)
}

// serve applies a spec to a row.
func serve(t *testing.T, s *pb.Spec, ops *transform.Registry, st files) error {
	t.Helper()
	made, err := apply.New(t.Context(), apply.Config{Spec: s, Ops: ops, Storage: st})
	if err != nil {
		return err
	}
	defer made.Close()
	b, err := made.Apply(t.Context(), record(t, `[{"item": 17}]`, column("item", arrow.PrimitiveTypes.Int64)))
	if err == nil {
		b.Release()
	}
	return err
}

func TestATableThatWasWrittenAgainIsNotServed(t *testing.T) {
	trained := itemsFile(t)
	st := files{items: trained}
	pinned := pinnedTo(t, parsed(t, priced), st)
	if err := serve(t, pinned, nil, st); err != nil {
		t.Fatal(err)
	}

	table := pinned.GetPinned().GetTables()[0]
	table.Etag = "of another store" // as if the file had been copied since
	err := serve(t, pinned, nil, st)
	if !isProblem(err, "transforms[0].table: s3://bucket/items.parquet is a file of ", "of another store",
		"name the file of the training") {
		t.Error(err)
	}
	if table.Digest, err = formats.Digest(t.Context(), st, "", trained.File()); err != nil {
		t.Fatal(err)
	}
	if err := serve(t, pinned, nil, st); err != nil {
		t.Errorf("a copy: %v", err)
	}
	again := &filetest.One{URI: items, Data: append([]byte(nil), trained.Data...)}
	again.Data[len(again.Data)/4] ^= 1
	if err := serve(t, pinned, nil, files{items: again}); !isProblem(err, table.GetDigest()) {
		t.Error(err)
	}

	pinned.Pinned.Tables = nil
	if err := serve(t, pinned, nil, st); !isProblem(err, "says nothing of s3://bucket/items.parquet") {
		t.Error(err)
	}
}

func isProblem(err error, words ...string) bool {
	_, ok := errors.AsType[spec.Problems](err)
	for _, w := range words {
		ok = ok && strings.Contains(err.Error(), w)
	}
	return ok
}

func TestAnOpOfAnotherVersionIsNotServed(t *testing.T) {
	st := files{items: itemsFile(t)}
	pinned := pinnedTo(t, parsed(t, priced), st)
	var next transform.Op
	for _, op := range transform.Builtin().Ops() {
		if op.Name == "log1p" {
			next = op
		}
	}
	next.Version++
	ops, err := transform.Builtin().With(next)
	if err != nil {
		t.Fatal(err)
	}
	if err := serve(t, pinned, ops, st); !isProblem(err, "transforms[1]: op log1p is of version 2 here",
		"pinned to version 1") {
		t.Error(err)
	}
	unpinned := proto.CloneOf(pinned)
	unpinned.Pinned = nil
	if err := serve(t, unpinned, ops, st); err != nil {
		t.Error(err)
	}
}
