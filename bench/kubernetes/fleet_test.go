package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/dataset"
	"github.com/penstock-ml/penstock/bench/reference"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/s3/s3test"
)

const (
	rows     = 800_000
	trainers = 2
	// dnsAddress is the node's address that the overlay's pods ask, and apiAddress the API server's.
	dnsAddress = "10.99.0.1:53"
	apiAddress = "https://10.99.0.1:16443"
	apiToken   = "admintoken"
)

const trainingSpec = `
dataset: {uri: %q}
features:
  - label: label
  - dense: int_*
  - sparse: [cat_*, cat_0_x_cat_1]
transforms:
  - {op: fill_null, in: int_*, value: 0}
  - {op: clamp, in: int_*, min: 0, max: 1000000}
  - {op: log1p, in: int_*}
  - {op: ngram, in: [cat_0, cat_1], n: 2, out: cat_0_x_cat_1}
  - {op: sigrid_hash, in: [cat_*, cat_0_x_cat_1], salt: 0, max: 1000000}
batch_size: 256
seed: 1
shuffle: true
provenance: true
`

// fleet is the shipped one on a testbed, and a job that reads from it.
type fleet struct {
	*testbed
	dir   string // of manifests, keys and the job
	data  string // the dataset's directory on this machine
	files []string
}

// TestFleet brings up what deploy/kubernetes ships and has a job read through all that happens to it; then every row is recounted.
func TestFleet(t *testing.T) {
	if os.Getenv("PENSTOCK_TESTBED") == "" {
		t.Skip("`make test-kubernetes` runs this on a cluster that it makes")
	}
	f := &fleet{dir: t.TempDir()}
	f.prepare(t)
	f.testbed = startTestbed(t, f.images())
	serveNames(t, dnsAddress, apiAddress, apiToken)
	f.apply()
	f.upload()
	f.train()

	f.pace(200)
	f.moved("the job reads")
	f.pace(4000)
	f.workers("the fleet has grown", func(n int) bool { return n > 1 })
	f.killWorker()
	f.loseNode()
	f.rollMasters()
	f.pace(200)
	f.workers("the fleet has shrunk", func(n int) bool { return n == 1 })
	f.moved("one worker is enough")
	f.pace(0)
	f.finish()
}

// prepare makes manifests, keys, the dataset and the job's folder.
func (f *fleet) prepare(t *testing.T) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.CopyFS(f.at("kubernetes"), os.DirFS(filepath.Join("..", "..", "deploy", "kubernetes"))))
	must(os.CopyFS(f.at("test"), os.DirFS(filepath.Join("testdata", "overlay"))))
	job := f.at("job")
	must(os.Mkdir(job, 0o777))
	must(os.Chmod(job, 0o777)) // the job's user is another one
	must(os.Chmod(f.dir, 0o755))
	must(os.Chmod(filepath.Dir(f.dir), 0o755))
	manifest, err := os.ReadFile(f.at("test/job.yaml"))
	must(err)
	must(os.WriteFile(f.at("test/job.yaml"), []byte(strings.ReplaceAll(string(manifest), "JOB_DIR", job)), 0o644))
	must(os.WriteFile(f.at("job/spec.yaml"), fmt.Appendf(nil, trainingSpec, "s3://data/"), 0o644))
	must(os.WriteFile(f.at("job/pace"), []byte("1"), 0o644))
	b := &testbed{t: t}
	b.run(f.binary("penstock"), "keys", f.at("kubernetes/keys"))
	f.files, err = dataset.Criteo(t.Context(), f.at("data"), rows, func(int, int) {})
	must(err)
	f.data = filepath.Dir(f.files[0])
}

func (f *fleet) at(path string) string { return filepath.Join(f.dir, filepath.FromSlash(path)) }

// binary is one that the make target has built.
func (f *fleet) binary(name string) string {
	return filepath.Join(os.Getenv("TESTBED"), "penstock", name)
}

func (f *fleet) images() []string {
	var out []string
	for _, name := range []string{"pause", "etcd", "minio", "penstock", "trainer"} {
		out = append(out, f.binary(name+".tar"))
	}
	return out
}

