package conformance

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/client/command"
)

const driverEnv = "PENSTOCK_CONFORMANCE_DRIVER" // makes this binary the driver of package client

func TestMain(m *testing.M) {
	if feed := command.Feed("test"); len(os.Args) > 1 && os.Args[1] == feed.Name() { // the Python driver's child
		feed.SetArgs(os.Args[2:])
		if feed.Execute() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(driverEnv) != "" {
		os.Exit(drive(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	t.Run("go", func(t *testing.T) {
		Run(t, &Driver{Command: []string{os.Args[0]}, Env: append(os.Environ(), driverEnv+"=1")})
	})
	t.Run("python", func(t *testing.T) { Run(t, pythonDriver(t)) })
}

// pythonDriver needs a Python that has what client/python needs, such as the one that the Makefile makes. Batches come
// to it from this binary.
func pythonDriver(t *testing.T) *Driver {
	client := filepath.Join("..", "python")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PYTHONPATH="+filepath.Join(client, "src"), "PENSTOCK_BINARY="+binary)
	python, err := exec.LookPath("python3")
	if err == nil {
		check := exec.CommandContext(t.Context(), python, "-c", "import numpy, pyarrow")
		check.Env = env
		err = check.Run()
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no Python with numpy and pyarrow on PATH: %v; make python makes one in .venv/bin", err)
		}
		t.Skipf("no Python with numpy and pyarrow on PATH: %v", err)
	}
	if err := depend(client); err != nil {
		t.Fatal(err)
	}
	return &Driver{Command: []string{python, filepath.Join(client, "tests", "conformance_driver.py")}, Env: env}
}

// depend looks at a folder's Python files. The go command then runs the tests again, though it has a result of them,
// when a file changed.
func depend(folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".py" {
			return err
		}
		_, err = os.Stat(path)
		return err
	})
}
