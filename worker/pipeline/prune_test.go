package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// clusteredScript writes the columns of pipelinetest, whose values rise with the rows, with and without a page index.
const clusteredScript = `
import sys, random
import pyarrow as pa, pyarrow.parquet as pq
r, n = random.Random(5), 6000
nan = float("nan")
table = pa.table({
    "label": pa.array([i // 100 for i in range(n)], pa.int32()),
    "price": pa.array([None if i % 1500 < 300 or r.random() < 0.1 else nan if i % 700 < 60 else i / 1000 for i in range(n)], pa.float32()),
    "score": pa.array([nan if 2000 <= i < 2400 else -i / 8 for i in range(n)], pa.float64()),
    "ids": pa.array([None if r.random() < 0.1 else [r.randrange(1000) for _ in range(r.randrange(5))] for i in range(n)], pa.list_(pa.int64())),
    "tags": pa.array([[i] * (i % 3) for i in range(n)], pa.list_(pa.int32())),
    "weights": pa.array([[0.5] * (i % 3) for i in range(n)], pa.list_(pa.float32())),
    "text": pa.array([None if 900 <= i < 1300 else chr(97 + i // 400) * 90 + str(i) for i in range(n)], pa.string()),
})
for index in (True, False):
    for version in ("1.0", "2.0"):
        pq.write_table(table, f"{sys.argv[1]}/{index}{version}.parquet", row_group_size=3500, data_page_size=900, write_batch_size=40,
                       write_page_index=index, data_page_version=version, use_dictionary=["label", "tags"])
`

// clustered returns two stores, of which the first has its files with page indexes, and the names of these files.
func clustered(t *testing.T) (indexed, plain *pipelinetest.Store, files [][]byte) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", clusteredScript,
		dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("pyarrow: %v\n%s", err, out)
		}
		t.Skip("python3 with pyarrow is missing: pip install pyarrow")
	}
	indexed, plain = &pipelinetest.Store{}, &pipelinetest.Store{}
	for _, name := range []string{"True1.0", "True2.0", "False1.0", "False2.0"} {
		data, err := os.ReadFile(filepath.Join(dir, name+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, data)
	}
	return indexed, plain, files
}

func anyFilter(t *rapid.T, depth int) string {
	if depth > 0 && rapid.IntRange(0, 2).Draw(t, "inner") > 0 {
		a, b := anyFilter(t, depth-1), anyFilter(t, depth-1)
		return rapid.SampledFrom([]string{"(" + a + " and " + b + ")", "(" + a + " or " + b + ")", "not (" + a +
			")"}).Draw(t, "junction")
	}
	op := rapid.SampledFrom([]string{"==", "!=", "<", "<=", ">", ">="}).Draw(t, "op")
	at := rapid.IntRange(-1, 61).Draw(t, "at")
	return rapid.SampledFrom([]string{
		fmt.Sprintf("label %s %d", op, at),
		fmt.Sprintf("label %% 7 %s %d", op, at), fmt.Sprintf("hash(price, %d) %% 10 < 5", at),
		fmt.Sprintf("hash(row(), %d) %% 10 < 5", at),
		fmt.Sprintf("label in (%d, %d)", at, at/2),
		fmt.Sprintf("label not in (%d, %d)", at, at+1),
		fmt.Sprintf("price %s %d.%d", op, at/10, at&7),
		"price is null", "price is not null", "text is null", "text is not null",
		fmt.Sprintf("score %s -%d.5", op, 10*max(at, 0)),
		fmt.Sprintf("text %s '%s'", op, strings.Repeat(string(rune('a'+max(at, 0)/4)), 70)),
	}).Draw(t, "test")
}

