package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// sideTable has the labels' names, each in a row of its own: labels are 0 to 2.
func sideTable(t *testing.T, labels ...int32) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.PrimitiveTypes.Int32}, {Name: "name", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	return pipelinetest.Write(t, schema, func(yield func(arrow.Record) bool) {
		for _, label := range labels {
			b.Field(0).(*array.Int32Builder).Append(label)
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprint("name ", label))
		}
		yield(b.NewRecord())
	})
}

// joining is a program that has the names of labels as a tensor.
func joining(t *testing.T, s *pipelinetest.Store, side, data *pb.File, more string) *pb.Program {
	t.Helper()
	parsed, err := spec.Parse([]byte(`
dataset: {uri: "mem://"}
features: [{bytes: name}, {label: label}]
transforms: [{op: lookup, in: label, table: "mem://labels", columns: name, default: none` + more + `}]
batch_size: 1
provenance: true
`))
	if err != nil {
		t.Fatal(err)
	}
	given := spec.Given{Catalog: transform.Builtin(), Tables: map[spec.TableName]*spec.SideTable{}}
	for _, f := range []*pb.File{side, data} {
		described, err := formats.Load(t.Context(), s, "", f, nil)
		if err != nil {
			t.Fatal(err)
		}
		given.Schema = described.Columns().Schema
		given.Tables[spec.TableName{URI: f.GetUri()}] = &spec.SideTable{File: f, Schema: given.Schema}
	}
	program, err := spec.Resolve(parsed, given)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// TestLookup: rows have what the table says of them, from any cursor, with what earlier streams left and without.
func TestLookup(t *testing.T) {
	s := &pipelinetest.Store{}
	data, side := s.Put("mem://data", pipelinetest.Parquet(t, 1, 100, 50)), s.Put("mem://labels", sideTable(t, 2, 0))
	program := joining(t, s, side, data, "")
	p := newPipeline(s, 1000)
	defer p.Close()
	ticket := pipelinetest.Ticket(t, s, data, 40)
	ticket.ProgramDigest = []byte("digest") // so that streams leave their engines
	for range 3 {
		rows, _, err := collect(t.Context(), p, ticket, program, Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]int{}
		for _, r := range rows {
			for label, name := range []string{`"name 0"`, `"none"`, `"name 2"`} {
				if strings.Contains(r.values, name) && strings.Contains(r.values, string([]byte{byte(label), 0, 0, 0})) {
					named[name]++
				}
			}
		}
		if len(rows) != 150 || len(named) != 3 || named[`"name 0"`]+named[`"none"`]+named[`"name 2"`] != 150 {
			t.Errorf("%d rows, of which these have the names of their labels: %v", len(rows), named)
		}
		if p.MemoryInUse() != 0 || p.tables.Size() == 0 {
			t.Errorf("%d bytes in use, and tables of %d are kept", p.MemoryInUse(), p.tables.Size())
		}
	}
}

// TestLookupRefusals: what is wrong with a table is told apart from what is wrong with a file, which may be skipped.
func TestLookupRefusals(t *testing.T) {
	s := &pipelinetest.Store{}
	data, side := s.Put("mem://data", pipelinetest.Parquet(t, 1, 100)), s.Put("mem://labels", sideTable(t, 2, 2))
	p := newPipeline(s, 1000)
	defer p.Close()
	ticket := pipelinetest.Ticket(t, s, data, 40)
	open := func(more string) error {
		stream, err := p.Open(t.Context(), ticket, joining(t, s, side, data, more), Cursor{})
		if err == nil {
			stream.Close()
		}
		return err
	}
	if err := open(", duplicates: first"); err != nil {
		t.Errorf("the first of duplicates: %v", err)
	}
	if err := open(""); !errors.Is(err, ErrProgram) ||
		!strings.Contains(err.Error(), "transforms[0]: the table cannot be used: table mem://labels: the key label 2 is in row 0") {
		t.Errorf("duplicates: %v", err)
	}
	program := joining(t, s, side, data, "")
	s.Put("mem://labels", sideTable(t, 1, 2))
	_, err := p.Open(t.Context(), ticket, program, Cursor{})
	if !errors.Is(err, storage.ErrChanged) || errors.Is(err, ErrProgram) || !strings.Contains(err.Error(), "mem://labels") {
		t.Errorf("a table that has changed: %v", err)
	}
	if p.MemoryInUse() != 0 {
		t.Errorf("%d bytes are left", p.MemoryInUse())
	}
	_, sessions := p.Sessions()
	if len(sessions) != 1 || !strings.Contains(sessions[0].GetRefusal(), err.Error()+"; bring the table back") {
		t.Errorf("masters hear %v", sessions)
	}
	side = s.Put("mem://labels", sideTable(t, 1, 2))
	if err := open(""); err != nil {
		t.Error(err)
	}
	if _, sessions := p.Sessions(); sessions[0].GetRefusal() != "" {
		t.Errorf("masters still hear %v", sessions)
	}
}
