package master_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/features"
)

// readsOf is what was read below a directory, in words: of each feature sessions and rows, and its bytes as a share of
// what a pass over the files reads of it.
func readsOf(t *testing.T, m pb.MasterClient, dir string) (words string, all *pb.DatasetReads) {
	t.Helper()
	ctx, cancel := timely(t)
	defer cancel()
	reply, err := m.ListFeatures(ctx, &pb.ListFeaturesRequest{Uri: dir})
	check(t, err)
	all = reply.GetDatasets()[0]
	stored := storedIn(t, dir)
	words = fmt.Sprintf("%d: ", all.GetSessions())
	for _, f := range all.GetFeatures() {
		words += fmt.Sprintf("%s %d %d %g, ", f.GetName(), f.GetSessions(), f.GetRows(),
			float64(f.GetBytes())/float64(stored[f.GetName()]))
	}
	for _, s := range all.GetSets() {
		words += fmt.Sprintf("%d together %d %d, ", len(slices.Collect(features.Members(s))), s.GetSessions(), s.GetRows())
	}
	for _, c := range features.Never(all) {
		words += c.GetName() + " never"
	}
	return words, all
}

// storedIn are the bytes of columns in all files of a directory.
func storedIn(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	disk, err := storage.New(storage.Config{})
	check(t, err)
	listed, err := disk.List(t.Context(), "", []string{dir})
	check(t, err)
	var files []format.File
	for _, f := range listed {
		one, err := formats.NewCache(1<<20).Load(t.Context(), disk, "", f, nil, nil, nil)
		check(t, err)
		files = append(files, one)
	}
	out := map[string]int64{}
	for _, c := range features.Columns(files).GetColumns() {
		out[c.GetName()] = c.GetBytes()
	}
	return out
}

// What sessions read is counted once, whoever leads.
func TestReads(t *testing.T) {
	e := etcd(t, "")
	first := start(t, settings{endpoints: e.Endpoints()})
	dir := dataset(t, 3)
	s := newSpec(dir)
	s.Epochs = 2
	openSession(t, first, "run", s, 1)
	openSession(t, first, "run", s, 1)
	r := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	r.work(r.finished)

	alone := newSpec(filepath.Join(dir, "day=1"))
	alone.Features = alone.Features[:1]
	openSession(t, first, "one", alone, 1)
	r = newTrainer(t, first, "one", 0, 1).mustJoin("a")
	r.work(r.finished)
	const want = "2: label 1 180 2, x 2 210 2.3333333333333335, 2 together 1 180, 1 together 1 30, "
	check := func(m *node, what string) {
		t.Helper()
		if words, all := readsOf(t, m, dir); words != want || all.GetBytes() == 0 || all.GetReadUnixMs() == 0 ||
			all.GetSinceUnixMs() == 0 || all.GetPrefix() != "file://"+dir+"/" {
			t.Errorf("%s: %s, want %s; all of it: %v", what, words, want, all)
		}
	}
	check(first, "the leader")
	second := start(t, settings{endpoints: e.Endpoints()})
	if _, err := second.ListFeatures(t.Context(), &pb.ListFeaturesRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("who does not lead answers %v", err)
	}
	first.stop()
	eventually(t, "the second leads", func() bool {
		_, err := second.ListFeatures(t.Context(), &pb.ListFeaturesRequest{})
		return err == nil
	})
	check(second, "the next leader")

	openSession(t, second, "more", alone, 1) // its blocks are planned, and nobody is given anything
	eventually(t, "its first block is planned", func() bool {
		return getSession(t, second, "more").GetProgress().GetBlocksPlanned() > 0
	})
	list, err := second.ListFeatures(t.Context(), &pb.ListFeaturesRequest{})
	if err != nil || len(list.GetDatasets()) != 1 || list.GetDatasets()[0].GetSessions() != 3 ||
		list.GetDatasets()[0].GetRows() != 210 || list.GetDatasets()[0].GetFeatures() != nil {
		t.Errorf("datasets: %v, %v", list, err)
	}
	_, err = second.ListFeatures(t.Context(), &pb.ListFeaturesRequest{Uri: dir + "/other/"})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "`penstock features` lists") {
		t.Errorf("of what nobody read: %v", err)
	}
	_, err = second.ListFeatures(t.Context(), &pb.ListFeaturesRequest{Uri: "s3://key@bucket/"})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("of no URI: %v", err)
	}
}

// Directories below one that is asked after are added up, and are of one namespace.
func TestReadsBelowADirectory(t *testing.T) {
	g := startGuarded(t, "", master.Config{})
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		check(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(dataset(t, 1))))
		who := map[string]string{"a": "alice", "b": "amy", "c": "eve"}[name]
		s := newSpec(filepath.Join(dir, name))
		s.Features = s.Features[:1]
		openSession(t, g.master(who), name, s, 1)
		r := newTrainer(t, g.node, name, 0, 1)
		r.master = g.master(who)
		r.mustJoin("x").work(r.finished)
	}
	_, all := readsOf(t, g.master("boss"), dir)
	if all.GetPrefixes() != 2 || all.GetSessions() != 2 || len(all.GetFeatures()) != 1 ||
		all.GetFeatures()[0].GetRows() != 2*groups*rows || len(features.Never(all)) != 1 {
		t.Errorf("in vision: %v", all)
	}
	for namespace, want := range map[string]int{"vision": 2, "speech": 1, "": 0} {
		got, err := pb.NewMasterClient(g.as(tokenOf("wall"), namespace)).ListFeatures(t.Context(),
			&pb.ListFeaturesRequest{})
		if err != nil || len(got.GetDatasets()) != want {
			t.Errorf("namespace %q has read of %d directories, want %d: %v", namespace, len(got.GetDatasets()), want, err)
		}
	}
}

// Lanes have no grants of runs: their pieces count, whoever gets them, and once.
func TestReadsOfLanes(t *testing.T) {
	m := single(t)
	dir := dataset(t, 3)
	openSession(t, m, "run", laneSpec(dir, pb.LastBatch_UNEVEN), 2)
	train(t, joinAll(t, m, "run", 2), 0x7fffffff)
	const want = "1: label 1 180 2, x 1 180 2, 2 together 1 180, "
	if words, _ := readsOf(t, m, dir); words != want {
		t.Errorf("%s, want %s", words, want)
	}
}
