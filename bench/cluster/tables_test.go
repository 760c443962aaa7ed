package cluster_test

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
	"github.com/penstock-ml/penstock/internal/tables/tabletest"
)

// deltaTables are those that others wrote, each with what others read of its versions; icebergTables, too.
const (
	deltaTables   = "../../internal/tables/delta/testdata/tables"
	icebergTables = "../../internal/tables/iceberg/testdata/tables"
)

// copied is a table in a folder of the test's own.
func copied(t *testing.T, table string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), filepath.Base(table))
	must(t, os.CopyFS(dir, os.DirFS(table)))
	return dir
}

// readable are the columns of a version that become features as they are, by their layouts.
func readable(v tabletest.Version) map[string]string {
	layouts := map[string]string{}
	for name, kind := range v.Columns {
		switch {
		case strings.HasPrefix(kind, "INT"), kind == "DATE32", kind == "TIMESTAMP":
			layouts[name] = "sparse" // where null is no value
		case strings.HasPrefix(kind, "FLOAT"), kind == "DECIMAL", kind == "BOOL":
			layouts[name] = "dense"
		case kind == "STRING", kind == "BINARY", kind == "FIXED_SIZE_BINARY":
			layouts[name] = "bytes"
		case kind == "LIST" && ofIntegers(v, name):
			layouts[name] = "sparse"
		case kind == "STRUCT" && name == "struct":
			layouts["struct.a"] = "sparse"
		}
	}
	return layouts
}

// ofIntegers reports whether a column has a list with an element, and all elements are integers.
func ofIntegers(v tabletest.Version, column string) (found bool) {
	for _, row := range v.Rows {
		list, _ := row[column].([]any)
		for _, element := range list {
			n, ok := element.(json.Number)
			if _, err := n.Int64(); element != nil && (!ok || err != nil) {
				return false
			}
			found = found || ok
		}
	}
	return found
}

// tableSpec is a spec of all columns, with more of its fields.
func tableSpec(t *testing.T, uri string, layouts map[string]string, more string) *pb.Spec {
	t.Helper()
	var features []string
	for _, name := range slices.Sorted(maps.Keys(layouts)) {
		features = append(features, fmt.Sprintf("{%s: %q}", layouts[name], name))
	}
	s, err := spec.Parse(fmt.Appendf(nil, "{dataset: {uri: %q}, features: [%s], last_batch: uneven, epochs: 1, %s}", uri,
		strings.Join(features, ", "), more))
	must(t, err)
	return s
}

// wanted writes the rows of a version as texts, in which equal rows are equal.
func wanted(v tabletest.Version, layouts map[string]string) (rows []string) {
	for _, row := range v.Rows {
		var texts []string
		for name, layout := range layouts {
			column, field, _ := strings.Cut(name, ".")
			value, kind := row[column], v.Columns[column]
			if of, ok := value.(map[string]any); ok && field != "" {
				value, kind = of[field], "INT64"
			}
			texts = append(texts, name+"="+wantedValue(layout, kind, value))
		}
		slices.Sort(texts)
		rows = append(rows, strings.Join(texts, " "))
	}
	slices.Sort(rows)
	return rows
}

func wantedValue(layout, kind string, v any) string {
	switch list, ok := v.([]any); {
	case ok:
		list = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == nil })
		return fmt.Sprint(list)
	case layout == "bytes" && v == nil:
		return `""`
	case layout == "bytes" && kind != "STRING":
		raw, _ := hex.DecodeString(v.(string))
		return strconv.Quote(string(raw))
	case layout == "bytes":
		return strconv.Quote(v.(string))
	case layout == "sparse" && v == nil:
		return "[]"
	case layout == "sparse":
		return fmt.Sprint([]int64{tabletest.Value(kind, v).GetInt()})
	case v == nil:
		return "NaN"
	}
	switch v := tabletest.Value(kind, v).GetKind().(type) {
	case *pb.Value_Bool:
		return map[bool]string{false: "0", true: "1"}[v.Bool]
	case *pb.Value_Float:
		return fmt.Sprint(float32(v.Float))
	}
	return fmt.Sprint(v)
}

// rowsOf writes the rows of a batch in the same way.
func rowsOf(b *client.Batch) (rows []string) {
	for i := range b.Valid {
		var texts []string
		for j, name := range b.DenseNames {
			texts = append(texts, fmt.Sprintf("%s=%v", name, b.Dense[i*len(b.DenseNames)+j]))
		}
		for _, s := range b.Sparse {
			texts = append(texts, fmt.Sprintf("%s=%v", s.Name, s.Values[s.Offsets[i]:s.Offsets[i+1]]))
		}
		for _, s := range b.Bytes {
			texts = append(texts, fmt.Sprintf("%s=%q", s.Name, s.Data[s.Offsets[i]:s.Offsets[i+1]]))
		}
		slices.Sort(texts)
		rows = append(rows, strings.Join(texts, " "))
	}
	return rows
}

