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
	"github.com/penstock-ml/penstock/bench/reference"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/s3/s3test"
)

const (
	rows     = 800_000
	trainers = 2
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
last_batch: uneven
epochs: 1
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

// TestKubernetes brings up what deploy/kubernetes ships, one overlay after the other.
func TestKubernetes(t *testing.T) {
	b := connect(t)
	for i, overlay := range []struct {
		name string
		test func(*fleet)
	}{{"laptop", (*fleet).laptop}, {"production", (*fleet).production}, {"fleet", (*fleet).lives}} {
		t.Run(overlay.name, func(t *testing.T) {
			f := &fleet{testbed: &testbed{t: t, home: b.home}, dir: t.TempDir()}
			if i > 0 {
				f.clear()
			}
			f.prepare()
			overlay.test(f)
		})
	}
}

// lives has a job read through all that happens to a fleet; then every row is recounted.
func (f *fleet) lives() {
	f.dataset(rows)
	f.apply("test/fleet", map[string]int{
		"penstock-etcd": 3, "penstock-master": 2, "penstock-worker": 1,
		"penstock-minio": 1,
	})
	f.upload(f.serviceAddress("penstock-minio"), "")
	f.team()
	f.spec("s3://data/")
	f.job("training")

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
	f.complete("training")
	f.recount(rows, f.at("job/ledger-0"), f.at("job/ledger-1"))
}

// prepare makes manifests, keys and the folder of jobs that others' users write to.
func (f *fleet) prepare() {
	f.t.Helper()
	f.check(os.CopyFS(f.at("test/kubernetes"), os.DirFS(filepath.Join("..", "..", "deploy", "kubernetes"))))
	f.check(os.CopyFS(f.at("test"), os.DirFS("testdata")))
	f.run(f.binary("penstock"), "keys", f.at("test/kubernetes/keys"))
	job := f.at("job")
	f.check(errors.Join(os.Mkdir(job, 0o777), os.Chmod(job, 0o777), os.Chmod(f.dir, 0o755),
		os.Chmod(filepath.Dir(f.dir), 0o755)))
	f.pace(1)
}

// dataset makes what jobs read.
func (f *fleet) dataset(rows int) {
	f.t.Helper()
	var err error
	f.files, err = dataset.Criteo(f.t.Context(), f.at("data"), rows, func(int, int) {})
	f.check(err)
	f.data = filepath.Dir(f.files[0])
}

// spec writes a job's spec.
func (f *fleet) spec(uri string) (path string) {
	f.t.Helper()
	path = f.at("job/spec.yaml")
	f.check(os.WriteFile(path, fmt.Appendf(nil, trainingSpec, uri), 0o644))
	return path
}

func (f *fleet) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) at(path string) string { return filepath.Join(f.dir, filepath.FromSlash(path)) }

// apply brings a fleet up, until all of its pods are ready, and holds that they are confined.
func (f *fleet) apply(overlay string, apps map[string]int) {
	f.t.Helper()
	f.must("apply", "-k", f.at(overlay))
	for app, want := range apps {
		f.eventually(fmt.Sprintf("%d of %s are ready", want, app), 2*time.Minute,
			func() error { return f.count(app, want) })
		pods, err := f.pods(app)
		f.check(err)
		for _, p := range pods {
			f.confined(p)
		}
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

// key is what a file of `penstock keys` says.
func (f *fleet) key(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.at("test/kubernetes/keys/" + name))
	f.check(err)
	return string(text)
}

func (f *fleet) serviceAddress(name string) string {
	f.t.Helper()
	return f.must("get", "service", "-n", "penstock", name, "-o", "jsonpath={.spec.clusterIP}")
}

// upload brings the dataset to s3://data/ in the fleet's own MinIO.
func (f *fleet) upload(host, prefix string) {
	f.t.Helper()
	f.put(net.JoinHostPort(host, "9000"), f.key("fleet/ca.crt"), f.key("storage/AWS_ACCESS_KEY_ID"),
		f.key("storage/AWS_SECRET_ACCESS_KEY"), prefix)
}

// put brings the dataset to s3://data/ in a MinIO that the authority knows.
func (f *fleet) put(address, authority, user, password, prefix string) {
	f.t.Helper()
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM([]byte(authority))
	w, err := s3test.NewTLSWriter(address, &tls.Config{RootCAs: trust, ServerName: "penstock"}, user, password)
	f.check(err)
	defer w.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	err = w.MakeBucket(ctx, "data")
	for _, path := range f.files {
		err = errors.Join(err, w.PutFile(ctx, "data", prefix+filepath.Base(path), path))
	}
	f.check(err)
}

// team makes the namespace of those who train, which has been told what the fleet's ports are trusted by.
func (f *fleet) team() {
	f.t.Helper()
	f.must("create", "namespace", "training")
	f.must("create", "configmap", "penstock-ca", "-n", "training",
		"--from-file="+f.at("test/kubernetes/keys/fleet/ca.crt"))
}

// pace has each trainer take so many rows a second, 0 is as many as come.
func (f *fleet) pace(rowsPerSecond int) {
	f.t.Helper()
	next := f.at("job/pace.new")
	if err := errors.Join(os.WriteFile(next, fmt.Append(nil, rowsPerSecond), 0o644),
		os.Rename(next, f.at("job/pace"))); err != nil {
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
		if err == nil && (i < 0 ||
			now[i].Status.ContainerStatuses[0].RestartCount == p.Status.ContainerStatuses[0].RestartCount) {
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

// complete waits for a job of so many trainers, as long as they take rows.
func (f *fleet) complete(name string) {
	f.t.Helper()
	had, since := f.progress(), time.Now()
	f.eventually("the job is complete", 10*time.Minute, func() error {
		var job struct {
			Status struct{ Succeeded, Failed int }
		}
		if err := f.get(&job, "job", "-n", "training", name); err != nil {
			return err
		}
		if job.Status.Failed > 0 {
			f.dump()
			f.t.Fatal("a trainer failed")
		}
		if has := f.progress(); !slices.Equal(has, had) {
			had, since = has, time.Now()
		}
		if job.Status.Succeeded != trainers && time.Since(since) > time.Minute {
			f.dump()
			f.t.Fatalf("the job hangs: %d trainers are done, and no other took a row for a minute, with %v rows",
				job.Status.Succeeded, had)
		}
		if job.Status.Succeeded != trainers {
			return fmt.Errorf("%d trainers are done, with %v rows", job.Status.Succeeded, f.progress())
		}
		return nil
	})
}

// recount holds that the ledgers have every row of the dataset exactly once, as the reference makes it.
func (f *fleet) recount(rows int64, ledgers ...string) {
	f.t.Helper()
	s, err := spec.Parse(fmt.Appendf(nil, trainingSpec, "file://"+f.data+"/"))
	f.check(err)
	files, err := storage.New(storage.Config{})
	f.check(err)
	interpreter, err := reference.New(f.t.Context(), s, files)
	f.check(err)
	expected, err := interpreter.Expected(f.t.Context(), 0, func(int64, int64) {})
	f.check(err)
	report, err := reference.Compare(expected, ledgers...)
	f.check(err)
	f.t.Log(report)
	if !report.OK() || report.Delivered != rows {
		f.t.Errorf("of %d rows: %s", rows, report)
	}
}
