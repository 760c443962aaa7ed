// Package storagetest tests implementations of storage.Storage: Run is the suite that all of them must pass, and
// StartMinIO starts a real S3 server for it and for end-to-end tests.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Fixture is an implementation under test.
type Fixture struct {
	Storage storage.Storage
	Profile string
	// Base is the URI of an empty place, without "/" at the end.
	Base string
	// Put writes a file below Base, or replaces it.
	Put func(t *testing.T, name string, content []byte)
	// Remove deletes a file below Base.
	Remove func(t *testing.T, name string)
	// ReadOnly: the store does not write.
	ReadOnly bool
	// NoFolders: the store lists no folders; files are named one by one, or by braces.
	NoFolders bool
	// Unpinned, if not nil, is of a store whose files' URIs name a version, which stays: a text with all such URIs as
	// Base has them.
	Unpinned func(text string) string
}

// New returns the Storage of a configuration, which is closed at the end of the test.
func New(t testing.TB, cfg storage.Config) *storage.Store {
	t.Helper()
	s, err := storage.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Run runs the suite. It calls start for each of its tests.
func Run(t *testing.T, start func(t *testing.T) Fixture) {
	for _, of := range []struct {
		tests map[string]func(*testing.T, Fixture)
		skip  func(Fixture) bool
	}{
		{reading(), func(Fixture) bool { return false }},
		{listing(), func(fx Fixture) bool { return fx.NoFolders }},
		{writing(), func(fx Fixture) bool { return fx.ReadOnly }},
	} {
		for name, test := range of.tests {
			t.Run(name, func(t *testing.T) {
				fx := start(t)
				if of.skip(fx) {
					t.Skip("the store does not do this")
				}
				test(t, fx)
			})
		}
	}
}

func reading() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"Named":     testNamed,
		"Read":      testRead,
		"Changed":   testChanged,
		"Gone":      testGone,
		"Cancelled": testCancelled,
		"Ranges":    testRanges,
	}
}

func listing() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"List":        testList,
		"ListNothing": testListNothing,
		"ListTables":  testListTables,
		"Find":        testFind,
		"Tell":        testTell,
		"TellAs":      testTellAs,
		"Together":    testTogether,
		"Braces":      testBraces,
	}
}

func writing() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"Put":    testPut,
		"Upload": testUpload,
		"Remove": testRemove,
	}
}

