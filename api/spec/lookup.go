package spec

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// LookupOp is the op that joins a side table. In a program it is a step of LookupRowOp, which finds rows of the table,
// and one of LookupColumnOp for each column: so every step has one result.
const (
	LookupOp       = "lookup"
	LookupRowOp    = "lookup_row"
	LookupColumnOp = "lookup_column"
)

// maxTableRows bounds a side table: rows are numbered by int32s.
const maxTableRows = math.MaxInt32

// TableName is a side table as a spec names it: a file, and the storage profile that opens it.
type TableName struct{ Storage, URI string }

// SideTable is what the file of one holds.
type SideTable struct {
	File   *pb.File
	Schema Schema
	Rows   int64
	Pinned bool // the spec is pinned to this very file
}

// NamedTable is a side table, and where a spec names it.
type NamedTable struct {
	TableName
	Path string // "transforms[3].table"
}

// Tables are the side tables that a spec's transforms name, each where it is named first.
func Tables(s *pb.Spec) []NamedTable {
	var all []NamedTable
	for i, t := range s.GetTransforms() {
		name, ok := tableOf(s, t)
		if ok && !slices.ContainsFunc(all, func(n NamedTable) bool { return n.TableName == name }) {
			all = append(all, NamedTable{name, fmt.Sprintf("transforms[%d].table", i)})
		}
	}
	return all
}

// tableOf is the side table that a transform names, if it does.
func tableOf(s *pb.Spec, t *pb.Transform) (TableName, bool) {
	params := t.GetParams()
	uri := params["table"].GetText()
	name := TableName{cmp.Or(params["storage"].GetText(), s.GetDataset().GetStorage()), uri}
	return name, t.GetOp() == LookupOp && uri != ""
}

// joined is a table of a program that is being made. Lookups that agree on all but the columns share it.
type joined struct {
	proto *pb.Table
	slot  uint32
	used  bool
}

// lookup is a transform of LookupOp that is being resolved.
type lookup struct {
	*resolver
	path      string
	transform *pb.Transform
	params    map[string]*pb.Value
	table     *SideTable
	index     *index
	lack      string // see feature
}

// lookup adds the steps of a transform that joins a side table.
func (r *resolver) lookup(path string, t *pb.Transform) {
	before := len(r.problems)
	l := &lookup{resolver: r, path: path, transform: t}
	in := r.expand(path+".in", t.GetIn())
	sig, err := r.catalog.Check(LookupOp, t.GetParams(), nil)
	if err != nil {
		r.problems.add(path, "%v", err)
	}
	if l.params = sig.Params; err != nil {
		l.params = t.GetParams() // whose results have names all the same
	} else {
		l.find()
	}
	(&application{resolver: r, path: path}).checkOut(t.GetOut())
	known := !slices.ContainsFunc(in, (*feature).unknown)
	for _, f := range in {
		l.lack = cmp.Or(l.lack, f.lacks)
	}
	var rows *step
	if known && len(r.problems) == before {
		rows = l.rows(in)
	}
	l.columns(rows)
}

// find finds out what the table holds.
func (l *lookup) find() {
	name, _ := tableOf(&pb.Spec{Dataset: &pb.Dataset{Storage: l.storage}}, l.transform)
	l.table = l.tables[name]
	switch {
	case l.table == nil:
		l.problems.add(l.path+".table", "%s has not been looked at; resolve the spec where its tables can be read",
			name.URI)
	case l.table.Rows > maxTableRows:
		l.problems.add(l.path+".table", "%s has %d rows; want %d at most", name.URI, l.table.Rows, maxTableRows)
	default:
		l.index = newIndex(l.table.Schema)
	}
}

// texts are the values of a parameter that is a list of texts.
func (l *lookup) texts(name string) []string {
	values := Elements(l.params[name])
	if len(values) == 0 {
		values = []*pb.Value{l.params[name]} // of parameters that were refused
	}
	var all []string
	for _, v := range values {
		if text, ok := v.GetKind().(*pb.Value_Text); ok { // else it has been reported
			all = append(all, text.Text)
		}
	}
	return all
}

