package cluster_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	for _, name := range []string{"made", "cached"} {
		r := runDemo(t, nil, "--rows=100000", "--cache="+cache)
		if r.RowsExpected != 100_000 || r.Kills != 1 || len(r.StallShare) != 2 || r.RowsPerSecond <= 0 ||
			r.BytesPerSecond <= 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestDemoDataset reads the dataset by the URI that it is said to have, wherever that is used.
func TestDemoDataset(t *testing.T) {
	t.Chdir(t.TempDir())
	uri, _ := run(t, 0, nil, "demo", "dataset", "--rows=1000", "--cache=here")
	t.Chdir(t.TempDir())
	runDemo(t, nil, "--data="+strings.TrimSpace(uri), "--workers=1", "--trainers=1", "--kill=0")
}

func TestDemoKillsSeveralWorkers(t *testing.T) {
	t.Parallel()
	r := runDemo(t, nil, "--rows=100000", "--workers=2", "--trainers=3", "--kill=3", "--cache="+t.TempDir())
	if r.Kills != 3 || len(r.StallShare) != 3 {
		t.Errorf("%+v", r)
	}
}

func TestDemoForPeople(t *testing.T) {
	t.Parallel()
	out, progress := run(t, 0, nil, "demo", "--rows=3000", "--kill=0", "--workers=1", "--trainers=1",
		"--cache="+t.TempDir())
	for _, want := range []string{"3,000 expected, 3,000 delivered", "Every row arrived exactly once"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	for _, want := range []string{"training", "verifying", "rows/s", "stalled", "workers"} {
		if !strings.Contains(progress, want) {
			t.Errorf("the progress lacks %q:\n%s", want, progress)
		}
	}
}

// TestDemoStaysOnATerminal: who runs it by hand can look at the dashboard until he has seen enough, and learns before
// what was found.
func TestDemoStaysOnATerminal(t *testing.T) {
	t.Parallel()
	x := inTerminal(t, []string{"TMPDIR=" + t.TempDir()}, "demo", "--rows=3000", "--workers=1", "--trainers=1",
		"--cache="+t.TempDir())
	said := func() string {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.said.String()
	}
	eventually(t, "the fleet stays", func() bool { return strings.Contains(said(), "Ctrl-C ends them") })
	if !strings.Contains(said(), "Every row arrived exactly once") {
		t.Errorf("it stays without a report:\n%s", said())
	}
	found := regexp.MustCompile(`the dashboard: (http://\S+/) asks for the token (\w+)`).FindStringSubmatch(said())
	if found == nil {
		t.Fatalf("no dashboard:\n%s", said())
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, found[1]+"api/v1/sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+found[2])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), `"FINISHED"`) {
		t.Errorf("%v: %s", err, body)
	}
	x.press("\003")
	if err := x.cmd.Wait(); err != nil || strings.Contains(said(), "PROBLEM") {
		t.Errorf("it ends with %v:\n%s", err, said())
	}
}

func TestDemoOnS3(t *testing.T) {
	t.Parallel()
	minio := storagetest.StartMinIO(t)
	minio.MakeBucket(t, "criteo")
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), 60_000, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		minio.PutFile(t, "criteo", "table/day=1/"+filepath.Base(p), p)
	}
	r := runDemo(t, minio.Environ(), "--data=s3://criteo/table/")
	if r.RowsExpected != 60_000 || r.Kills != 1 {
		t.Errorf("%+v", r)
	}
}

func TestDemoOnRealData(t *testing.T) {
	t.Parallel()
	tsv := realData(t, "criteo/day_11_first_3k_rows.tsv")
	dir := filepath.Join(t.TempDir(), "criteo")
	run(t, 0, nil, "convert", tsv, "--out="+dir, "--columns=criteo")
	r := runDemo(t, nil, "--data="+dir+"/")
	if r.RowsExpected != 3000 || r.Kills != 1 {
		t.Errorf("%+v", r)
	}
}

func TestDemoExplainsItsMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args, want string }{
		{"no data", "--data=/nowhere/at/all/", "/nowhere/at/all"},
		{"flags", "--rows=0 --workers=0", "--rows: want 1 or more, found 0"},
		{"output", "--output=xml", "want one of text, json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := run(t, 1, nil, append([]string{"demo"}, strings.Fields(c.args)...)...)
			if !strings.Contains(errs, c.want) {
				t.Errorf("the error lacks %q:\n%s", c.want, errs)
			}
		})
	}
}