// testNamed lists files that are named one by one, or by braces.
func testNamed(t *testing.T, fx Fixture) {
	for _, name := range []string{"s-008.tar", "s-009.tar", "s-010.tar", "s-011.tar", "s-012.tar", "a/1.tar"} {
		fx.Put(t, name, []byte(name))
	}
	for uri, want := range map[string]string{
		"s-009.tar": "s-009.tar", "s-{008..012}.tar": "s-008.tar s-009.tar s-010.tar s-011.tar s-012.tar",
		"{s-010,a/1}.tar": "a/1.tar s-010.tar", "s-{007..011}.tar": "", "s-{008,099}.tar": "", "none.tar": "",
	} {
		files, err := fx.Storage.List(t.Context(), fx.Profile, []string{fx.Base + "/" + uri})
		if missing := map[string]string{
			"s-{007..011}.tar": "/s-007.tar", "s-{008,099}.tar": "/s-099.tar", "none.tar": "/none.tar",
		}[uri]; want == "" {
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
				t.Errorf("%s: %v, want an error that names %s", uri, err, missing)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if got := names(t, fx, files); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

func testList(t *testing.T, fx Fixture) {
	for _, name := range []string{
		"data/a.parquet", "data/b.PARQUET", "data/c.parq", "data/d.pq", "data/e.orc", "data/_SUCCESS", "data/_metadata",
		"data/.hidden.parquet", "data/_tmp/x.parquet", "data/.git/x.parquet", "data/deep/er/f.parquet",
		"data/day=1/p.parquet", "data/day=2/p.parquet", "data/_h=3/p.parquet", "data2/g.parquet", "data.parquet",
		"odd/naïve file+%41#1.parquet", "odd/[x].parquet", "odd/star*.parquet",
	} {
		fx.Put(t, name, []byte(name))
	}
	for _, tc := range []struct {
		uris string // relative to Base, separated by blanks
		want string
	}{
		{
			"data/",
			"data/_h=3/p.parquet data/a.parquet data/b.PARQUET data/c.parq data/d.pq data/day=1/p.parquet " +
				"data/day=2/p.parquet data/deep/er/f.parquet",
		},
		{"data/deep", "data/deep/er/f.parquet"},
		{"data/e.orc", "data/e.orc"},
		{"data/_SUCCESS", "data/_SUCCESS"},
		{"data.parquet", "data.parquet"},
		{"data/*.parquet", "data/a.parquet"},
		{"data/*", "data/a.parquet data/b.PARQUET data/c.parq data/d.pq data/e.orc"},
		{"data/[a-c].*", "data/a.parquet data/b.PARQUET data/c.parq"},
		{"data/_S*", "data/_SUCCESS"},
		{"data/day=?/*.parquet", "data/day=1/p.parquet data/day=2/p.parquet"},
		{"data/day=*/", "data/day=1/p.parquet data/day=2/p.parquet"},
		{"data/**/p.parquet", "data/_h=3/p.parquet data/day=1/p.parquet data/day=2/p.parquet"},
		{
			"data/**/*.parquet",
			"data/_h=3/p.parquet data/a.parquet data/day=1/p.parquet data/day=2/p.parquet data/deep/er/f.parquet",
		},
		{"data*/[a-z].parquet", "data/a.parquet data2/g.parquet"},
		{"data2 data/d.pq data2/", "data/d.pq data2/g.parquet"},
		{`odd/\[x\].parquet`, "odd/[x].parquet"},
		{`odd/star\*.parquet`, "odd/star*.parquet"},
		{"odd/na*", "odd/naïve|file+%41#1.parquet"},
	} {
		var uris []string
		for _, u := range strings.Fields(tc.uris) {
			uris = append(uris, fx.Base+"/"+u)
		}
		files, err := fx.Storage.List(t.Context(), fx.Profile, uris)
		if err != nil {
			t.Errorf("%s: %v", tc.uris, err)
			continue
		}
		if got := names(t, fx, files); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.uris, got, tc.want)
		}
	}
}

// testFind lists files of another kind than those that are trained from, and counts the others.
func testFind(t *testing.T, fx Fixture) {
	finder, ok := fx.Storage.(interface {
		Find(ctx context.Context, profile string, uris []string, kind storage.Kind) (
			[]*pb.File, storage.Others, error)
	})
	if !ok {
		t.Skip("it lists one kind of files")
	}
	for _, name := range []string{"in/a.csv", "in/b.parquet", "in/deep/c.csv", "in/_d.csv", "in/notes"} {
		fx.Put(t, name, []byte(name))
	}
	text := storage.Kind{Ends: ".csv", Has: func(uri string) bool { return strings.HasSuffix(uri, ".csv") }}
	for uri, want := range map[string]string{
		"in": "in/a.csv in/deep/c.csv", "i?/": "in/a.csv in/deep/c.csv", "in/*": "in/a.csv in/b.parquet in/notes",
	} {
		files, others, err := finder.Find(t.Context(), fx.Profile, []string{fx.Base + "/" + uri}, text)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if got := names(t, fx, files); got != want || others.Count == 0 ||
			!strings.HasPrefix(fx.unpinned(others.Example), fx.Base) {
			t.Errorf("%s: got %s and %+v, want %s", uri, got, others, want)
		}
	}
	_, _, err := finder.Find(t.Context(), fx.Profile, []string{fx.Base + "/none/"}, text)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "ending in .csv below") {
		t.Errorf("of nothing: %v", err)
	}
}

