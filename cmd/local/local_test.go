package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/process"
)

func TestSlots(t *testing.T) {
	for _, c := range []struct{ cpus, workers, want int }{{1, 1, 2}, {8, 1, 16}, {8, 2, 8}, {8, 3, 6}, {2, 8, 2}} {
		got := slots(c.cpus, c.workers)
		if got != c.want {
			t.Errorf("%d CPUs, %d workers: %d slots each, want %d", c.cpus, c.workers, got, c.want)
		}
		if got*c.workers < 2*c.cpus {
			t.Errorf("%d CPUs, %d workers: %d slots each leave CPUs idle", c.cpus, c.workers, got)
		}
	}
}

func TestLocalSaysHowToReadFromIt(t *testing.T) {
	var out strings.Builder
	l := local{workers: 2, dir: "/tmp/logs"}
	if err := l.announce(&out, process.Announcement{
		Address: "127.0.0.1:7070", HTTP: "127.0.0.1:7072", TokenFile: "/tmp/token",
	}, "text"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 workers is up", "penstock read spec.yaml --master 127.0.0.1:7070 --token-file /tmp/token\n",
		`penstock.DataLoader(..., master="127.0.0.1:7070", connection=penstock.Connection(token_file="/tmp/token"))`,
		"The dashboard is at http://127.0.0.1:7072;", "/tmp/logs",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
}

// TestAbandonedDirectories tells apart directories by their owners.
func TestAbandonedDirectories(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	living, lock, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	abandoned, dead, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(abandoned, "token"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead.Close() // as the system does at a process's end
	logs, err := os.MkdirTemp("", dirPattern)
	if err != nil {
		t.Fatal(err)
	}
	if err := removeAbandoned(); err != nil {
		t.Error(err)
	}
	for dir, want := range map[string]bool{living: true, abandoned: false, logs: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v; is to be there: %t", dir, err, want)
		}
	}
}