// TestPruningChangesNothing: with a page index, streams have the rows that they have without one, at the same places.
func TestPruningChangesNothing(t *testing.T) {
	indexed, plain, files := clustered(t)
	var less, same int
	ctx, outer := t.Context(), t
	tickets := func(store *pipelinetest.Store, data []byte, window int64) *pb.Ticket {
		return pipelinetest.Ticket(outer, store, store.Put("mem://f.parquet", data), window)
	}
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.IntRange(0, 1).Draw(t, "version")
		window := rapid.SampledFrom([]int64{64, 333, 1000}).Draw(t, "window")
		program := pipelinetest.Program()
		program.Filter, program.Seed = anyFilter(t, 2), 3
		program.Shuffle = rapid.Bool().Draw(t, "shuffle")
		at := Cursor{Window: uint32(rapid.IntRange(0, int(6000/window)).Draw(t, "from"))}
		if rapid.Bool().Draw(t, "whole") {
			at = Cursor{}
		}
		read := map[*pipelinetest.Store]int64{}
		rows := map[*pipelinetest.Store][]row{}
		for store, data := range map[*pipelinetest.Store][]byte{indexed: files[version], plain: files[2+version]} {
			p := newPipeline(store, 4096)
			ticket := tickets(store, data, window)
			var err error
			if rows[store], _, err = collect(ctx, p, ticket, program, at); err != nil {
				t.Fatalf("%s: %v", program.GetFilter(), err)
			}
			read[store] = p.Counters().GetBytesRead()
		}
		if !reflect.DeepEqual(rows[indexed], rows[plain]) {
			t.Fatalf("%s: %d rows with an index, %d without", program.GetFilter(), len(rows[indexed]), len(rows[plain]))
		}
		if read[indexed] < read[plain] {
			less++
		} else {
			same++
		}
	})
	if less == 0 {
		t.Errorf("no index spared a byte, in %d streams", same)
	}
}

// TestPagesThatAreNotRead: what no window needs is not asked for.
func TestPagesThatAreNotRead(t *testing.T) {
	indexed, plain, files := clustered(t)
	program := pipelinetest.Program()
	program.Filter = "label == 17"
	var read [2]int64
	for i, store := range []*pipelinetest.Store{indexed, plain} {
		p := newPipeline(store, 4096)
		rows, _, err := collect(t.Context(), p, pipelinetest.Ticket(t, store, store.Put("mem://f.parquet", files[2*i]),
			100), program, Cursor{})
		if err != nil || len(rows) != 100 {
			t.Fatalf("%d rows: %v", len(rows), err)
		}
		read[i] = p.Counters().GetBytesRead()
	}
	if read[0]*2 > read[1] {
		t.Errorf("%d bytes read with an index, %d without", read[0], read[1])
	}
}

// TestPruningWithoutAnIndex: a column without an offset index is read whole where other columns tell which windows have
// rows, and not at all where none has.
func TestPruningWithoutAnIndex(t *testing.T) {
	store, _, files := clustered(t)
	for filter, rows := range map[string]int{"label == 17": 100, "text == 'cz'": 0} {
		for _, file := range files[:2] {
			data := slices.Clone(file)
			f := store.Put("mem://f.parquet", data)
			ticket := pipelinetest.Ticket(t, store, f, 100)
			foot := pipelinetest.Footer(t, store, f)
			column, _ := foot.Column("score")
			leaf, _ := foot.LeavesOf(column)
			for _, g := range foot.RowGroups {
				index := g.Chunks[leaf].OffsetIndex()
				clear(data[index.Offset:][:index.Length])
			}
			program := pipelinetest.Program()
			program.Filter = filter
			p := newPipeline(store, 4096)
			got, _, err := collect(t.Context(), p, ticket, program, Cursor{})
			if err != nil || len(got) != rows {
				t.Errorf("%s: %d rows, want %d; %v", filter, len(got), rows, err)
			}
			if read := p.Counters().GetBytesRead(); read > int64(len(data))*2/3 {
				t.Errorf("%s: %d bytes read of %d", filter, read, len(data))
			}
		}
	}
}

// TestPruningWaitsForNothing: neither the index nor what it leaves of a row group is worth a wait for memory, which
// might never end.
func TestPruningWaitsForNothing(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 100, 500)
	s := mustOpen(t, newPipeline(&store, 4096), ticket)
	other := s.pipeline.memory.Open()
	defer other.Close(nil)
	mustGrow(t, other, s.pipeline.cfg.Memory-s.pipeline.memory.InUse())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := s.reader.readIndexes(ctx, []storage.Range{{Length: 100}}); !errors.Is(err, ErrBusy) {
		t.Errorf("an index without memory for it: %v; want %v at once", err, ErrBusy)
	}
	s.quota.buffers = memory.NewBuffers(s.quota.Account, 1, 1)
	if u := s.reader.selectedUnit(0, everything{s.layout.file}); u != nil {
		t.Errorf("%d bytes are to be read where there is never room for more than one", u.size)
	}
}

// everything is a selection of all that the first row group has.
type everything struct{ format.Bound }

func (everything) Wants(int64) bool { return true }
func (everything) Size() int64      { return 0 }
func (e everything) Ranges(chunk int) []storage.Range {
	return []storage.Range{e.Chunk(0, chunk).Range}
}

