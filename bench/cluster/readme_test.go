package cluster_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadme runs the commands of the README, in their order, in an empty directory, as a newcomer would.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// Small batches and several epochs, so that there is time to take a checkpoint of trainers, and as many for each.
	spec := strings.Replace(block(t, string(text), "yaml")[0], "batch_size: 1024",
		"batch_size: 16\nepochs: 20\nlast_batch: drop", 1)
	for name, content := range map[string]string{"clicks.tsv": clicks(), "spec.yaml": spec} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.Join(block(t, string(text), "sh"), "\n")
	// The binary under test stands for the one that the README builds.
	script = strings.Replace(script, "go build -o penstock .", "ln -s "+binary+" penstock", 1)
	// Masters and workers go to the background; wait until they are up rather than race them.
	script = strings.Replace(script, "./penstock read",
		"until ./penstock session list >/dev/null 2>&1; do :; done\n./penstock read", 1)
	// What the fleet does is measured once a second.
	script = strings.Replace(script, "./penstock top --once",
		"until ./penstock top --once | grep -q run-7; do :; done\n./penstock top --once", 1)
	script = strings.Replace(script, "./penstock session checkpoint ", trainers+"./penstock session checkpoint ", 1)
	out := bash(t, dir, script)
	for _, want := range []string{
		"spec.yaml is valid", "row groups", "sigrid_hash", "label=", "rows/s", "run-7", "0 of 2", "noon", "0 of 4",
		"HELD UP BY", "serves", "next: ", "opened: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands' output lacks %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "rows.parquet")); err != nil {
		t.Error(err)
	}
}

// trainers are the two ranks of run-7. Who takes their rows takes some time for each batch.
const trainers = `for rank in 0 1; do
	./penstock read spec.yaml --session run-7 --rank $rank --world-size 2 --head 1000000 |
		(set +x; while [ -n "$(head -c 2048)" ]; do sleep 0.2; done) &
done
until ./penstock session show run-7 | grep -q 'trainers *2 of 2'; do :; done
`

// TestReadmeNamesRealTargets holds the commands that TestReadme does not run to what is there.
func TestReadmeNamesRealTargets(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	targets := read("Makefile")
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		text := read(name)
		for _, m := range regexp.MustCompile(`(?m)^    make ([a-z-]+)`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(targets, "\n"+m[1]+":") {
				t.Errorf("%s: the Makefile has no target %s", name, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("..", "..", m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	}
}

// block returns the fenced code blocks of a language.
func block(t *testing.T, text, language string) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("no %s block", language)
	}
	return out
}

// bash runs a script and ends what it left in the background.
func bash(t *testing.T, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euxo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the background; there may be none left
	out, readErr := os.ReadFile(log.Name())
	if err != nil || readErr != nil {
		t.Fatalf("%v %v\n%s", err, readErr, out)
	}
	return string(out)
}

// clicks is a small table such as users bring.
func clicks() string {
	var b strings.Builder
	b.WriteString("label\tint_0\tint_1\tcat_0\tcat_1\n")
	for i := range 3000 {
		int0 := fmt.Sprint(i % 17)
		if i%5 == 0 {
			int0 = ""
		}
		fmt.Fprintf(&b, "%d\t%s\t%d\t%08x\t%08x\n", i%2, int0, i, i*2654435761%4294967296, i%100)
	}
	return b.String()
}

// TestReadmeShowsTheExample holds the README's Go to the client's example, which compiles.
func TestReadmeShowsTheExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join("..", "..", "client", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(block(t, string(text), "go")[0], "\t\t$1")
	if !strings.Contains(string(example), indented) {
		t.Errorf("client/example_test.go does not hold this of the README:\n%s", indented)
	}
}