// source finds a column of the table; nil if there is none, which is reported.
func (l *lookup) source(param, name string) *pb.Source {
	src, _, err := l.index.source(name)
	switch {
	case err != nil:
		l.problems.add(l.path+"."+param, "%v", err)
	case src == nil:
		near := hint(l.nearest(name, slices.Values(l.index.names)))
		l.problems.add(l.path+"."+param, "the table %s has no column %s%s", l.table.File.GetUri(), name,
			cmp.Or(near, "; it has "+some(l.index.names)))
	}
	return src
}

// rows adds the step that finds the rows of keys, or returns the one that does already; nil if something is wrong.
func (l *lookup) rows(in []*feature) *step {
	keys, asOf := l.texts("key"), l.params["as_of"].GetText()
	times := 0
	if asOf != "" {
		times = 1
	}
	if len(keys) == 0 {
		keys = names(in[:max(0, len(in)-times)])
	}
	if len(in) != len(keys)+times || len(keys) == 0 {
		of := "one feature for each column of the key"
		if times > 0 {
			of += ", and a time behind them"
		}
		l.problems.add(l.path+".in", "found %s for the key %s; want %s", few(names(in)), few(keys), of)
		return nil
	}
	t := &pb.Table{
		File: l.table.File, Storage: l.params["storage"].GetText(), Keys: uint32(len(keys)), AsOf: times > 0,
		First: l.params["duplicates"].GetText() == "first",
	}
	t.Storage = cmp.Or(t.Storage, l.storage)
	before := len(l.problems)
	for i, name := range keys {
		if src := l.source("key", name); src != nil {
			t.Columns = append(t.Columns, src)
			l.checkKey(in[i], src)
		}
	}
	params := map[string]*pb.Value{}
	if times > 0 {
		if src := l.source("as_of", asOf); src != nil {
			t.Columns = append(t.Columns, src)
			params = l.times(in[len(keys)], src)
		}
	}
	l.checkTimes(times > 0)
	if len(l.problems) > before {
		return nil
	}
	types := make([]Type, len(in))
	for i, f := range in {
		types[i] = f.typ
	}
	sig, err := l.catalog.Check(LookupRowOp, params, types)
	if err != nil {
		l.problems.add(l.path, "%v", err)
		return nil
	}
	return l.rowStep(l.joined(t), sig, in)
}

// checkTimes refuses parameters that do not go together.
func (l *lookup) checkTimes(asOf bool) {
	for _, name := range []string{"max_age", "unit"} {
		if !asOf && l.params[name] != nil {
			l.problems.add(l.path+"."+name, "found it without as_of, which names the column that says from when on a "+
				"row counts")
		}
	}
	if asOf && l.params["duplicates"].GetText() == "first" {
		l.problems.add(l.path+".duplicates", "found first with as_of, which takes the newest row of a key, and of "+
			"those that are as new the last one; leave it out")
	}
}

// joined is the table that lookups share.
func (r *resolver) joined(t *pb.Table) *joined {
	for _, j := range r.joins {
		if proto.Equal(j.proto, t) {
			return j
		}
	}
	j := &joined{proto: t}
	r.joins = append(r.joins, j)
	return j
}

func (l *lookup) rowStep(t *joined, sig Signature, in []*feature) *step {
	for _, st := range l.steps {
		if st.table == t && st.proto.GetOp() == LookupRowOp && slices.Equal(st.in, in) &&
			maps.EqualFunc(st.proto.GetParams(), sig.Params, func(a, b *pb.Value) bool { return proto.Equal(a, b) }) {
			return st
		}
	}
	st := &step{in: in, transform: l.transform, behind: l.behind, table: t, proto: &pb.Step{
		Op: LookupRowOp, Version: sig.Version, Params: sig.Params, Name: "rows of " + l.table.File.GetUri(), At: l.path,
	}}
	st.makes(&feature{name: st.proto.GetName(), typ: sig.Out, at: l.path})
	l.steps = append(l.steps, st)
	return st
}

