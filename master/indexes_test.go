package master_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
)

// indexingWorker makes indexes of files of this machine, as change leaves them.
type indexingWorker struct {
	countingWorker
	change func(n int, x *index.Index) ([]byte, error) // of the n-th that it makes; nil: as they are
	listed func(n int) string                          // the list by which it made the n-th; nil: it read the file

	mu    sync.Mutex
	asked []string // for the indexes of which files
}

func (w *indexingWorker) DoAction(a *flight.Action, out flight.FlightService_DoActionServer) error {
	if a.GetType() != "index" {
		return w.countingWorker.DoAction(a, out)
	}
	granted, err := w.verified(a)
	if err != nil {
		return err
	}
	x, err := indexOf(out.Context(), granted.GetFile())
	if err != nil {
		return status.Error(codes.DataLoss, err.Error())
	}
	w.mu.Lock()
	n := len(w.asked)
	w.asked = append(w.asked, granted.GetFile().GetUri())
	w.mu.Unlock()
	data := x.Bytes()
	if w.change != nil {
		if data, err = w.change(n, x); err != nil {
			return err
		}
	}
	if w.listed != nil {
		out.SetTrailer(metadata.Pairs(rpc.ListTrailer, w.listed(n)))
	}
	if err := out.Send(&flight.Result{}); err != nil { // it is at work
		return err
	}
	for piece := range slices.Chunk(data, 10) {
		if err := out.Send(&flight.Result{Body: piece}); err != nil {
			return err
		}
	}
	return nil
}

func (w *indexingWorker) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked)
}

