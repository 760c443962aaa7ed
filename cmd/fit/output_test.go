package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/cmd/reach"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// argsName is the variable by which a test has this program be `penstock fit`.
const argsName = "PENSTOCK_TEST_FIT"

func child(args string) int {
	if _, err := run(context.Background(), strings.Split(args, "\n")...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A fit that is killed leaves the file of an older one, or the new one whole, and what it showed to workers is gone in
// the end. It is killed with SIGKILL whenever it has shown something anew, until one gets to the end.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	dataset(t, dir)
	out, folder := filepath.Join(dir, "_a.parquet"), filepath.Join(dir, "_folder")
	if _, err := run(t.Context(), specOf(t, dir, "- {op: scale_to_0_1, in: x, of: fit}"), "--out="+out,
		"--folder="+t.TempDir()); err != nil {
		t.Fatal(err)
	}
	old := contents(t, out)
	path := specOf(t, dir, chained+"- {op: map_id, in: ids, vocabulary: fit}\n"+
		"- {op: scale_to_0_1, in: ids, out: scaled, of: fit}\n")
	whole := filepath.Join(dir, "_whole.parquet")
	if _, err := run(t.Context(), path, "--out="+whole, "--folder="+t.TempDir()); err != nil {
		t.Fatal(err)
	}
	want := contents(t, whole)
	if bytes.Equal(old, want) {
		t.Fatal("both files are the same")
	}
	kills := 0
	for ; killed(t, filepath.Join(dir, "__a.parquet.*.unfinished"), min(kills+1, 2), path, "--out="+out,
		"--folder="+folder); kills++ {
		if found := contents(t, out); !bytes.Equal(found, old) && !bytes.Equal(found, want) {
			t.Fatal("a killed fit left neither the old file nor the new one")
		}
	}
	if kills < 2 {
		t.Errorf("%d were killed", kills)
	}
	if !bytes.Equal(contents(t, out), want) {
		t.Error("fits that were killed come to another file")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.unfinished")); err != nil || len(left) > 0 {
		t.Errorf("they leave %v: %v", left, err)
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// killed runs a fit that is killed once a file has changed so many times, and reports whether it was.
func killed(t *testing.T, watched string, changes int, args ...string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), argsName+"="+strings.Join(args, "\n"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	before := state(watched)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %s", err, &errs)
			}
			return false
		case <-tick.C:
			if now := state(watched); now != before {
				before = now
				changes--
			}
			if changes == 0 {
				_ = cmd.Process.Kill() // it may have ended just now
				return <-ended != nil
			}
		}
	}
}

// state tells the file of a glob from what it was, and from none.
func state(path string) string {
	found, err := filepath.Glob(path)
	if err != nil || len(found) == 0 {
		return ""
	}
	info, err := os.Stat(found[0])
	if err != nil {
		return ""
	}
	return file.ETag(info)
}

// Where nothing can be written shows before anything is read.
func TestUnwritable(t *testing.T) {
	dir, folder := t.TempDir(), t.TempDir()
	dataset(t, dir)
	_, err := run(t.Context(), specOf(t, dir, chained), "--out=/proc/a.parquet", "--folder="+folder)
	if err == nil || !strings.Contains(err.Error(), "--out: write file:///proc/_a.parquet.") {
		t.Errorf("%v", err)
	}
	if found, err := filepath.Glob(filepath.Join(folder, "*.parquet")); err != nil || len(found) > 0 {
		t.Errorf("it read the data, and has %v: %v", found, err)
	}
}

// What workers read meanwhile is none of the dataset's files, however these are named.
func TestUnfinishedIsNoData(t *testing.T) {
	for _, out := range []string{"file:///d/a.parquet", "file:///d/_a.parquet", "s3://b/a.parquet"} {
		dir := out[:strings.LastIndex(out, "/")+1]
		for _, uri := range []string{dir, dir + "*", dir + "**"} {
			if name := unfinishedOf(out, "0f"); storage.Finds(uri, name) || storage.FormatOf(name) != "" {
				t.Errorf("%s finds %s", uri, name)
			}
		}
	}
}

// Fits of different specs that write one file have their own beside it, and one that such a fit left damaged is in
// nobody's way.
func TestUnfinishedOfOthers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "_cache"))
	dataset(t, dir)
	left := map[string]bool{}
	for _, transforms := range []string{chained, "- {op: scale_to_0_1, in: x, of: fit}"} {
		path, out := specOf(t, dir, transforms), filepath.Join(dir, "_a.parquet")
		r := &fit{flags: &flags{fleet: reach.New("test", transform.Builtin()), ops: transform.Builtin(), out: out}}
		r.cmd = &cobra.Command{}
		r.cmd.SetContext(t.Context())
		if err := r.look(path); err != nil {
			t.Fatal(err)
		}
		unfinished := strings.TrimPrefix(r.unfinished, "file://")
		left[unfinished] = true
		if err := os.WriteFile(unfinished, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t.Context(), path, "--out="+out); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(unfinished); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", unfinished, err)
		}
	}
	if len(left) != 2 {
		t.Errorf("they share %v", left)
	}
}

