package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// start runs a fleet until the test ends, over a dataset of its own, and returns the master's address and a spec.
func start(t *testing.T, rows int, flags ...string) (c *cluster.Cluster, master, spec string) {
	t.Helper()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	c = startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), MasterFlags: flags, WorkerFlags: flags}, 2)
	if master, err = c.Master(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(
		"dataset: {uri: %s/}\nfeatures: [{label: label}, {dense: int_*}, {sparse: cat_0}]\nbatch_size: 1000\n",
		filepath.Dir(paths[0]))
	return c, master, write(t, "spec.yaml", text)
}

func TestTLSAndToken(t *testing.T) {
	t.Parallel()
	ours, theirs := rpctest.NewAuthority(t), rpctest.NewAuthority(t)
	cert, key := ours.Issue(t, t.TempDir())
	c, master, spec := start(t, 5000, "--tls-cert="+cert, "--tls-key="+key, "--tls-ca="+ours.CA)
	at, token, ca := "--master="+master, "--token-file="+c.TokenFile(), "--tls-ca="+ours.CA
	out, _ := run(t, 0, nil, "read", spec, at, "--output=json", token, ca)
	if !strings.Contains(out, `"rows":5000,`) {
		t.Errorf("read: %s", out)
	}
	if rows, err := readSecured(t, master, spec, client.Security{TokenFile: c.TokenFile(), CA: ours.CA}); err != nil ||
		rows != 5000 {
		t.Errorf("the Go client read %d rows, %v", rows, err)
	}
	if _, err := readSecured(t, master, spec, client.Security{CA: ours.CA}); err == nil ||
		!strings.Contains(err.Error(), "bears no token") {
		t.Errorf("the Go client without a token: %v", err)
	}
	other := write(t, "token", "another")
	for _, x := range []struct {
		name string
		args []string
		want string
	}{
		{"no token", []string{ca}, "bears no token, and this port asks for one; set --token-file"},
		{"wrong token", []string{ca, "--token-file=" + other}, "token is not one that this port knows"},
		{
			"wrong authority",
			[]string{"--tls-ca=" + theirs.CA, token},
			"is not trusted; --tls-ca must name its authority",
		},
		{"plain", []string{token}, "speaks TLS; set --tls-ca"},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, errs := run(t, 1, nil, append([]string{"read", spec, at}, x.args...)...)
			if !strings.Contains(errs, x.want) {
				t.Errorf("the error lacks %q:\n%s", x.want, errs)
			}
		})
	}
	if out, _ := run(t, 0, nil, "session", "list", at, token, ca); strings.Contains(out, "read-") {
		t.Errorf("read left a session:\n%s", out)
	}
}

// readSecured reads a dataset as a program that uses the Go client does.
func readSecured(t *testing.T, master, path string, how client.Security) (rows int, err error) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := spec.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Epochs = 1
	config := client.Config{Masters: []string{master}, Session: "secured", Spec: parsed}
	if err := config.Secure(how); err != nil {
		t.Fatal(err)
	}
	session, err := client.Open(t.Context(), config)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	for batch, err := range session.Batches(t.Context()) {
		if err != nil {
			return rows, err
		}
		rows += batch.Rows
		batch.Release()
	}
	return rows, nil
}

func TestStockFlightClient(t *testing.T) {
	t.Parallel()
	c, master, spec := start(t, 20_000)
	token, err := os.ReadFile(c.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Endpoints    int      `json:"endpoints"`
		TotalRecords int      `json:"total_records"`
		Rows         int      `json:"rows"`
		Labels       int      `json:"labels"`
		IDs          int      `json:"ids"`
		Dense        string   `json:"dense"`
		Names        []string `json:"names"`
	}
	if err := json.Unmarshal([]byte(python(t, "stock_client.py", master, spec, string(token))), &got); err != nil {
		t.Fatal(err)
	}
	out, _ := run(t, 0, nil, "read", spec, "--head=20000", "--output=json", "--master="+master,
		"--token-file="+c.TokenFile())
	labels, ids, rows := 0, 0, 0
	for line := range strings.Lines(out) {
		var row struct {
			Label *int    `json:"label"`
			Cat   []int64 `json:"cat_0"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row.Label != nil { // the last line is the summary
			rows, labels, ids = rows+1, labels+*row.Label, ids+len(row.Cat)
		}
	}
	if rows != 20_000 || got.Rows != rows || got.TotalRecords != rows || got.Labels != labels || got.IDs != ids ||
		got.Endpoints == 0 {
		t.Errorf("pyarrow: %+v; penstock read: %d rows, %d labels, %d ids", got, rows, labels, ids)
	}
	var names []string
	for i := range 13 {
		names = append(names, fmt.Sprint("int_", i))
	}
	if !slices.Equal(got.Names, names) || !strings.Contains(got.Dense, "float") ||
		!strings.Contains(got.Dense, "[13]") {
		t.Errorf("dense: %s %v", got.Dense, got.Names)
	}
}

// TestReadToParquet holds that other tools read what `penstock read` writes, without rows too.
func TestReadToParquet(t *testing.T) {
	t.Parallel()
	c, master, spec := start(t, 3000)
	flags := []string{"--output=parquet", "--master=" + master, "--token-file=" + c.TokenFile()}
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	none := write(t, "none.yaml", string(text)+"filter: label > 7\n")
	for _, x := range []struct {
		name, spec string
		more       []string
		rows       int
	}{{"all", spec, nil, 3000}, {"head", spec, []string{"--head=1234"}, 1234}, {"none", none, nil, 0}} {
		t.Run(x.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rows.parquet")
			args := slices.Concat([]string{"read", x.spec, path}, flags, x.more)
			run(t, 0, nil, args...)
			want := fmt.Sprintf("%d %d label int_0 list<element: int64", x.rows, x.rows)
			if got := python(t, "read_parquet.py", path); !strings.HasPrefix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if _, errs := run(t, 1, nil, args...); !strings.Contains(errs, "exists; name another file") {
				t.Errorf("%s", errs)
			}
			if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 1 {
				t.Errorf("%v, %v", left, err)
			}
		})
	}
}