// TestPageIndexesAreCounted: what is known of a row group's pages is the stream's memory until the row group has been
// read; where there is none for it, all of the row group is.
func TestPageIndexesAreCounted(t *testing.T) {
	store, _, files := clustered(t)
	ticket := pipelinetest.Ticket(t, store, store.Put("mem://f.parquet", files[0]), 100)
	program := pipelinetest.Program()
	program.Filter = "label == 17 or label == 50"
	p := newPipeline(store, 4096)
	s, err := p.Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := s.quota.Held()
	u := s.reader.next(t.Context(), 0)
	var pages int64
	if s, ok := u.groups[0].selection.(*parquet.Selection); ok {
		for _, p := range s.Pages {
			pages += int64(len(p))
		}
	}
	index := s.quota.Held() - before
	if pages < 100 || index < 16*pages || index > 2*16*pages {
		t.Fatalf("%d bytes are taken for the places of %d pages", index, pages)
	}
	s.quota.Give(index)

	other := p.memory.Open()
	defer other.Close(nil)
	var raw int64
	for leaf, c := range pipelinetest.Footer(t, store, ticket.File).RowGroups[0].Chunks {
		raw += c.OffsetIndex().Length
		if leaf == 0 {
			raw += c.ColumnIndex().Length
		}
	}
	mustGrow(t, other, p.MemoryLimit()-p.MemoryInUse()-raw-index/2)
	if u := s.reader.next(t.Context(), 0); u.groups[0].selection != nil || s.quota.Held() != before {
		t.Errorf("%d bytes are taken where there is no memory for an index of %d and %d",
			s.quota.Held()-before, raw, index)
	}
	other.Give(index)
	if u = s.reader.next(t.Context(), 0); u.groups[0].selection == nil {
		t.Fatal("an index for which there is memory is not used")
	}

	if u.buffer, err = s.quota.buffers.Get(t.Context(), u.size); err == nil {
		err = s.reader.read(t.Context(), u)
	}
	if err != nil {
		t.Fatal(err)
	}
	close(u.done)
	units := make(chan *unit, 1)
	units <- u
	close(units)
	held := s.quota.Held()
	for _, err = range s.reader.extents(t.Context(), units) {
		if err != nil {
			break
		}
	}
	if gave := held - s.quota.Held(); err != nil || gave != index {
		t.Errorf("%d bytes are given back behind the row group, of %d: %v", gave, index, err)
	}

	held = s.quota.Held()
	s.quota.buffers = memory.NewBuffers(s.quota.Account, 1, 1) // which is too little for what is left of the row group
	if u := s.reader.next(t.Context(), 0); u.groups[0].selection != nil || s.quota.Held() != held {
		t.Errorf("%d bytes are held for an index that is not used", s.quota.Held()-held)
	}
}

// TestIndexThatContradictsItself: pages that are said to be null beside none of which there is one are read all the
// same, as parquet-java 3457 has them, and it shows that they were.
func TestIndexThatContradictsItself(t *testing.T) {
	store, _, files := clustered(t)
	data := slices.Clone(files[0])
	f := store.Put("mem://f.parquet", data)
	ticket := pipelinetest.Ticket(t, store, f, 100)
	foot := pipelinetest.Footer(t, store, f)
	column, _ := foot.Column("label")
	leaf, _ := foot.LeavesOf(column)
	for _, g := range foot.RowGroups {
		index := g.Chunks[leaf].ColumnIndex()
		sayNull(t, data[index.Offset:][:index.Length])
	}
	program := pipelinetest.Program()
	program.Filter = "label >= 0"
	p := newPipeline(store, 4096)
	var told []string
	p.cfg.Untrusted = func(_ *pb.Ticket, why string) { told = append(told, why) }
	rows, _, err := collect(t.Context(), p, ticket, program, Cursor{})
	if err != nil || len(rows) != 6000 {
		t.Errorf("%d rows of 6000, %v", len(rows), err)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], `row group 0 column "label": page `) {
		t.Errorf("told is %q", told)
	}
	if n := p.Counters().GetUntrustedIndexes(); n != int64(len(foot.RowGroups)) {
		t.Errorf("%d indexes are counted in %d row groups", n, len(foot.RowGroups))
	}
}

// sayNull has a ColumnIndex say of all pages but the first that they are of nulls: its first field is a list of less
// than 15 booleans.
func sayNull(t *testing.T, index []byte) {
	t.Helper()
	n := int(index[1] >> 4)
	if index[0] != 0x19 || n < 2 || n == 15 {
		t.Fatalf("no list of some booleans: %x", index[:8])
	}
	for i := range n - 1 {
		index[3+i] = 1
	}
}