// indexOf scans a file of this machine.
func indexOf(ctx context.Context, f *pb.File) (*index.Index, error) {
	st, err := storage.New(storage.Config{})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	described, err := formats.NewCache(0).Load(ctx, st, "", f, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	of, ok := described.(format.Scanned)
	if !ok {
		return nil, errors.New("it needs no index")
	}
	return formats.Scan(ctx, &format.Input{Storage: st, File: f}, of)
}

func indexFiles(t *testing.T, dir string) ([]*pb.File, error) {
	t.Helper()
	st, err := storage.New(storage.Config{})
	check(t, err)
	defer st.Close()
	return st.List(t.Context(), "", []string{dir})
}

const (
	lineFiles  = 3
	lineBytes  = 9 << 20
	lineGroups = lineBytes/(4<<20) + 1
)

// linesDataset writes files of lines, each of which has some extents.
func linesDataset(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range lineFiles {
		writeLines(t, filepath.Join(dir, fmt.Sprintf("part-%d.jsonl", i)), i)
	}
	return dir
}

func writeLines(t *testing.T, path string, label int) {
	t.Helper()
	line := fmt.Sprintf("{\"label\": %d, \"text\": %q}\n", label, strings.Repeat("x", 1000))
	check(t, os.WriteFile(path, []byte(strings.Repeat(line, lineBytes/len(line))), 0o600))
}

func linesSpec(dir string, epochs uint32) *pb.Spec {
	return &pb.Spec{
		Dataset:   &pb.Dataset{Uri: []string{"file://" + dir + "/"}},
		Features:  []*pb.Feature{{Name: []string{"label"}, Layout: pb.Layout_LABEL}},
		BatchSize: 4, Shuffle: true, Seed: 3, Epochs: epochs,
	}
}

// placesOf are at which positions extents are, and where they lie, as a trainer's tickets say, by file and index.
func placesOf(t *testing.T, r *trainer, into map[string]string) {
	t.Helper()
	for _, g := range r.grants {
		if len(g.GetTicket()) == 0 {
			continue
		}
		granted := r.open(g)
		for _, e := range granted.GetExtents() {
			into[fmt.Sprintf("%d %s %d", granted.GetEpoch(), granted.GetFile().GetUri(), e.GetIndex())] = fmt.Sprintf(
				"%d %d %v %d", granted.GetBlock(), granted.GetShard(), format.PlaceOf(e), e.GetWindowRows())
		}
	}
}

// delivered trains to the end, and returns where all extents were.
func delivered(t *testing.T, r *trainer) map[string]string {
	t.Helper()
	places := map[string]string{}
	placesOf(t, r, places)
	r.work(func() bool {
		placesOf(t, r, places)
		return r.finished()
	})
	return places
}

// TestWorkersIndexFiles: files without an index are indexed once, by a worker. One that dies, that sends another file's
// index, or half of one, is not believed. Nobody is asked where there are indexes beside the data, and what is damaged
// of these is made again. Positions are the same each time.
func TestWorkersIndexFiles(t *testing.T) {
	dir := linesDataset(t)
	train := func(t *testing.T, w *indexingWorker) map[string]string {
		t.Helper()
		m := single(t)
		openSession(t, m, "run", linesSpec(dir, 2), 1)
		r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
		check(t, r.sync()) // while there is no worker
		startWith(t, m, "indexing", w, &w.countingWorker)
		return delivered(t, r)
	}
	w := &indexingWorker{change: func(n int, x *index.Index) ([]byte, error) {
		switch n {
		case 0:
			return nil, status.Error(codes.Unavailable, "it dies")
		case 1:
			return x.Bytes()[:len(x.Bytes())/2], nil
		}
		return x.Bytes(), nil
	}}
	want := train(t, w)
	if len(want) != 2*lineFiles*lineGroups || w.times() != lineFiles+2 {
		t.Fatalf("%d extents were granted, want %d; workers were asked %d times for %v", len(want),
			2*lineFiles*lineGroups, w.times(), w.asked)
	}
	files, err := indexFiles(t, dir)
	check(t, err)
	var packed []index.Packed
	for _, f := range files {
		x, err := indexOf(t.Context(), f)
		check(t, err)
		_, name := beside.Split(f.GetUri())
		packed = append(packed, index.Packed{Name: name, Index: x.Bytes()})
	}
	for name, tc := range map[string]struct {
		packed []index.Packed
		asked  int
		cut    int
	}{
		"all are there":       {packed, 0, 0},
		"some are":            {packed[1:], 1, 0},
		"the pack is cut":     {packed, lineFiles, 7},
		"of other files":      {[]index.Packed{{Name: packed[0].Name, Index: packed[1].Index}, packed[1], packed[2]}, 1, 0},
		"no index is in them": {[]index.Packed{{Name: packed[0].Name, Index: []byte("index")}}, lineFiles, 0},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(dir, beside.Folder)
			check(t, os.MkdirAll(folder, 0o700))
			defer func() { check(t, os.RemoveAll(filepath.Dir(folder))) }()
			data := index.Pack(tc.packed)
			check(t, os.WriteFile(filepath.Join(folder, index.PackName(data)), data[:len(data)-tc.cut], 0o600))
			w := &indexingWorker{}
			got := train(t, w)
			if w.times() != tc.asked {
				t.Errorf("workers were asked for %v, want %d files", w.asked, tc.asked)
			}
			if !maps.Equal(got, want) {
				t.Errorf("%d extents are elsewhere than with indexes that workers made, or others", len(got))
			}
		})
	}
}

// TestAnIndexIsTheSameAtAnyTime: a file whose index was lost, and comes to be another one though its ETag is the same,
// fails the session, which names the file.
func TestAnIndexIsTheSameAtAnyTime(t *testing.T) {
	dir := linesDataset(t)
	m := single(t)
	w := &indexingWorker{change: func(n int, x *index.Index) ([]byte, error) {
		if n < lineFiles {
			return x.Bytes(), nil
		}
		return joined(x)
	}}
	startWith(t, m, "indexing", w, &w.countingWorker)
	openSession(t, m, "run", linesSpec(dir, 1), 1)
	delivered(t, newTrainer(t, m, "run", 0, 1).mustJoin("a"))
	m.master.ForgetIndexes()
	openSession(t, m, "again", linesSpec(dir, 1), 1)
	namesIndex(t, failure(t, m, "again"))
}

