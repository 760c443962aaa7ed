package bucket

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestClients runs clients of others' as they are: testdata/clients.py. `make python` installs them.
func TestClients(t *testing.T) {
	if out, err := exec.Command("python3", "-c", "import pfio, fsspec, aiohttp").CombinedOutput(); err != nil {
		t.Skipf("python3 on the PATH has not pfio, fsspec and aiohttp: %v: %s", err, out)
	}
	l := listen(t)
	run(t, l, nil)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("of-a"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/buckets/a"
	cmd := exec.CommandContext(t.Context(), "python3", filepath.Join("testdata", "clients.py"), url, token)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