// testListTables: directories of tables, whose logs tell which files count, are refused, but not files that are named
// one by one.
func testListTables(t *testing.T, fx Fixture) {
	for _, name := range []string{
		"delta/a.parquet", "delta/day=1/b.parquet", "delta/_delta_log/00000000000000000000.json",
		"hudi/a.parquet", "hudi/.hoodie/hoodie.properties",
		"ice/data/a.parquet", "ice/data/day=1/b.parquet", "ice/metadata/v1.metadata.json",
		"in/delta/c.parquet", "in/delta/_delta_log/_last_checkpoint",
		"plain/a.parquet", "plain/metadata/notes.json", "plain/_delta_log", "plain/day=1/b.parquet",
	} {
		fx.Put(t, name, []byte(name))
	}
	for uri, want := range map[string]string{
		"delta": "Delta Lake (_delta_log/", "delta/": "Delta Lake (_delta_log/",
		"delta/*.parquet": "Delta Lake (_delta_log/",
		"delta/day=1/":    "Delta Lake (_delta_log/", "delta/day=*/": "Delta Lake (_delta_log/",
		"delta/**/*.parquet": "Delta Lake (_delta_log/",
		"in/":                "Delta Lake (_delta_log/", "in/*/c.parquet": "Delta Lake (_delta_log/",
		"hudi/": "Hudi (.hoodie/", "hudi/a.*": "Hudi (.hoodie/",
		"ice/": "Iceberg (metadata/v1.metadata.json", "ice/data/": "Iceberg (metadata/v1",
		"ice/data/day=1/": "Iceberg (metadata/v1",
		"delta/a.parquet": "", "ice/data/a.parquet": "", "plain/": "", "plain/*.parquet": "", "plain/day=1/": "",
		"delta/_delta_log/*.json": "",
	} {
		files, err := fx.Storage.List(t.Context(), fx.Profile, []string{fx.Base + "/" + uri})
		if want == "" && (err != nil || len(files) == 0) {
			t.Errorf("%s: %d files, %v", uri, len(files), err)
		}
		do := "one by one"
		for kind, prefix := range map[string]string{"Delta": "delta+", "Iceberg": "iceberg+"} {
			if strings.HasPrefix(want, kind) {
				do = "name it as " + prefix + fx.Base
			}
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(fx.unpinned(err.Error()), do)) {
			t.Errorf("%s: %d files, %v; want an error with %q", uri, len(files), err, want)
		}
	}
}

// testTell: a listing takes files without an ending as unknown, and tells what it leaves out.
func testTell(t *testing.T, fx Fixture) {
	for _, name := range []string{
		"in/000000_0", "in/LICENSE", "in/impala.0", "in/a.parquet", "in/A.parquet", "in/d=1/b.parquet",
		"in/d=2/B.PARQUET", "in/x.avro", "in/d=1/y.orc", "in/_SUCCESS", "in/.a.parquet.crc", "in/d=1/.hidden",
		"in/_tmp/1.parquet", "in/_tmp/2.parquet",
	} {
		fx.Put(t, name, []byte(name))
	}
	fx.Put(t, "in/empty", nil)
	fx.Put(t, "in/none.parquet", nil)
	for _, uri := range []string{"in", "i?/"} {
		files, left, err := storage.Tell(t.Context(), fx.Storage,
			&pb.Dataset{Storage: fx.Profile, Uri: []string{fx.Base + "/" + uri}})
		if err != nil {
			t.Fatal(err)
		}
		want := "in/000000_0 in/A.parquet in/LICENSE in/a.parquet in/d=1/b.parquet in/d=2/B.PARQUET in/impala.0"
		if got := names(t, fx, files); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
		said := fx.below(fmt.Sprint(left))
		want = fmt.Sprint(storage.LeftOut{
			Foreign: told("in/d=1/y.orc", "in/x.avro"), Empty: told("in/empty", "in/none.parquet"),
			Hidden: told("in/_tmp", "in/d=1/.hidden"), Markers: told("in/.a.parquet.crc", "in/_SUCCESS"),
			Unknown: told("in/000000_0", "in/LICENSE", "in/impala.0"), Alike: told("in/a.parquet"),
		})
		if said != want {
			t.Errorf("%s: it tells of %s, want %s", uri, said, want)
		}
		for _, f := range files {
			if f.GetUnknown() != (path.Ext(f.GetUri()) == "" || path.Ext(f.GetUri()) == ".0") {
				t.Errorf("%s: unknown is %v", f.GetUri(), f.GetUnknown())
			}
		}
	}
}