// apply does what the README says, with the overlay that fits the testbed.
func (f *fleet) apply() {
	f.t.Helper()
	for i := 1; i <= nodes; i++ {
		f.must("label", "node", fmt.Sprint("node", i), fmt.Sprint("topology.kubernetes.io/zone=zone-", i))
	}
	f.must("apply", "-k", f.at("test"))
	for app, want := range map[string]int{"penstock-etcd": 3, "penstock-master": 2, "penstock-worker": 1, "penstock-minio": 1} {
		f.eventually(fmt.Sprintf("%d of %s are ready", want, app), 2*time.Minute, func() error { return f.count(app, want) })
	}
}

// count says why there are not so many ready pods of an app.
func (f *fleet) count(app string, want int) error {
	pods, err := f.pods(app)
	if err == nil && len(pods) != want {
		err = fmt.Errorf("%d of %s are ready, want %d", len(pods), app, want)
	}
	return err
}

func (f *fleet) upload() {
	f.t.Helper()
	secret := func(name string) string {
		text, err := os.ReadFile(f.at("kubernetes/keys/" + name))
		if err != nil {
			f.t.Fatal(err)
		}
		return string(text)
	}
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM([]byte(secret("fleet/ca.crt")))
	address := f.must("get", "service", "-n", "penstock", "penstock-minio", "-o", "jsonpath={.spec.clusterIP}")
	w, err := s3test.NewTLSWriter(net.JoinHostPort(address, "9000"), &tls.Config{RootCAs: trust, ServerName: "penstock-minio"},
		secret("storage/AWS_ACCESS_KEY_ID"), secret("storage/AWS_SECRET_ACCESS_KEY"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	err = w.MakeBucket(ctx, "data")
	for _, path := range f.files {
		err = errors.Join(err, w.PutFile(ctx, "data", filepath.Base(path), path))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// train starts the job, in a namespace that has been told what the fleet's ports are trusted by.
func (f *fleet) train() {
	f.t.Helper()
	f.must("create", "namespace", "training")
	f.must("create", "configmap", "penstock-ca", "-n", "training", "--from-file="+f.at("kubernetes/keys/fleet/ca.crt"))
	f.must("apply", "-f", f.at("test/job.yaml"))
	f.eventually("the trainers run", time.Minute, func() error {
		running := f.must("get", "pods", "-n", "training", "--field-selector=status.phase=Running", "-o", "name")
		if n := len(strings.Fields(running)); n != trainers {
			return fmt.Errorf("%d trainers run", n)
		}
		return nil
	})
}

// pace has each trainer take so many rows a second, 0 is as many as come.
func (f *fleet) pace(rowsPerSecond int) {
	f.t.Helper()
	next := f.at("job/pace.new")
	if err := errors.Join(os.WriteFile(next, fmt.Append(nil, rowsPerSecond), 0o644), os.Rename(next, f.at("job/pace"))); err != nil {
		f.t.Fatal(err)
	}
}

// progress is how many rows each trainer has taken.
func (f *fleet) progress() []int {
	out := make([]int, trainers)
	for rank := range out {
		text, err := os.ReadFile(f.at(fmt.Sprint("job/progress-", rank)))
		if err != nil {
			continue // it has not begun
		}
		out[rank], _ = strconv.Atoi(string(text))
	}
	return out
}

// moved waits until each trainer has taken more rows than now.
func (f *fleet) moved(what string) {
	f.t.Helper()
	from := f.progress()
	f.eventually(what, 2*time.Minute, func() error {
		now := f.progress()
		for rank := range now {
			if now[rank] <= from[rank] {
				return fmt.Errorf("trainers took %v rows, and %v before", now, from)
			}
		}
		return nil
	})
}

// workers waits until so many workers are ready.
func (f *fleet) workers(what string, enough func(int) bool) {
	f.t.Helper()
	f.eventually(what, 2*time.Minute, func() error {
		pods, err := f.pods("penstock-worker")
		if err == nil && !enough(len(pods)) {
			err = fmt.Errorf("%d workers are ready", len(pods))
		}
		return err
	})
}

func (f *fleet) killWorker() {
	f.t.Helper()
	pods, err := f.pods("penstock-worker")
	if err != nil || len(pods) == 0 {
		f.t.Fatalf("%d workers: %v", len(pods), err)
	}
	p := pods[0]
	f.killContainer(p)
	f.eventually(p.Metadata.Name+" was killed and is back", time.Minute, func() error {
		now, err := f.pods("penstock-worker")
		i := slices.IndexFunc(now, func(n pod) bool { return n.Metadata.Name == p.Metadata.Name })
		if err == nil && (i < 0 || now[i].Status.ContainerStatuses[0].RestartCount == p.Status.ContainerStatuses[0].RestartCount) {
			err = errors.New("not yet")
		}
		return err
	})
	f.moved("the trainers go on")
}

// victim is a node with a master. It is not node1, where the trainers and MinIO are.
func (f *fleet) victim() (name string, number int) {
	f.t.Helper()
	masters, err := f.pods("penstock-master")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range masters {
		if number, _ = strconv.Atoi(strings.TrimPrefix(m.Spec.NodeName, "node")); number > 1 {
			return m.Spec.NodeName, number
		}
	}
	f.t.Fatalf("no master is on another node than node1: %+v", masters)
	return "", 0
}

// loseNode kills a node with all that runs there.
func (f *fleet) loseNode() {
	f.t.Helper()
	name, number := f.victim()
	f.killNode(number)
	f.moved("the trainers go on without " + name)
	f.eventually(name+" is missed", time.Minute, func() error { return f.ready(name, false) })
	for app, want := range map[string]int{"penstock-etcd": 2, "penstock-master": 2} {
		f.eventually(fmt.Sprintf("%d of %s are elsewhere", want, app), 2*time.Minute, func() error {
			pods, err := f.pods(app)
			if err != nil {
				return err
			}
			for _, p := range pods {
				if p.Spec.NodeName == name {
					return fmt.Errorf("%s counts still", p.Metadata.Name)
				}
			}
			return f.count(app, want)
		})
	}
	f.moved("the trainers go on")
}

func (f *fleet) rollMasters() {
	f.t.Helper()
	before, err := f.pods("penstock-master")
	if err != nil {
		f.t.Fatal(err)
	}
	f.must("rollout", "restart", "-n", "penstock", "deployment/penstock-master")
	f.eventually("the masters are new ones", 2*time.Minute, func() error {
		now, err := f.pods("penstock-master")
		if err != nil {
			return err
		}
		for _, p := range now {
			if slices.ContainsFunc(before, func(b pod) bool { return b.Metadata.Name == p.Metadata.Name }) {
				return fmt.Errorf("%s is an old one", p.Metadata.Name)
			}
		}
		return f.count("penstock-master", 2)
	})
	f.moved("the trainers go on")
}

// finish waits for the job and recounts its rows.
func (f *fleet) finish() {
	f.t.Helper()
	f.eventually("the job is complete", 3*time.Minute, func() error {
		var job struct {
			Status struct{ Succeeded, Failed int }
		}
		if err := f.get(&job, "job", "-n", "training", "training"); err != nil {
			return err
		}
		if job.Status.Failed > 0 {
			f.dump()
			f.t.Fatal("a trainer failed")
		}
		if job.Status.Succeeded != trainers {
			return fmt.Errorf("%d trainers are done, with %v rows", job.Status.Succeeded, f.progress())
		}
		return nil
	})
	s, err := spec.Parse(fmt.Appendf(nil, trainingSpec, "file://"+f.data+"/"))
	if err != nil {
		f.t.Fatal(err)
	}
	files, err := storage.New(storage.Config{})
	if err != nil {
		f.t.Fatal(err)
	}
	interpreter, err := reference.New(f.t.Context(), s, files)
	if err != nil {
		f.t.Fatal(err)
	}
	expected, err := interpreter.Expected(f.t.Context(), 0, func(int64, int64) {})
	if err != nil {
		f.t.Fatal(err)
	}
	report, err := reference.Compare(expected, f.at("job/ledger-0"), f.at("job/ledger-1"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Log(report)
	if !report.OK() || report.Delivered != rows {
		f.t.Errorf("of %d rows: %s", rows, report)
	}
}
