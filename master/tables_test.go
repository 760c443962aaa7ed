package master_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
	"github.com/penstock-ml/penstock/master"
)

// logOf writes the first version of a Delta table, of files by their paths in the log.
func logOf(t *testing.T, dir string, paths ...string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Join(dir, "_delta_log"), 0o755))
	lines := `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n" +
		`{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",` +
		`\"fields\":[{\"name\":\"label\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}},` +
		`{\"name\":\"x\",\"type\":\"float\",\"nullable\":true,\"metadata\":{}}]}",` +
		`"partitionColumns":[],"configuration":{}}}` + "\n"
	commitFiles(t, dir, 0, lines, "add", paths...)
}

// commitFiles writes a version that adds or removes files.
func commitFiles(t *testing.T, dir string, version int, lines, action string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		size := int64(1)
		if info, err := os.Stat(filepath.Join(dir, path)); err == nil {
			size = info.Size()
		}
		lines += fmt.Sprintf(`{%q:{"path":%q,"partitionValues":{},"size":%d,"modificationTime":1,"dataChange":true}}`+"\n",
			action, path, size)
	}
	check(t, os.WriteFile(filepath.Join(dir, "_delta_log", fmt.Sprintf("%020d.json", version)), []byte(lines), 0o600))
}

// deltaTable is a Delta table of files that are all alike.
func deltaTable(t *testing.T, files int) (dir string, paths []string) {
	t.Helper()
	dir = dataset(t, files)
	for i := range files {
		paths = append(paths, fmt.Sprintf("day=%d/part.parquet", i))
	}
	logOf(t, dir, paths...)
	return dir, paths
}

func tableSpec(dir string) *pb.Spec {
	s := newSpec("")
	s.Dataset.Uri = []string{"delta+file://" + dir}
	return s
}