// A vocabulary of no value is an error that names the filter, and leaves no file.
func TestVocabularyOfNothing(t *testing.T) {
	dir := t.TempDir()
	dataset(t, dir)
	for filter, want := range map[string]string{
		"day > 90":  `vocabulary of ids: no row passes the filter "day > 90"`,
		"n is null": "rows that the filter \"n is null\" keeps has a value",
	} {
		path, out := specOf(t, dir, "- {op: map_id, in: ids, vocabulary: fit}"), filepath.Join(dir, "_a.parquet")
		text := strings.Replace(string(contents(t, path)), "day < 9", filter, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := run(t.Context(), path, "--out="+out, "--folder="+t.TempDir())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "_*a.parquet*")); err != nil || len(left) > 0 {
		t.Errorf("there is %v: %v", left, err)
	}
}

// Folders to which nothing was written for long are removed, but not those of fits that run.
func TestAbandonedFoldersAreRemoved(t *testing.T) {
	cache := t.TempDir()
	now := time.Now()
	locks := map[string]*os.File{}
	for _, name := range []string{"old", "running", "written"} {
		folder := filepath.Join(cache, name)
		if err := os.MkdirAll(filepath.Join(folder, "pass-1"), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if locks[name], err = lock(folder); err != nil {
			t.Fatal(err)
		}
		defer locks[name].Close()
		for _, path := range []string{folder, filepath.Join(folder, lockName), filepath.Join(folder, "pass-1")} {
			if err := os.Chtimes(path, time.Time{}, now.Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	locks["old"].Close()
	locks["written"].Close()
	if err := os.WriteFile(filepath.Join(cache, "written", "pass-1", "checkpoint.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeAbandoned(cache, now.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*"))
	if want := cache + "/running " + cache + "/written"; err != nil || strings.Join(left, " ") != want {
		t.Errorf("there are %v: %v", left, err)
	}
}

// A fit that opened the lock of another one, which then ended, makes the folder anew instead of holding a lock that
// keeps nobody out.
func TestLockOfARemovedFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a")
	ended, err := makeLocked(folder)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(filepath.Join(folder, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := errors.Join(removeLocked(folder), ended.Close()); err != nil {
		t.Fatal(err)
	}
	if err := process.Lock(opened); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no folder: %v", err)
	}
	next, err := makeLocked(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := process.Lock(opened); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of another fit's folder: %v", err)
	}
	if _, err := makeLocked(folder); err == nil || !strings.Contains(err.Error(), "another fit works in "+folder) {
		t.Errorf("two hold it: %v", err)
	}
}

// A function by name that is another one by now would make a file of two versions.
func TestFunctionsChangeBetweenPasses(t *testing.T) {
	called := func(by int64, digest string) *pb.Spec {
		args := map[string]*pb.Value{"by": {Kind: &pb.Value_Int{Int: by}}}
		return &pb.Spec{
			Code:       &pb.Code{Functions: []*pb.NamedDigest{{Name: "m:f", Digest: []byte(digest)}}},
			Transforms: []*pb.Transform{{Python: &pb.Function{Call: "m:f", Args: args}}},
		}
	}
	r := &fit{folder: "/f"}
	for _, s := range []*pb.Spec{called(1, "a"), called(2, "b"), called(1, "a"), {}} {
		if err := r.calls(s); err != nil {
			t.Error(err)
		}
	}
	if err := r.calls(called(1, "c")); err == nil || !strings.HasPrefix(err.Error(), "m:f changed") {
		t.Error(err)
	}
}

// A fit writes to an object store, and leaves there nothing but its file.
func TestFitToAnObjectStore(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.MakeBucket(t, "fits")
	m.Setenv(t)
	dir := t.TempDir()
	dataset(t, dir)
	made, err := run(t.Context(), specOf(t, dir, chained), "--out=s3://fits/a.parquet", "--folder="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store, err := (&cli.StorageFlags{}).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for glob, want := range map[string]int{"s3://fits/[a-z]*": 1, "s3://fits/_*": 0} {
		found, err := store.List(t.Context(), "", []string{glob})
		if len(found) != want || want > 0 && err != nil {
			t.Errorf("%s: %v, %v", glob, found, err)
		}
	}
	if made.URI != "s3://fits/a.parquet" || made.Passes < 2 {
		t.Errorf("%+v", made)
	}
}
