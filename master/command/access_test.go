package command

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
	"github.com/penstock-ml/penstock/master/access"
)

// TestNothingLimitsServiceAccounts: it is said, unless there is a file of namespaces.
func TestNothingLimitsServiceAccounts(t *testing.T) {
	dir := t.TempDir()
	token, namespaces := filepath.Join(dir, "token"), filepath.Join(dir, "namespaces.yaml")
	for path, text := range map[string]string{token: "the-masters-own", namespaces: "namespaces: {}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"", namespaces} {
		var logged bytes.Buffer
		f := accessFlags{namespaces: file}
		f.review = access.ReviewConfig{
			On: true, Audiences: []string{"penstock"}, Server: "https://127.0.0.1:1", TokenFile: token,
			CA: rpctest.NewAuthority(t).CA,
		}
		if _, err := f.open(rpc.Secret{}, slog.New(slog.NewTextHandler(&logged, nil))); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(logged.String(), "may read everything"); said != (file == "") {
			t.Errorf("namespaces %q: %s", file, &logged)
		}
	}
}