// TestNamespacesReadTheirTables: neither a table's folder, nor its log, files or deletion vectors may be elsewhere.
func TestNamespacesReadTheirTables(t *testing.T) {
	mine, others := t.TempDir(), t.TempDir()
	for _, dir := range []string{mine, others} {
		writeFile(t, filepath.Join(dir, "whole", "secret.parquet"))
		logOf(t, filepath.Join(dir, "whole"), "secret.parquet")
	}
	in := func(name string) string { return filepath.Join(mine, name) }
	outside := filepath.Join(others, "whole")
	link := func(from, to string) {
		check(t, os.MkdirAll(filepath.Dir(to), 0o755))
		check(t, os.Symlink(from, to))
	}
	link(outside, in("root"))
	link(filepath.Join(outside, "_delta_log"), in("log/_delta_log"))
	link(filepath.Join(outside, "_delta_log", fmt.Sprintf("%020d.json", 0)), in("commit/_delta_log/00000000000000000000.json"))
	link(filepath.Join(outside, "secret.parquet"), in("file/secret.parquet"))
	logOf(t, in("file"), "secret.parquet")
	link(outside, in("folder/of"))
	logOf(t, in("folder"), "of/secret.parquet")
	logOf(t, in("absolute"), filepath.Join(outside, "secret.parquet"))
	logOf(t, in("up"), "../../"+filepath.Base(others)+"/whole/secret.parquet")
	check(t, os.CopyFS(in("vector"), os.DirFS("../internal/tables/delta/testdata/tables/spark-log-replay-dv-key-cases")))
	vectors, err := filepath.Glob(in("vector/*.bin"))
	check(t, err)
	for _, v := range vectors {
		moved := filepath.Join(others, filepath.Base(v))
		check(t, os.Rename(v, moved))
		link(moved, v)
	}

	g := startGuarded(t, fmt.Sprintf("namespaces:\n  vision: {datasets: ['file://%s/']}\n", mine), master.Config{})
	addWorker(t, g.node, fleet.Member{Name: "one", Address: "10.0.0.1:1", Slots: 8})
	alice := g.master("alice")
	try := func(dir string) error {
		s := tableSpec(dir)
		if strings.HasSuffix(dir, "vector") {
			s.Features = []*pb.Feature{{Name: []string{"id"}, Layout: pb.Layout_SPARSE}}
		}
		ctx, cancel := timely(t)
		defer cancel()
		_, err := alice.Open(ctx, &pb.OpenRequest{Session: filepath.Base(dir), Spec: s})
		text, wrong := spec.Format(s)
		check(t, wrong)
		flights := flight.NewFlightServiceClient(g.as(tokenOf("alice"), ""))
		_, byFlight := flights.GetFlightInfo(ctx, &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: text})
		if status.Code(err) != status.Code(byFlight) {
			t.Errorf("%s: as a session %v; by Flight %v", dir, err, byFlight)
		}
		return err
	}
	check(t, try(in("whole")))
	for _, dir := range []string{
		outside, mine + "/../" + filepath.Base(others) + "/whole", in("root"), in("log"), in("commit"), in("file"),
		in("folder"), in("absolute"), in("up"), in("vector"),
	} {
		want := codes.PermissionDenied
		if dir == in("absolute") || dir == in("up") {
			want = codes.FailedPrecondition // for everybody
		}
		if err := try(dir); status.Code(err) != want || strings.Count(err.Error(), "rpc error") > 1 {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestAClosedSessionOfATable is listed again as it was, whatever the table consists of by then.
func TestAClosedSessionOfATable(t *testing.T) {
	m := single(t)
	dir, paths := deltaTable(t, 3)
	s := tableSpec(dir)
	s.Epochs = 1
	openSession(t, m, "run", s, 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	begin := r.state()
	r.work(r.finished)
	once(t, 3, 1, r)
	leaveAll(t, m, "run", r)
	commitFiles(t, dir, 1, "", "remove", paths[1:]...)
	again := newTrainer(t, m, "run", 0, 1)
	check(t, again.restore("b", true, begin))
	again.work(again.finished)
	once(t, 3, 1, again)
	leaveAll(t, m, "run", again)

	check(t, os.Remove(filepath.Join(dir, paths[2])))
	err := newTrainer(t, m, "run", 0, 1).restore("c", true, begin)
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), paths[2]) ||
		!strings.Contains(err.Error(), "vacuumed") {
		t.Errorf("after a vacuum: %v", err)
	}
}

// TestATableVacuumedBetweenBlocks fails the session with an error that says what to do.
func TestATableVacuumedBetweenBlocks(t *testing.T) {
	m := single(t)
	dir, paths := deltaTable(t, 40)
	openSession(t, m, "run", tableSpec(dir), 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	r.untilGranted()
	for _, path := range paths {
		check(t, os.Remove(filepath.Join(dir, path)))
	}
	eventually(t, "the session fails", func() bool {
		r.consume(1)
		check(t, r.sync())
		return r.last.GetFailure() != ""
	})
	if got := r.last.GetFailure(); !strings.Contains(got, "/part.parquet, which is gone: it was vacuumed") {
		t.Error(got)
	}
}

// TestFlightOfATable tells no more rows than there are without those that are deleted.
func TestFlightOfATable(t *testing.T) {
	m := single(t)
	addWorker(t, m, fleet.Member{Name: "one", Address: "10.0.0.1:1", Slots: 8})
	dir, err := filepath.Abs("../internal/tables/delta/testdata/tables/spark-log-replay-dv-key-cases")
	check(t, err)
	for uri, rows := range map[string]int64{"@v0": 50, "@v2": 48, "": 47} {
		text := fmt.Appendf(nil, "{dataset: {uri: 'delta+%s%s'}, features: [{sparse: id}], batch_size: 4}", dir, uri)
		var info *flight.FlightInfo
		eventually(t, "the worker can be used", func() (ok bool) {
			info, err = flight.NewFlightServiceClient(m.conn).GetFlightInfo(t.Context(),
				&flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: text})
			return status.Code(err) != codes.Unavailable
		})
		check(t, err)
		if got := info.GetTotalRecords(); got != rows && (got != -1 || rows == 50) || len(info.GetEndpoint()) == 0 {
			t.Errorf("%s: %d rows, %d endpoints; want %d rows", uri, got, len(info.GetEndpoint()), rows)
		}
	}
}

// TestAStateKnowsItsTablesFiles: a state that was taken in the middle of a block goes on only if the block's files are
// those that they were, though the log does not tell that they are not.
func TestAStateKnowsItsTablesFiles(t *testing.T) {
	server := storagetest.StartMinIO(t)
	server.Setenv(t)
	server.MakeBucket(t, "lake")
	dir, paths := deltaTable(t, 1)
	put := func(path string) []byte {
		content, err := os.ReadFile(filepath.Join(dir, path))
		check(t, err)
		server.Put(t, "lake", "table/"+path, content)
		return content
	}
	put("_delta_log/00000000000000000000.json")
	content := put(paths[0])
	s := tableSpec("")
	s.Dataset.Uri, s.Epochs = []string{"delta+s3://lake/table"}, 1
	m := single(t)
	openSession(t, m, "run", s, 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	r.untilGranted()
	if r.consume(1) != 1 {
		t.Fatal("no shard was granted")
	}
	check(t, r.sync())
	state := r.state()
	restored := func(id string, state *pb.State) *trainer {
		openSession(t, m, id, s, 1)
		again := newTrainer(t, m, id, 0, 1)
		check(t, again.restore("b", true, state))
		again.work(func() bool { return again.finished() || again.last.GetFailure() != "" })
		return again
	}
	same := restored("same", state)
	if n := r.counters.GetRows() + same.counters.GetRows(); n != groups*rows || same.last.GetFailure() != "" {
		t.Errorf("%d rows were read, want %d; failure: %q", n, groups*rows, same.last.GetFailure())
	}

	content[8] ^= 1 // of the first page: what the log and the footer tell is the same
	server.Put(t, "lake", "table/"+paths[0], content)
	if got := restored("swapped", state).last.GetFailure(); !strings.Contains(got, paths[0]+": since the session's") {
		t.Errorf("the failure is %q", got)
	}
	state.Indexes = nil // as States of releases are that knew no files of tables
	earlier := restored("earlier", state)
	if n := r.counters.GetRows() + earlier.counters.GetRows(); n != groups*rows || earlier.last.GetFailure() != "" {
		t.Errorf("%d rows were read, want %d; failure: %q", n, groups*rows, earlier.last.GetFailure())
	}
}