// checkKey refuses what is never a key of a column.
func (l *lookup) checkKey(f *feature, key *pb.Source) {
	k := TypeFromProto(key.GetType())
	isText := func(t Type) bool { return t.Kind == pb.Kind_BINARY }
	isInt := func(t Type) bool { return t.Kind == pb.Kind_INT32 || t.Kind == pb.Kind_INT64 }
	switch {
	case k.List || !isText(k) && !isInt(k):
		l.problems.add(l.path+".key", "%s of the table is %v; want a column of ints or text", key.GetName(), k)
	case !isText(f.typ) && !isInt(f.typ):
		l.problems.add(l.path+".in", "%s; want ints or text to look up in %s; cast makes ints of floats", typed(f),
			key.GetName())
	case isText(k) != isText(f.typ):
		l.problems.add(l.path+".in", "%s, and %s of the table is %v; want both to be ints, or both to be text",
			typed(f), key.GetName(), k)
	case meansOther(f.meaning, key.GetMeaning()):
		l.problems.add(l.path+".in", "%s counts as %s, and %s of the table as %s; want both to mean the same", f.name,
			cmp.Or(f.meaning, "plain ints"), key.GetName(), cmp.Or(key.GetMeaning(), "plain ints"))
	}
}

// meansOther reports whether ints of two meanings are never the same, or not all of them.
func meansOther(a, b string) bool {
	const wraps = "uint64" // whose greater half are negative as int64s
	return a != b && (a != "" && b != "" || a == wraps || b == wraps)
}

// lengthOf is how many nanoseconds a unit has, 0 of none. Dates are days since 1970.
func lengthOf(unit string) int64 {
	return map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9, "d": 24 * 3600e9}[unit]
}

// times are the parameters of a lookup of the newest row: how the units of the example's time and the table's go
// together, and how old a row may be.
func (l *lookup) times(f *feature, column *pb.Source) map[string]*pb.Value {
	params := map[string]*pb.Value{"as_of": {Kind: &pb.Value_Bool{Bool: true}}}
	t := TypeFromProto(column.GetType())
	if t.List || t.Kind != pb.Kind_INT32 && t.Kind != pb.Kind_INT64 {
		l.problems.add(l.path+".as_of", "%s of the table is %v; want a column of timestamps or ints",
			column.GetName(), t)
		return params
	}
	if f.typ.List || f.typ.Kind != pb.Kind_INT32 && f.typ.Kind != pb.Kind_INT64 {
		l.problems.add(l.path+".in", "%s; want a time, an int or a timestamp, as the last one; cast makes ints of "+
			"floats", typed(f))
		return params
	}
	own, theirs, given := unitOf(f.meaning), unitOf(column.GetMeaning()), l.params["unit"].GetText()
	switch {
	case own != "" && theirs != "" && given != "":
		l.problems.add(l.path+".unit", "found %s, though %s counts %s and %s of the table %s; leave it out", given,
			f.name, own, column.GetName(), theirs)
	case (own == "") != (theirs == "") && given == "":
		l.problems.add(l.path+".unit", "missing: %s is %s, and %s of the table is %s; say what the plain ints count: "+
			"d (as dates do), s, ms, us or ns", f.name, cmp.Or(f.meaning, "plain ints"), column.GetName(),
			cmp.Or(column.GetMeaning(), "plain ints"))
		return params
	}
	own, theirs = cmp.Or(own, given), cmp.Or(theirs, given)
	if a, b := lengthOf(own), lengthOf(theirs); b > 0 && a > b {
		params["times"] = anInt(a / b)
	} else if a > 0 && b > a {
		params["per"] = anInt(b / a)
	}
	if age := l.params["max_age"]; age != nil {
		n, err := ageOf(age, own)
		if err != nil {
			l.problems.add(l.path+".max_age", "%v", err)
		}
		params["max_age"] = anInt(n)
	}
	return params
}

func anInt(n int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }

// unitOf is the unit of a timestamp, "" of anything else.
func unitOf(meaning string) string {
	unit, ok := strings.CutPrefix(meaning, "timestamp[")
	unit = strings.TrimSuffix(unit, "]")
	if !ok || lengthOf(unit) == 0 {
		return ""
	}
	return unit
}

// ageOf is an age in a unit: an int is one already.
func ageOf(v *pb.Value, unit string) (int64, error) {
	text, isText := v.GetKind().(*pb.Value_Text)
	if n, ok := v.GetKind().(*pb.Value_Int); ok && n.Int >= 0 {
		return n.Int, nil
	}
	if !isText {
		return 0, fmt.Errorf("want an int from 0 on in the unit of the time, or a text such as 90s, 12h or 7d")
	}
	ns, ok := nanoseconds(text.Text)
	switch {
	case !ok:
		return 0, fmt.Errorf("found %.40q; want an age such as 90s, 12h or 7d", text.Text)
	case unit == "":
		return 0, fmt.Errorf("found %.40q, but the time is plain ints; say unit: d (as dates do), s, ms, us or ns, or "+
			"give the age in what they count", text.Text)
	case ns%lengthOf(unit) != 0:
		return 0, fmt.Errorf("found %.40q, and the time counts whole %s; give an age of whole ones", text.Text, unit)
	}
	return ns / lengthOf(unit), nil
}