// takeRows reads so many batches, or all that there are if that is 0.
func takeRows(t *testing.T, job *client.Session, batches int) (rows []string, err error) {
	t.Helper()
	for n := 0; batches == 0 || n < batches; n++ {
		b, err := job.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, rowsOf(b)...)
		b.Release()
	}
	return rows, nil
}

// readTable reads all rows, in the order in which they come.
func readTable(t *testing.T, c *cluster.Cluster, id string, s *pb.Spec) (rows []string, err error) {
	t.Helper()
	job, err := openRank(t.Context(), c, id, s, [][]*pb.State{nil}, 0)
	if err != nil {
		return nil, err
	}
	rows, err = takeRows(t, job, 0)
	return rows, cmp.Or(err, job.Close())
}

func sameRows(t *testing.T, what string, got, want []string) {
	t.Helper()
	if got = slices.Sorted(slices.Values(got)); !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// TestTablesOfOthers reads each version of each table that others wrote, and compares the rows with what others read.
func TestTablesOfOthers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	for prefix, folder := range map[string]string{"delta+": deltaTables, "iceberg+": icebergTables} {
		all, err := os.ReadDir(folder)
		must(t, err)
		for _, entry := range all {
			t.Run(prefix+entry.Name(), func(t *testing.T) {
				dir, err := filepath.Abs(filepath.Join(folder, entry.Name()))
				must(t, err)
				readVersions(t, c, prefix, dir)
			})
		}
	}
}

// readVersions reads each version of a table.
func readVersions(t *testing.T, c *cluster.Cluster, prefix, dir string) {
	t.Helper()
	known := tabletest.Read(t, dir)
	var group errgroup.Group
	group.SetLimit(4)
	for name, version := range known.Versions {
		if version.Refused != "" || version.Files == 0 {
			continue
		}
		group.Go(func() error {
			layouts := readable(version)
			want := wanted(version, layouts)
			s := tableSpec(t, prefix+dir+"@"+name, layouts, "shuffle: true, batch_size: 7")
			got, err := readTable(t, c, prefix[:1]+filepath.Base(dir)+name, s)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			sameRows(t, name, got, want)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTablesInOneSequence: deterministic order, filters and ends of epochs count the rows that a table has deleted as
// none.
func TestTablesInOneSequence(t *testing.T) {
	t.Parallel()
	one := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	two := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	dir := copied(t, filepath.Join(deltaTables, "spark-dv-with-columnmapping"))
	all := tabletest.Read(t, dir).Versions["v15"]
	for filter, passes := range map[string]func(part, col1 int64) bool{
		"":                        func(_, _ int64) bool { return true },
		"part = 3":                func(part, _ int64) bool { return part == 3 },
		"col1 > 20":               func(_, col1 int64) bool { return col1 > 20 },
		"part != 0 and col1 < 36": func(part, col1 int64) bool { return part != 0 && col1 < 36 },
	} {
		t.Run(filter, func(t *testing.T) {
			layouts := readable(all)
			kept := all
			kept.Rows = slices.DeleteFunc(slices.Clone(all.Rows), func(row map[string]any) bool {
				part, col1 := tabletest.Value("INT32", row["part"]), tabletest.Value("INT32", row["col1"])
				return !passes(part.GetInt(), col1.GetInt())
			})
			want := wanted(kept, layouts)
			if len(want) == 0 || filter != "" && len(want) == len(all.Rows) {
				t.Fatalf("%d rows pass", len(want))
			}
			more := fmt.Sprintf("shuffle: true, seed: 5, filter: %q, ", filter)
			s := tableSpec(t, "delta+"+dir, layouts, more+"batch_size: 2")
			got, err := readTable(t, two, filter+"-fast", s)
			must(t, err)
			sameRows(t, "fast", got, want)
			s.LastBatch = pb.LastBatch_PAD
			got, err = readTable(t, two, filter+"-pad", s)
			must(t, err)
			sameRows(t, "padded", got, want)
			s = tableSpec(t, "delta+"+dir, layouts, more+"global_batch_size: 4, lanes: 2, order: deterministic")
			got, err = readTable(t, one, "f"+filter, s)
			must(t, err)
			sameRows(t, "deterministic", got, want)
			again, err := readTable(t, two, "f"+filter, s)
			must(t, err)
			if !slices.Equal(again, got) {
				t.Errorf("another fleet gives %q, and the first %q", again, got)
			}
			s.LastBatch = pb.LastBatch_DROP
			dropped, err := readTable(t, two, filter+"-drop", s)
			must(t, err)
			if n := len(got) / 4 * 4; !slices.Equal(dropped, got[:n]) {
				t.Errorf("with drop %d rows come of %d: %q", len(dropped), len(got), dropped)
			}
		})
	}
}

// lake is where a table of the test's own lies.
type lake struct {
	uri    string
	put    func(name, content string)
	remove func(name string)
}

// onDisk is a copy of a table in a folder.
func onDisk(t *testing.T, table string) lake {
	dir := copied(t, table)
	return lake{
		uri:    dir,
		put:    func(name, content string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)) },
		remove: func(name string) { must(t, os.Remove(filepath.Join(dir, name))) },
	}
}

// onS3 is a copy of a table in a bucket.
func onS3(t *testing.T, m *storagetest.MinIO, bucket, table string) lake {
	m.MakeBucket(t, bucket)
	dir := copied(t, table)
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			m.PutFile(t, bucket, path, filepath.Join(dir, path))
		}
		return err
	}))
	return lake{
		uri:    "s3://" + bucket,
		put:    func(name, content string) { m.Put(t, bucket, name, []byte(content)) },
		remove: func(name string) { m.Remove(t, bucket, name) },
	}
}

