package cluster_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/storage/keys/keystest"
)

// encryptedDataset is a folder of files that pyarrow encrypted in different ways, each with the same 3000 rows.
func encryptedDataset(t *testing.T) (uri string, files int) {
	t.Helper()
	from, to := keystest.Files(t), t.TempDir()
	names := []string{"uniform", "columns_plaintext", "ctr"}
	for _, name := range names {
		if err := os.Rename(filepath.Join(from, name+".parquet"), filepath.Join(to, name+".parquet")); err != nil {
			t.Fatal(err)
		}
	}
	return to + "/", len(names)
}

// keyFlag names a configuration with these keys, or with all.
func keyFlag(t *testing.T, names ...string) string {
	t.Helper()
	return "--storage-config=" +
		write(t, "storage.yaml", "keys: {default: {file: "+keystest.KeyFile(t, names...)+"}}\n")
}

const encryptedSpec = `{dataset: {uri: %s}, features: [{dense: price}, {sparse: ids}, {label: id}, {bytes: text}], filter: "text != 'text 7'",
	batch_size: 700, provenance: true, epochs: 1}`

// TestEncryptedDataset reads encrypted files through a fleet that has their keys.
func TestEncryptedDataset(t *testing.T) {
	t.Parallel()
	uri, files := encryptedDataset(t)
	flags := []string{keyFlag(t)}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), MasterFlags: flags, WorkerFlags: flags}, 2)
	s, err := spec.Parse(fmt.Appendf(nil, encryptedSpec, uri))
	if err != nil {
		t.Fatal(err)
	}
	job := open(t, c, s, nil)
	seen := map[[2]int64]bool{}
	for b := next(t, job); b != nil; b = next(t, job) {
		for i := range b.Rows {
			checkEncryptedRow(t, b, i)
			seen[[2]int64{int64(b.Files[i]), b.RowIDs[i]}] = true
		}
		b.Release()
	}
	closeJob(t, job)
	if want := files * 3000 * 49 / 50; len(seen) != want {
		t.Errorf("%d different rows, want %d", len(seen), want)
	}
}

// checkEncryptedRow compares a row with what keystest's script wrote.
func checkEncryptedRow(t *testing.T, b *client.Batch, i int) {
	t.Helper()
	id := b.RowIDs[i]
	price := float32(id) / 8
	if id%7 == 0 {
		price = float32(math.NaN())
	}
	var ids []int64
	for j := range id % 4 {
		if id%11 != 0 {
			ids = append(ids, j)
		}
	}
	got, sparse, text := b.Dense[i], b.Sparse[0], b.Bytes[0]
	same := got == price || got != got && price != price
	if !same || b.Labels[0].I64[i] != id || !slices.Equal(sparse.Values[sparse.Offsets[i]:sparse.Offsets[i+1]], ids) ||
		string(text.Data[text.Offsets[i]:text.Offsets[i+1]]) != fmt.Sprint("text ", id%50) || id%50 == 7 {
		t.Fatalf("row %d: price %v, id %v", id, got, b.Labels[0].I64[i])
	}
}

// TestMissingKeys has workers, masters and penstock plan lack keys.
func TestMissingKeys(t *testing.T) {
	t.Parallel()
	uri, _ := encryptedDataset(t)
	path := write(t, "spec.yaml", fmt.Sprintf(encryptedSpec, uri))
	if out, _ := run(t, 0, nil, "plan", path, keyFlag(t)); !strings.Contains(out, "encrypted") {
		t.Errorf("plan does not say that columns are encrypted:\n%s", out)
	}
	const want = "this process has no keys for the storage profile: name a source of keys in --storage-config"
	if _, errs := run(t, 1, nil, "plan", path); !strings.Contains(errs, want) {
		t.Errorf("plan without keys: %s", errs)
	}
	for name, cfg := range map[string]cluster.Config{
		"workers": {MasterFlags: []string{keyFlag(t)}},
		"masters": {WorkerFlags: []string{keyFlag(t)}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Binary, cfg.Dir = binary, t.TempDir()
			c := startCluster(t, cfg, 1)
			master, err := c.Master(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, errs := run(t, 1, nil, "read", path, "--master="+master, "--token-file="+c.TokenFile())
			if !strings.Contains(errs, want) || !strings.Contains(errs, ".parquet") {
				t.Errorf("the error does not say what is missing: %s", errs)
			}
		})
	}
}