// TestAWrongListIsForgotten: an index that a worker made by a list of records which is wrong is that of no other session,
// once the list is gone.
func TestAWrongListIsForgotten(t *testing.T) {
	dir := t.TempDir()
	writeLines(t, filepath.Join(dir, "one.jsonl"), 1)
	m := single(t)
	m.master.KeepIndexes()
	w := &indexingWorker{
		change: func(n int, x *index.Index) ([]byte, error) {
			if n > 0 {
				return x.Bytes(), nil
			}
			return joined(x)
		},
		listed: func(n int) string { return []string{"file:///one.jsonl.idx", ""}[min(n, 1)] },
	}
	startWith(t, m, "indexing", w, &w.countingWorker)
	for i, extents := range []int{1, lineGroups} {
		id := fmt.Sprint("run-", i)
		openSession(t, m, id, linesSpec(dir, 1), 1)
		if got := delivered(t, newTrainer(t, m, id, 0, 1).mustJoin("a")); len(got) != extents {
			t.Errorf("%s has %d extents, want %d", id, len(got), extents)
		}
	}
}

// TestABlockRecordsIndexes: another master knows by the blocks in etcd that a file's index is another one than before.
func TestABlockRecordsIndexes(t *testing.T) {
	dir := t.TempDir()
	writeLines(t, filepath.Join(dir, "one.jsonl"), 1)
	endpoints := etcd(t, "").Endpoints()
	first := start(t, settings{endpoints: endpoints})
	w := &indexingWorker{}
	startWith(t, first, "indexing", w, &w.countingWorker)
	openSession(t, first, "run", linesSpec(dir, 5), 1)
	newTrainer(t, first, "run", 0, 1).mustJoin("a").untilGranted()
	first.stop()
	second := start(t, settings{endpoints: endpoints})
	other := &indexingWorker{change: func(_ int, x *index.Index) ([]byte, error) { return joined(x) }}
	startWith(t, second, "indexing", other, &other.countingWorker)
	failsByIndex(t, newTrainer(t, second, "run", 0, 1).mustJoin("b"))
}

// joined is an index with one extent in place of all.
func joined(x *index.Index) ([]byte, error) {
	all := x.Places()
	one := all[0]
	for _, p := range all[1:] {
		one.Rows, one.Bytes, one.Stored.Length = one.Rows+p.Rows, one.Bytes+p.Bytes, one.Stored.Length+p.Stored.Length
	}
	b := index.NewBuilder(x.Of)
	if err := b.Add(one); err != nil {
		return nil, err
	}
	made, err := b.Index()
	if err != nil {
		return nil, err
	}
	return made.Bytes(), nil
}

// failsByIndex trains until the session fails, since a file's index is another one.
func failsByIndex(t *testing.T, r *trainer) {
	t.Helper()
	r.work(func() bool { return r.last.GetFailure() != "" })
	namesIndex(t, r.last.GetFailure())
}

func namesIndex(t *testing.T, failure string) {
	t.Helper()
	if !strings.Contains(failure, ".jsonl: its index is another one than before") {
		t.Errorf("the session failed: %s", failure)
	}
}

// TestIndexesOutliveMasters: a master finds the index of a file that another one had made. One that was damaged
// in between is made again. Who uses one writes it again, once an hour.
func TestIndexesOutliveMasters(t *testing.T) {
	dir := t.TempDir()
	line := fmt.Sprintf("{\"label\": 1, \"text\": %q}\n", strings.Repeat("x", 4000))
	path := filepath.Join(dir, "large.jsonl")
	check(t, os.WriteFile(path, []byte(strings.Repeat(line, 33<<20/len(line))), 0o600))
	endpoints := etcd(t, "").Endpoints()
	var want map[string]string
	for i, asked := range []int{1, 0, 1} {
		m := start(t, settings{endpoints: endpoints})
		m.master.KeepIndexes()
		w := &indexingWorker{}
		startWith(t, m, "indexing", w, &w.countingWorker)
		session := fmt.Sprintf("run %d", i)
		openSession(t, m, session, linesSpec(dir, 1), 1)
		got := delivered(t, newTrainer(t, m, session, 0, 1).mustJoin("a"))
		if w.times() != asked {
			t.Errorf("master %d asked workers %d times, want %d", i, w.times(), asked)
		}
		if want == nil {
			want = got
		}
		if !maps.Equal(got, want) || len(got) < 8 {
			t.Errorf("master %d has %d extents elsewhere, or others", i, len(got))
		}
		if i == 1 {
			files, err := indexFiles(t, dir)
			check(t, err)
			x, err := indexOf(t.Context(), files[0])
			check(t, err)
			stored := m.master.IndexStored(files[0].GetUri(), x)
			m.master.ForgetIndexes()
			openSession(t, m, "again", linesSpec(dir, 1), 1)
			delivered(t, newTrainer(t, m, "again", 0, 1).mustJoin("a"))
			if stored.IsZero() || m.master.IndexStored(files[0].GetUri(), x) != stored || w.times() > 0 {
				t.Error("an index that was found in etcd is not written again, or each time it is")
			}
			check(t, m.master.DamageIndex(t.Context(), files[0].GetUri(), x))
		}
		m.stop()
	}
}