// TestTablesOnS3 reads tables whose files have odd names, or deleted rows, where only requests tell their ETags.
func TestTablesOnS3(t *testing.T) {
	t.Parallel()
	m := storagetest.StartMinIO(t)
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), Env: m.Environ()}, 2)
	for prefix, dirs := range map[string][]string{
		"delta": {
			deltaTables, "spark-dv-with-columnmapping", "partitioned", "spark-data-reader-escaped-chars",
			"spark-data-reader-timestamp_ntz-name-mode",
		},
		"iceberg": {icebergTables, "spark-positions", "spark-upgraded", "spark-migrated"},
	} {
		for _, name := range dirs[1:] {
			dir := filepath.Join(dirs[0], name)
			known := tabletest.Read(t, dir)
			newest := known.Versions[known.Newest]
			bucket := prefix + "-" + strings.ToLower(strings.ReplaceAll(name, "_", "-"))
			uri := prefix + "+" + onS3(t, m, bucket, dir).uri
			got, err := readTable(t, c, bucket, tableSpec(t, uri, readable(newest), "shuffle: true, batch_size: 3"))
			if err != nil {
				t.Errorf("%s: %v", uri, err)
				continue
			}
			sameRows(t, uri, got, wanted(newest, readable(newest)))
		}
	}
}

// ten is a table whose newest version, 1, has ten files.
const ten = "spark-multi-part-checkpoint"

// filesOfTen are nine of the files.
func filesOfTen(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(deltaTables, ten, "part-*"))
	must(t, err)
	for _, path := range paths {
		if !strings.Contains(path, "part-00000-7f49f4e3") { // that of version 0
			names = append(names, filepath.Base(path))
		}
	}
	if len(names) != 9 {
		t.Fatal(names)
	}
	return names
}

// compact commits a version that does without the nine files.
func (l lake) compact(t *testing.T) {
	t.Helper()
	lines := `{"commitInfo":{"timestamp":1792318915049,"operation":"DELETE"}}` + "\n"
	for _, name := range filesOfTen(t) {
		lines += fmt.Sprintf(`{"remove":{"path":%q,"deletionTimestamp":1792318915049,"dataChange":true}}`+"\n", name)
	}
	l.put("_delta_log/00000000000000000002.json", lines)
}

// vacuum removes the nine files.
func (l lake) vacuum(t *testing.T) {
	t.Helper()
	for _, name := range filesOfTen(t) {
		l.remove(name)
	}
}