// testTogether: several URIs tell once of what each of them leaves out, and say where partition keys may begin.
func testTogether(t *testing.T, fx Fixture) {
	for _, name := range []string{
		"d=0/in/k=1/a.parquet", "d=0/in/k=2/b.parquet", "d=0/in/_tmp/x", "d=0/in/x.orc", "d=0/in/c.parquet",
	} {
		fx.Put(t, name, []byte(name))
	}
	fx.Put(t, "d=0/in/none.parquet", nil)
	in := fx.Base + "/d=0/in"
	files, left, err := storage.Tell(t.Context(), fx.Storage, &pb.Dataset{
		Storage: fx.Profile, Uri: []string{in + "/k=1/a.parquet", in, in + "/*.parquet", in + "/", in + "/k=?/"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if left.Empty.Count != 1 || left.Foreign.Count != 1 || left.Hidden.Count != 1 {
		t.Errorf("it tells of %v", left)
	}
	for _, f := range files {
		if fx.unpinned(f.GetUri()[:f.GetKeysAt()]) != in+"/" {
			t.Errorf("%s: keys begin at %d", f.GetUri(), f.GetKeysAt())
		}
	}
	alone, err := fx.Storage.List(t.Context(), fx.Profile, []string{in + "/k=1/a.parquet"})
	if err != nil || alone[0].GetUri()[alone[0].GetKeysAt():] != "a.parquet" {
		t.Errorf("a file by itself: %v, %v", alone, err)
	}
}

// testTellAs: with a format, a directory stands for the files whose endings are its own, and those without an ending,
// which are unknown; without any of its own, for all that are of no other format.
// An unknown format is not told of here, nor what is read with others, or is Penstock's own.
func testTellAs(t *testing.T, fx Fixture) {
	for _, name := range []string{
		"logs/part-00000", "logs/x.log", "logs/y.txt", "logs/z.parquet", "logs/_SUCCESS", "logs/x.idx",
		"mixed/000000_0", "mixed/a.log", "mixed/b.jsonl", "mixed/c.ndjson.gz", "mixed/d.txt", "mixed/e.parquet",
		"mds/shard.0.mds", "cut/shard.0.mds", "mds/_penstock/index/a.indexes", "none/a.parquet", "tokens/0.bin",
		"tokens/0.idx", "tokens/1.npy", "tokens/1.npy.docs.npy",
	} {
		fx.Put(t, name, []byte(name))
	}
	fx.Put(t, "mds/index.json", []byte(`{"shards": []}`))
	fx.Put(t, "cut/index.json", []byte(`{"shards": [{"format": "mds", "raw_data": {"basename": "shard.1.mds"}}]}`))
	documents := &pb.Format{Name: "tokens", Options: map[string]*pb.Value{
		"documents": {Kind: &pb.Value_Text{Text: "*.docs.npy"}},
	}}
	for _, tc := range []struct {
		uri                  string
		how                  *pb.Format
		want, other, unknown string
	}{
		{"logs", &pb.Format{Name: "jsonl"}, "logs/part-00000 logs/x.log logs/y.txt", "[logs/z.parquet]", ""},
		{"l*/", &pb.Format{Name: "JSON Lines"}, "logs/part-00000 logs/x.log logs/y.txt", "[logs/z.parquet]", ""},
		{
			"logs", &pb.Format{Name: "Parquet"}, "logs/part-00000 logs/z.parquet",
			"[logs/x.log logs/y.txt]", "logs/part-00000",
		},
		{
			"mixed", &pb.Format{Name: "ndjson"}, "mixed/000000_0 mixed/b.jsonl mixed/c.ndjson.gz",
			"[mixed/a.log mixed/d.txt mixed/e.parquet]", "mixed/000000_0",
		},
		{"mds", nil, "mds/shard.0.mds", "[]", ""},
		{"mds", &pb.Format{Name: "MDS"}, "mds/shard.0.mds", "[]", ""},
		{"cut", nil, "", "shard.1.mds, which it names, is missing", ""},
		{"none", &pb.Format{Name: "csv"}, "", ".csv or in that of no format", ""},
		{
			"mixed", &pb.Format{Name: "wds"}, "mixed/000000_0 mixed/b.jsonl mixed/c.ndjson.gz mixed/e.parquet",
			"[mixed/a.log mixed/d.txt]", "mixed/000000_0",
		},
		{"tokens", documents, "tokens/0.bin tokens/1.npy", "[]", ""},
	} {
		files, left, err := storage.Tell(t.Context(), fx.Storage,
			&pb.Dataset{Storage: fx.Profile, Uri: []string{fx.Base + "/" + tc.uri}, Format: tc.how})
		if tc.want == "" {
			if err == nil || !strings.Contains(err.Error(), tc.other) {
				t.Errorf("%s: %d files, %v", tc.uri, len(files), err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if hidden := left.Hidden.Count + left.Markers.Count; hidden > 0 && tc.uri == "mds" {
			t.Errorf("%s: it tells of %d hidden names", tc.uri, hidden)
		}
		got, other := names(t, fx, files), fx.below(fmt.Sprint(left.Foreign.Examples))
		if got != tc.want || other != tc.other {
			t.Errorf("%s as %s: %s, and left out %s", tc.uri, tc.how.GetName(), got, other)
		}
		unknown := fx.below(strings.Join(left.Unknown.Examples, " "))
		if unknown != tc.unknown {
			t.Errorf("%s as %s: unknown are %q, want %q", tc.uri, tc.how.GetName(), unknown, tc.unknown)
		}
	}
}

// testBraces: all names that braces stand for are found, or the one that is missing is named.
func testBraces(t *testing.T, fx Fixture) {
	for _, name := range []string{
		"s-008.tar", "s-009.tar", "s-010.tar", "s-011.tar", "s-012.tar", "s-0090.tar", "a/1.tar", "b/2.tar", "b/3.tar",
		"{a,c}/4.tar",
	} {
		fx.Put(t, name, []byte(name))
	}
	for uri, want := range map[string]string{
		"s-{008..011}.tar":    "s-008.tar s-009.tar s-010.tar s-011.tar",
		"s-{012..008..4}.tar": "s-008.tar s-012.tar", "{s-010,a/1}.tar": "a/1.tar s-010.tar",
		"{a,b}": "a/1.tar b/2.tar b/3.tar", "{a,b}/": "a/1.tar b/2.tar b/3.tar", "{a,b}/[12].*": "a/1.tar b/2.tar",
		storage.Quote("{a,c}/4.tar"): "{a,c}/4.tar",
	} {
		files, err := fx.Storage.List(t.Context(), fx.Profile, []string{fx.Base + "/" + uri})
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if got := names(t, fx, files); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
	for uri, want := range map[string]string{
		"s-{007..012}.tar": "/s-007.tar: nothing found", "s-{009,999}.tar": "/s-999.tar: nothing found",
		"{a,c}/": "/c/: nothing found", "{a,b}/1*": "/b/1*: nothing found", "none/{1..9}": "/none/1: nothing found",
		"s-{0..1000000}": "more than 1,000,000 names", "a/{..,b}/2.tar": "level ..",
		"{0..999999}{0..999999}{0..999999}{0..999999}": "more than 1,000,000",
	} {
		_, err := fx.Storage.List(t.Context(), fx.Profile, []string{fx.Base + "/" + uri})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", uri, err, want)
		}
	}
}

func (fx Fixture) unpinned(text string) string {
	if fx.Unpinned == nil {
		return text
	}
	return fx.Unpinned(text)
}

// below is a text with its URIs relative to Base.
func (fx Fixture) below(text string) string {
	return strings.ReplaceAll(fx.unpinned(text), fx.Base+"/", "")
}

// told are names that a listing tells of.
func told(all ...string) (n storage.Names) {
	for _, name := range all {
		n.Add(name)
	}
	return n
}

// names writes a listing as the suite's tables do, and checks what List promises of each file.
func names(t *testing.T, fx Fixture, files []*pb.File) string {
	t.Helper()
	var all []string
	for i, f := range files {
		name, ok := strings.CutPrefix(fx.unpinned(f.Uri), fx.Base+"/")
		if !ok || f.Index != uint32(i) || f.Etag == "" || f.Size != int64(len(name)) {
			t.Errorf("file %d is listed as %v", i, f)
		}
		all = append(all, strings.ReplaceAll(name, " ", "|"))
	}
	return strings.Join(all, " ")
}

func testListNothing(t *testing.T, fx Fixture) {
	fx.Put(t, "data/e.orc", []byte("x"))
	for uri, want := range map[string]string{
		"data":         "data/e.orc",
		"data/":        "ending in .parquet",
		"data/*.pq":    "match",
		"nothing/":     "nothing/",
		"nothing":      "a file of this name",
		"nothing/*":    "match",
		"data/e.orc/":  "e.orc/",
		"data/[.orc":   "pattern",
		"data/**/.pq/": "directories that match",
	} {
		_, err := fx.Storage.List(t.Context(), fx.Profile, []string{fx.Base + "/" + uri})
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(fx.unpinned(err.Error()), fx.Base+"/"+uri) {
			t.Errorf("%s: error %v, want one with %q that names the URI", uri, err, want)
		}
	}
	if _, err := fx.Storage.List(t.Context(), "no-such", []string{fx.Base}); err == nil ||
		!strings.Contains(err.Error(), "no-such") {
		t.Errorf("unknown profile: error %v, want one that names it", err)
	}
}

// one puts a file and lists it.
func one(t *testing.T, fx Fixture, content []byte) *pb.File {
	t.Helper()
	fx.Put(t, "one.parquet", content)
	files, err := fx.Storage.List(t.Context(), fx.Profile, []string{fx.Base + "/one.parquet"})
	if err != nil {
		t.Fatal(err)
	}
	return files[0]
}

func testRead(t *testing.T, fx Fixture) {
	content := random(100_000)
	f := one(t, fx, content)
	for _, r := range spans([][2]int64{{0, 1}, {0, 100_000}, {99_999, 1}, {12_345, 54_321}, {5, 0}, {100_000, 0}}) {
		buf := make([]byte, r.Length)
		if err := fx.Storage.ReadAt(t.Context(), fx.Profile, f, buf, r.Offset); err != nil {
			t.Errorf("%v: %v", r, err)
		}
		if !bytes.Equal(buf, content[r.Offset:r.Offset+r.Length]) {
			t.Errorf("%v: other bytes than were written", r)
		}
	}
	fx.Put(t, "empty.parquet", nil)
	files, err := fx.Storage.List(t.Context(), fx.Profile, []string{fx.Base + "/empty.parquet"})
	if err != nil || files[0].Size != 0 {
		t.Errorf("an empty file is listed as %v, %v", files, err)
	}
}

func testPut(t *testing.T, fx Fixture) {
	w, ok := fx.Storage.(interface {
		Put(ctx context.Context, profile, uri string, body io.ReaderAt, size int64) (*pb.File, error)
	})
	if !ok {
		t.Skip("it does not write")
	}
	uri := fx.Base + "/new/place/one.parquet"
	for _, content := range [][]byte{random(100_000), random(20 << 20), nil, []byte("shorter")} {
		f, err := w.Put(t.Context(), fx.Profile, uri, bytes.NewReader(content), int64(len(content)))
		if err != nil || f.Uri != uri || f.Size != int64(len(content)) {
			t.Fatalf("%d bytes: %v, %v", len(content), f, err)
		}
		buf := make([]byte, len(content))
		if err := fx.Storage.ReadAt(t.Context(), fx.Profile, f, buf, 0); err != nil || !bytes.Equal(buf, content) {
			t.Errorf("%d bytes are not what was written: %v", len(content), err)
		}
	}
	files, err := fx.Storage.List(t.Context(), fx.Profile, []string{fx.Base + "/new/**"})
	if err != nil || len(files) != 1 {
		t.Errorf("there are %v: %v", files, err)
	}
	if _, err := w.Put(t.Context(), fx.Profile, uri, bytes.NewReader(nil), 10); err == nil {
		t.Error("it wrote 10 bytes of 0")
	}
	f, err := fx.Storage.List(t.Context(), fx.Profile, []string{uri})
	if err != nil || f[0].Size != int64(len("shorter")) {
		t.Errorf("after a write that failed there is %v: %v", f, err)
	}
}

// testRemove: the file that was written goes, once and again, and one that took its place stays.
func testRemove(t *testing.T, fx Fixture) {
	w, ok := fx.Storage.(interface {
		Put(ctx context.Context, profile, uri string, body io.ReaderAt, size int64) (*pb.File, error)
		Remove(ctx context.Context, profile string, f *pb.File) error
	})
	if !ok {
		t.Skip("it does not write")
	}
	uri := fx.Base + "/new/one.parquet"
	put := func(content string) *pb.File {
		f, err := w.Put(t.Context(), fx.Profile, uri, strings.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := put("first"), put("second")
	if err := w.Remove(t.Context(), fx.Profile, first); !errors.Is(err, storage.ErrChanged) ||
		!strings.Contains(err.Error(), uri) {
		t.Errorf("written again: error %v, want ErrChanged with the file's name", err)
	}
	if err := fx.Storage.ReadAt(t.Context(), fx.Profile, second, make([]byte, 6), 0); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	for _, which := range []string{"once", "again"} {
		if err := w.Remove(t.Context(), fx.Profile, second); err != nil {
			t.Errorf("%s: %v", which, err)
		}
	}
	if files, err := fx.Storage.List(t.Context(), fx.Profile, []string{uri}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is %v: %v", files, err)
	}
}

func testChanged(t *testing.T, fx Fixture) {
	f := one(t, fx, []byte("first content"))
	fx.Put(t, "one.parquet", []byte("other content"))
	if fx.Unpinned != nil {
		stays(t, fx, f, "first content")
		return
	}
	err := fx.Storage.ReadAt(t.Context(), fx.Profile, f, make([]byte, 5), 0)
	if !errors.Is(err, storage.ErrChanged) || !strings.Contains(err.Error(), f.Uri) {
		t.Errorf("error %v, want ErrChanged with the file's name", err)
	}
	fx.Put(t, "one.parquet", []byte("short"))
	if err := fx.Storage.ReadAt(t.Context(), fx.Profile, f, make([]byte, 5), 8); !errors.Is(err, storage.ErrChanged) {
		t.Errorf("shorter: error %v, want ErrChanged", err)
	}
}

// stays reads the version that was listed of a file.
func stays(t *testing.T, fx Fixture, f *pb.File, content string) {
	t.Helper()
	buf := make([]byte, len(content))
	if err := fx.Storage.ReadAt(t.Context(), fx.Profile, f, buf, 0); err != nil || string(buf) != content {
		t.Errorf("%q, %v; want %q", buf, err, content)
	}
}

func testGone(t *testing.T, fx Fixture) {
	f := one(t, fx, []byte("content"))
	fx.Remove(t, "one.parquet")
	if fx.Unpinned != nil {
		stays(t, fx, f, "content")
		return
	}
	err := fx.Storage.ReadAt(t.Context(), fx.Profile, f, make([]byte, 5), 0)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), f.Uri) {
		t.Errorf("error %v, want fs.ErrNotExist with the file's name", err)
	}
}

func testCancelled(t *testing.T, fx Fixture) {
	f := one(t, fx, []byte("content"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fx.Storage.List(ctx, fx.Profile, []string{fx.Base + "/"}); !errors.Is(err, context.Canceled) {
		t.Errorf("List: error %v, want context.Canceled", err)
	}
	if err := fx.Storage.ReadAt(ctx, fx.Profile, f, make([]byte, 5), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadAt: error %v, want context.Canceled", err)
	}
}

func testRanges(t *testing.T, fx Fixture) {
	content := random(300_000)
	f := one(t, fx, content)
	ranges := spans([][2]int64{
		{200_000, 50_000},
		{0, 10},
		{12, 30_000},
		{299_999, 1},
		{7, 0},
		{210_000, 90_000},
		{60_000, 5},
	})
	how := storage.Reading{MaxGap: 100, Part: 20_000, Parallel: 3}
	out, err := storage.ReadRanges(t.Context(), fx.Storage, fx.Profile, f, ranges, how,
		func(n int64) ([]byte, error) { return make([]byte, n), nil })
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range ranges {
		if !bytes.Equal(out[i], content[r.Offset:r.Offset+r.Length]) {
			t.Errorf("range %d, %v: other bytes than were written", i, r)
		}
	}
}

// spans makes ranges of offsets and lengths.
func spans(pairs [][2]int64) []storage.Range {
	out := make([]storage.Range, len(pairs))
	for i, p := range pairs {
		out[i] = storage.Range{Offset: p[0], Length: p[1]}
	}
	return out
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