// TestAStateIsRestoredByItsIndexes: a state that was taken in the middle of a block goes on elsewhere only if the files
// have the same indexes there, whatever became of those that lay beside the data.
func TestAStateIsRestoredByItsIndexes(t *testing.T) {
	dir := linesDataset(t)
	files, err := indexFiles(t, dir)
	check(t, err)
	rows := int64(0)
	as := func(x *index.Index) ([]byte, error) { return x.Bytes(), nil }
	packBeside(t, dir, as)
	first := single(t)
	openSession(t, first, "run", linesSpec(dir, 1), 1)
	w := &indexingWorker{}
	startWith(t, first, "indexing", w, &w.countingWorker)
	r := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	r.untilGranted()
	if r.consume(2) != 2 {
		t.Fatal("fewer than two shards were granted")
	}
	check(t, r.sync())
	for _, f := range files {
		x, err := indexOf(t.Context(), f)
		check(t, err)
		for _, p := range x.Places() {
			rows += p.Rows
		}
	}
	state := r.state()
	if len(state.GetIndexes()) == 0 {
		t.Fatal("the state tells of no index")
	}
	for name, tc := range map[string]struct {
		beside func(*index.Index) ([]byte, error) // nil: deleted
		worker func(int, *index.Index) ([]byte, error)
		state  func(*pb.State)
		fails  bool
	}{
		"deleted":            {beside: nil},
		"there":              {beside: as},
		"forged":             {beside: joined},
		"made otherwise":     {worker: func(_ int, x *index.Index) ([]byte, error) { return joined(x) }, fails: true},
		"an earlier release": {beside: as, state: func(s *pb.State) { s.Indexes = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, os.RemoveAll(filepath.Dir(filepath.Join(dir, beside.Folder))))
			if tc.beside != nil {
				packBeside(t, dir, tc.beside)
			}
			m := single(t)
			w := &indexingWorker{change: tc.worker}
			startWith(t, m, "indexing", w, &w.countingWorker)
			openSession(t, m, "again", linesSpec(dir, 1), 1)
			state := proto.CloneOf(state)
			if tc.state != nil {
				tc.state(state)
			}
			again := newTrainer(t, m, "again", 0, 1)
			check(t, again.restore("b", true, state))
			again.work(func() bool { return again.finished() || again.last.GetFailure() != "" })
			switch failure := again.last.GetFailure(); {
			case tc.fails:
				if !strings.Contains(failure, ".jsonl: its index is another one") {
					t.Errorf("the session failed: %q", failure)
				}
			case failure != "" || again.counters.GetRows()+r.counters.GetRows() != rows:
				t.Errorf("%d rows were read before and %d after, want %d; failure: %q", r.counters.GetRows(),
					again.counters.GetRows(), rows, failure)
			}
		})
	}
}