// TestTablesMoveOn: a job stays at the version that it began with, and says what is missing once that is gone.
func TestTablesMoveOn(t *testing.T) {
	t.Parallel()
	m := storagetest.StartMinIO(t)
	before := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), Env: m.Environ()}, 1)
	after := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), Env: m.Environ()}, 2)
	all := tabletest.Read(t, filepath.Join(deltaTables, ten)).Versions["v1"]
	layouts := readable(all)
	want := wanted(all, layouts)
	for i, spelled := range []func(l lake) string{
		func(l lake) string { return "delta+" + l.uri },
		func(l lake) string { return "delta+" + l.uri + "/" },
		func(l lake) string { return "delta+file://" + l.uri },
		func(l lake) string { return "delta+" + l.uri + "@2199-01-01" },
		func(l lake) string { return "delta+" + l.uri },
	} {
		id := fmt.Sprintf("moves-%d", i)
		l := onDisk(t, filepath.Join(deltaTables, ten))
		if i == 4 {
			l = onS3(t, m, id, filepath.Join(deltaTables, ten))
		}
		t.Run(spelled(l), func(t *testing.T) {
			s := tableSpec(t, spelled(l), layouts, "shuffle: true, batch_size: 4")
			job, err := openRank(t.Context(), before, id, s, [][]*pb.State{nil}, 0)
			must(t, err)
			first, err := takeRows(t, job, 3)
			must(t, err)
			state := job.State()
			if of, ok := spec.ParseTable(state.GetTable()); !ok || of.Version != "v1" {
				t.Errorf("the state is of the table %q", state.GetTable())
			}
			l.compact(t)
			rest, err := takeRows(t, job, 0)
			must(t, err)
			must(t, job.Close())
			sameRows(t, "the session", slices.Concat(first, rest), want)

			states := [][]*pb.State{{state}}
			job, err = openRank(t.Context(), after, id, s, states, 0)
			must(t, err)
			rest, err = takeRows(t, job, 0)
			must(t, err)
			must(t, job.Close())
			sameRows(t, "elsewhere", slices.Concat(first, rest), want)

			other := tableSpec(t, spelled(l), layouts, "shuffle: true, batch_size: 4")
			other.Dataset.Uri[0] = "delta+" + l.uri + "@v0"
			_, err = openRank(t.Context(), after, id+"-other", other, states, 0)
			if err == nil || !strings.Contains(err.Error(), "v1, now "+other.Dataset.Uri[0]) {
				t.Errorf("at another version: %v", err)
			}

			got, err := readTable(t, after, id+"-newest", s)
			must(t, err)
			if len(got) != 1 {
				t.Errorf("the newest version has the rows %q", got)
			}
			l.vacuum(t)
			job, err = openRank(t.Context(), after, id+"-again", s, states, 0)
			if err == nil {
				_, err = takeRows(t, job, 0)
				_ = job.Close() // which may say the same
			}
			if err == nil || !strings.Contains(err.Error(), "part-000") || !strings.Contains(err.Error(), "vacuumed") {
				t.Errorf("after a vacuum: %v", err)
			}
		})
	}
}

// TestTablesVacuumedWithinAnEpoch: a file that is gone while a job reads is an error that says what to do.
func TestTablesVacuumedWithinAnEpoch(t *testing.T) {
	t.Parallel()
	m := storagetest.StartMinIO(t)
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), Env: m.Environ()}, 1)
	all := tabletest.Read(t, filepath.Join(deltaTables, ten)).Versions["v1"]
	for name, l := range map[string]lake{"disk": onDisk(t, filepath.Join(deltaTables, ten)), "s3": onS3(t, m, "within", filepath.Join(deltaTables, ten))} {
		t.Run(name, func(t *testing.T) {
			s := tableSpec(t, "delta+"+l.uri, readable(all), "shuffle: true, batch_size: 1")
			s.Epochs = 1000
			job, err := openRank(t.Context(), c, name, s, [][]*pb.State{nil}, 0)
			must(t, err)
			_, err = takeRows(t, job, 2)
			must(t, err)
			l.compact(t)
			l.vacuum(t)
			_, err = takeRows(t, job, 0)
			_ = job.Close() // which may say the same
			if err == nil || !strings.Contains(err.Error(), "part-000") || !strings.Contains(err.Error(), "vacuum") {
				t.Errorf("got the error %v", err)
			}
		})
	}
}

// iceberg is a table of which all that came after a snapshot is still to come.
type iceberg struct {
	dir, later string
}

// newIceberg is the table as it was when a rewrite of its files was still to come, with the rows that it had.
func newIceberg(t *testing.T) (l iceberg, before tabletest.Version) {
	t.Helper()
	l = iceberg{copied(t, filepath.Join(icebergTables, "spark-positions")), t.TempDir()}
	for i := 9; i <= 13; i++ {
		name := fmt.Sprintf("v%d.metadata.json", i)
		must(t, os.Rename(filepath.Join(l.dir, "metadata", name), filepath.Join(l.later, name)))
	}
	l.hint(t, 8)
	return l, tabletest.Read(t, l.dir).Versions[beforeRewrite]
}