// nanoseconds reads an age: a whole number and its unit.
func nanoseconds(text string) (int64, bool) {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	per := lengthOf(text[len(number):])
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || per == 0 || n > math.MaxInt64/per {
		return 0, false
	}
	return n * per, true
}

// columns adds the steps that take columns of the rows of a step, which is nil if something is wrong already.
func (l *lookup) columns(rows *step) {
	all, out := l.texts("columns"), l.transform.GetOut()
	if out != "" && !strings.Contains(out, braces) && len(all) > 1 {
		l.problems.add(l.path+".out", "found %s for several columns; want %s in it for the column's name, such as "+
			"\"item_%s\", or no out", out, braces, braces)
		return
	}
	for _, name := range all {
		l.column(name, rows)
	}
}

// column adds the step that takes a column, and names its result.
func (l *lookup) column(name string, rows *step) {
	out := l.transform.GetOut()
	result := &feature{name: cmp.Or(strings.ReplaceAll(out, braces, name), name), at: l.path, lacks: l.lack}
	if l.index != nil {
		if src := l.source("columns", name); src != nil && rows != nil {
			l.columnStep(src, rows, result)
		}
	}
	if result.name == "" {
		return
	}
	l.checkNew(l.path+".out", result.name)
	l.derived[result.name] = result
}

// columnStep adds the step that makes a result of a column.
func (l *lookup) columnStep(src *pb.Source, rows *step, result *feature) {
	typ := TypeFromProto(src.GetType())
	params := map[string]*pb.Value{"type": {Kind: &pb.Value_Text{Text: typ.String()}}}
	if v := l.params["default"]; v != nil {
		params["default"] = v
		if typ.List && len(l.texts("columns")) == 1 {
			l.problems.add(l.path+".default", "%s of the table has lists, and a default is for scalars; leave it out: "+
				"a tensor has a default of its own, and other layouts have empty rows", src.GetName())
		}
	}
	sig, err := l.catalog.Check(LookupColumnOp, params, []Type{rows.outs[0].typ})
	if err != nil {
		l.problems.add(l.path, "%s of the table: %v", src.GetName(), err)
		return
	}
	st := &step{in: rows.outs, transform: l.transform, behind: l.behind, table: rows.table, column: src}
	st.proto = &pb.Step{
		Op: LookupColumnOp, Version: sig.Version, Params: sig.Params, Name: result.name, At: l.path,
	}
	result.typ, result.meaning = sig.Out, src.GetMeaning()
	if i, ok := l.index.byName[src.GetName()]; ok { // else it is a key of a map
		result.text, result.date = l.index.columns[i].Text, l.index.columns[i].Date
		if typ.List {
			result.shape = l.index.columns[i].Shape
		}
	}
	st.makes(result)
	l.steps = append(l.steps, st)
}

// joinsOf adds to a program the table of a step that looks values up, and its column.
func (st *step) joinsOf(p *pb.Program) {
	if st.table == nil {
		return
	}
	t := st.table
	if !t.used {
		t.used, t.slot = true, uint32(len(p.GetTables()))
		p.Tables = append(p.Tables, t.proto)
	}
	st.proto.Table = &t.slot
	if st.column == nil { // or the table has all that the step takes
		return
	}
	first := int(t.proto.GetKeys())
	if t.proto.GetAsOf() {
		first++
	}
	at := slices.IndexFunc(t.proto.GetColumns()[first:], func(c *pb.Source) bool { return proto.Equal(c, st.column) })
	if at < 0 {
		at = len(t.proto.GetColumns()) - first
		t.proto.Columns = append(t.proto.Columns, st.column)
	}
	st.proto.Params = maps.Clone(st.proto.GetParams())
	st.proto.Params["column"] = anInt(int64(at))
}

// ParseType is the type that Type.String writes as a text; false: it is none.
func ParseType(text string) (Type, bool) {
	r := parseResult(text)
	if r == nil || r.GetText() || len(r.GetShape()) > 0 {
		return Type{}, false
	}
	return TypeFromProto(r.GetType()), true
}