// TestAForgedIndexFailsNobodyElse: a session that began with an index goes on with that, though another session
// believed one that somebody put beside the data since.
func TestAForgedIndexFailsNobodyElse(t *testing.T) {
	dir := t.TempDir()
	writeLines(t, filepath.Join(dir, "one.jsonl"), 1)
	endpoints := etcd(t, "").Endpoints()
	first := start(t, settings{endpoints: endpoints})
	w := &indexingWorker{}
	startWith(t, first, "indexing", w, &w.countingWorker)
	openSession(t, first, "run", linesSpec(dir, 5), 1)
	newTrainer(t, first, "run", 0, 1).mustJoin("a").untilGranted()
	first.stop()
	packBeside(t, dir, joined)
	second := start(t, settings{endpoints: endpoints})
	openSession(t, second, "other", linesSpec(dir, 1), 1)
	newTrainer(t, second, "other", 0, 1).mustJoin("a").untilGranted() // there is no worker
	w = &indexingWorker{}
	startWith(t, second, "indexing", w, &w.countingWorker)
	r := newTrainer(t, second, "run", 0, 1).mustJoin("b")
	r.work(func() bool { return r.last.GetFailure() != "" || r.finished() })
	if !r.finished() || w.times() != 1 {
		t.Errorf("workers were asked %d times, want 1; the session failed: %q", w.times(), r.last.GetFailure())
	}
}

// packBeside writes the indexes of a directory's files beside them, as change leaves them.
func packBeside(t *testing.T, dir string, change func(*index.Index) ([]byte, error)) {
	t.Helper()
	files, err := indexFiles(t, dir)
	check(t, err)
	var packed []index.Packed
	for _, f := range files {
		x, err := indexOf(t.Context(), f)
		check(t, err)
		data, err := change(x)
		check(t, err)
		_, name := beside.Split(f.GetUri())
		packed = append(packed, index.Packed{Name: name, Index: data})
	}
	folder, data := filepath.Join(dir, beside.Folder), index.Pack(packed)
	check(t, os.MkdirAll(folder, 0o700))
	check(t, os.WriteFile(filepath.Join(folder, index.PackName(data)), data, 0o600))
}

// TestAStateOfTokensIsRestoredByItsOffsets: a state of a file whose rows another one beside it tells goes on only if
// that one says the same.
func TestAStateOfTokensIsRestoredByItsOffsets(t *testing.T) {
	const tokens, length = 6 << 20, 1024
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "a.ds"), make([]byte, 2*tokens), 0o600))
	write := func(length int) {
		var offsets []byte
		for at := 0; at < tokens; {
			at = min(tokens, at+length)
			offsets = binary.LittleEndian.AppendUint64(offsets, uint64(at))
		}
		check(t, os.WriteFile(filepath.Join(dir, "a.ds.index"), offsets, 0o600))
	}
	s := linesSpec(dir, 1)
	s.Features = []*pb.Feature{{Name: []string{"tokens"}, Layout: pb.Layout_SPARSE}}
	open := func(session string) *trainer {
		m := single(t)
		openSession(t, m, session, s, 1)
		w := &indexingWorker{}
		startWith(t, m, "indexing", w, &w.countingWorker)
		return newTrainer(t, m, session, 0, 1)
	}
	write(length)
	r := open("run").mustJoin("a")
	r.untilGranted()
	if r.consume(1) != 1 {
		t.Fatal("no shard was granted")
	}
	check(t, r.sync())
	state := r.state()
	for _, tc := range []struct {
		length int
		fails  string
	}{{length, ""}, {700, "a.ds: its index is another one"}} {
		write(tc.length)
		again := open("again")
		check(t, again.restore("b", true, state))
		again.work(func() bool { return again.finished() || again.last.GetFailure() != "" })
		rows, failure := r.counters.GetRows()+again.counters.GetRows(), again.last.GetFailure()
		if !strings.Contains(failure, tc.fails) || (failure == "") != (tc.fails == "") {
			t.Errorf("documents of %d tokens: the session failed: %q", tc.length, failure)
		}
		if tc.fails == "" && rows != tokens/length {
			t.Errorf("%d rows were read, want %d", rows, tokens/length)
		}
	}
}

// TestFlightInfoIsOfIndexes: who asks for a dataset by Flight gets the extents that workers find. Masters scan nothing,
// and ask for no index that they have.
func TestFlightInfoIsOfIndexes(t *testing.T) {
	dir := linesDataset(t)
	m := single(t)
	w := &indexingWorker{}
	startWith(t, m, "indexing", w, &w.countingWorker)
	text, err := spec.Format(linesSpec(dir, 1))
	check(t, err)
	for range 2 {
		var info *flight.FlightInfo
		eventually(t, "there is a worker", func() bool {
			info, err = flight.NewFlightServiceClient(m.conn).GetFlightInfo(t.Context(),
				&flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: text})
			return status.Code(err) != codes.Unavailable
		})
		check(t, err)
		if n := lineFiles * (lineBytes / lineLength(t, dir)); info.GetTotalRecords() != int64(n) || w.times() != lineFiles {
			t.Errorf("%d rows, want %d; workers were asked for %v", info.GetTotalRecords(), n, w.asked)
		}
	}
}