// beforeRewrite is the snapshot of v8.metadata.json, of which the next ones replace the files.
const beforeRewrite = "2624410460836818292"

func (l iceberg) hint(t *testing.T, version int) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(l.dir, "metadata/version-hint.text"), []byte(strconv.Itoa(version)), 0o600))
}

// rewrite has the later snapshots come.
func (l iceberg) rewrite(t *testing.T) {
	t.Helper()
	must(t, os.CopyFS(filepath.Join(l.dir, "metadata"), os.DirFS(l.later)))
	l.hint(t, 13)
}

// expire removes the files of the snapshot that the later ones do without.
func (l iceberg) expire(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"data/part=*/00000-3[789]-*", "metadata/snap-" + beforeRewrite + "-*"} {
		found, err := filepath.Glob(filepath.Join(l.dir, pattern))
		must(t, err)
		if len(found) == 0 {
			t.Fatalf("no %s", pattern)
		}
		for _, path := range found {
			must(t, os.Remove(path))
		}
	}
}

// TestIcebergMovesOn: a job stays at the snapshot that it began with while files are rewritten, also elsewhere, and
// says what is gone once that has expired.
func TestIcebergMovesOn(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	l, before := newIceberg(t)
	layouts := readable(before)
	s := tableSpec(t, "iceberg+"+l.dir, layouts, "shuffle: true, batch_size: 2")
	job, err := openRank(t.Context(), c, "moves", s, [][]*pb.State{nil}, 0)
	must(t, err)
	first, err := takeRows(t, job, 3)
	must(t, err)
	state := job.State()
	if of, ok := spec.ParseTable(state.GetTable()); !ok || of.Version != beforeRewrite {
		t.Errorf("the state is of the table %q", state.GetTable())
	}
	l.rewrite(t)
	rest, err := takeRows(t, job, 0)
	must(t, err)
	must(t, job.Close())
	sameRows(t, "the session", slices.Concat(first, rest), wanted(before, layouts))

	states := [][]*pb.State{{state}}
	job, err = openRank(t.Context(), c, "restored", s, states, 0)
	must(t, err)
	rest, err = takeRows(t, job, 0)
	must(t, err)
	must(t, job.Close())
	sameRows(t, "restored", slices.Concat(first, rest), wanted(before, layouts))

	l.expire(t)
	job, err = openRank(t.Context(), c, "expired", s, states, 0)
	if err == nil {
		_, err = takeRows(t, job, 0)
		_ = job.Close() // which may say the same
	}
	if err == nil || !strings.Contains(err.Error(), beforeRewrite) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its snapshot expired: %v", err)
	}
}

// TestIcebergExpiresWithinAnEpoch: a file that is gone while a job reads is an error that says what to do.
func TestIcebergExpiresWithinAnEpoch(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	l, before := newIceberg(t)
	s := tableSpec(t, "iceberg+"+l.dir, readable(before), "shuffle: true, batch_size: 1")
	s.Epochs = 1000
	job, err := openRank(t.Context(), c, "expires", s, [][]*pb.State{nil}, 0)
	must(t, err)
	_, err = takeRows(t, job, 2)
	must(t, err)
	l.rewrite(t)
	l.expire(t)
	_, err = takeRows(t, job, 0)
	_ = job.Close() // which may say the same
	if err == nil || !strings.Contains(err.Error(), "/data/part=") || !strings.Contains(err.Error(), "expire") {
		t.Errorf("got the error %v", err)
	}
}

// TestIcebergWidened filters columns that files have as narrower types, whose bounds are of these.
func TestIcebergWidened(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	dir := copied(t, filepath.Join(icebergTables, "spark-evolved"))
	const version = "4550635354946392937"
	layouts := map[string]string{"id": "sparse"}
	for filter, ids := range map[string][]int{
		"id > 2":                  {3, 5000000000},
		"id = 1":                  {1},
		"f >= 1.5 and f < 2.5":    {1},
		"f = 2.5":                 {3},
		"price < 0":               {2},
		"price > 1 and price < 3": {1, 3},
	} {
		s := tableSpec(t, "iceberg+"+dir+"@"+version, layouts, fmt.Sprintf("batch_size: 4, filter: %q", filter))
		got, err := readTable(t, c, filter, s)
		must(t, err)
		var want []string
		for _, id := range ids {
			want = append(want, fmt.Sprintf("id=[%d]", id))
		}
		slices.Sort(want)
		sameRows(t, filter, got, want)
	}
}