func lineLength(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "part-0.jsonl"))
	check(t, err)
	return bytes.IndexByte(data, '\n') + 1
}

// TestADamagedFileIsReadTwice: two workers that say the same of a file's bytes are believed, and so is the only one that
// says it twice. Those that say other things are not: all others are asked, more than once.
func TestADamagedFileIsReadTwice(t *testing.T) {
	same := func(int) string { return "the record at byte 7 is damaged" }
	for name, c := range map[string]struct {
		fleet int
		words func(worker int) string
		twice bool
	}{
		"the same":        {3, same, true},
		"the same, alone": {1, same, true},
		"other things":    {3, func(n int) string { return fmt.Sprintf("the record at byte %d is damaged", n) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeLines(t, filepath.Join(dir, "one.jsonl"), 1)
			m := single(t)
			var workers []*indexingWorker
			for i := range c.fleet {
				w := &indexingWorker{change: func(int, *index.Index) ([]byte, error) {
					return nil, status.Error(codes.DataLoss, c.words(i))
				}}
				startWith(t, m, fmt.Sprint("indexing-", i), w, &w.countingWorker)
				workers = append(workers, w)
			}
			openSession(t, m, "other", newSpec(dataset(t, 1)), 1)
			other := newTrainer(t, m, "other", 0, 1).mustJoin("a")
			eventually(t, "all workers are there", func() bool {
				check(t, other.sync())
				return other.last.GetWorkers() == uint32(c.fleet)
			})
			openSession(t, m, "run", linesSpec(dir, 1), 1)
			failure(t, m, "run")
			failed, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
			check(t, err)
			asked := 0
			for _, w := range workers {
				asked += w.times()
			}
			if !strings.Contains(failed.GetFailure(), "is damaged") || !failed.GetBadData() ||
				(asked == 2) != c.twice {
				t.Errorf("workers were asked %d times; the session failed: %s", asked, failed.GetFailure())
			}
		})
	}
}

// TestSmallFilesThatAreDamaged are told as bad data at opening, by the byte.
func TestSmallFilesThatAreDamaged(t *testing.T) {
	dir := t.TempDir()
	var data bytes.Buffer
	z := gzip.NewWriter(&data)
	_, err := z.Write(bytes.Repeat([]byte("{\"label\": 1}\n"), 1000))
	check(t, errors.Join(err, z.Close()))
	data.Bytes()[len(data.Bytes())/2] ^= 0xff
	check(t, os.WriteFile(filepath.Join(dir, "one.jsonl.gz"), data.Bytes(), 0o600))
	m := single(t)
	_, err = m.Open(t.Context(), &pb.OpenRequest{Session: "run", Spec: linesSpec(dir, 1), WorldSize: 1})
	if status.Code(err) != codes.DataLoss || !strings.Contains(err.Error(), "one.jsonl.gz") ||
		!strings.Contains(err.Error(), "byte") {
		t.Errorf("opening says %v", err)
	}
}

// TestSmallFilesAskNobody: what a master reads whole to see what it is, it indexes by that.
func TestSmallFilesAskNobody(t *testing.T) {
	const files, lines = 40, 5
	dir := t.TempDir()
	for i := range files {
		check(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("part-%02d.jsonl", i)),
			[]byte(strings.Repeat("{\"label\": 1}\n", lines)), 0o600))
	}
	m := single(t)
	w := &indexingWorker{}
	startWith(t, m, "indexing", w, &w.countingWorker)
	openSession(t, m, "run", linesSpec(dir, 1), 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	delivered(t, r)
	if r.counters.GetRows() != files*lines || w.times() > 0 {
		t.Errorf("%d rows, want %d; workers were asked for %v", r.counters.GetRows(), files*lines, w.asked)
	}
}
