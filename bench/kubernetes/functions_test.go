package kubernetes

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// calls are steps of a job that do in Python what those of trainingSpec, which follow, do with the same columns.
const calls = `transforms:
  - {op: python, call: "clicks.features:Filled", in: [int_0, int_1], out: {int_0: float32, int_1: float32}, args: {value: 0}}
  - {op: python, call: "clicks.features:everything", in: [label], kind: filter}
`

// roll has the workers become those of an overlay.
func (f *fleet) roll(overlay string) {
	f.t.Helper()
	f.must("apply", "-k", f.at(overlay))
	f.eventually("the workers are those of "+overlay, 2*time.Minute, func() error {
		_, err := f.kubectl("rollout", "status", "-n", "penstock", "deployment/penstock-worker", "--timeout=50s")
		return err
	})
	pods, err := f.pods("penstock-worker")
	f.check(err)
	for _, p := range pods {
		f.confined(p)
	}
}

// calls has a job call functions by name, of which a worker is killed in the middle, and recounts its rows.
func (f *fleet) calls(name string) {
	f.t.Helper()
	for rank := range trainers {
		f.check(os.RemoveAll(f.at(fmt.Sprint("job/progress-", rank)))) // of the job before
	}
	f.pace(1000)
	path := f.spec("s3://data/clicks/")
	text, err := os.ReadFile(path)
	f.check(err)
	f.check(os.WriteFile(path, []byte(strings.Replace(string(text), "transforms:\n", calls, 1)), 0o644))
	f.job(name, "--budget=4194304")
	f.moved("the trainers take what functions made")
	f.killWorker()
	for rank, rows := range f.progress() {
		if rows > examples/trainers/2 {
			f.t.Errorf("the worker was killed late: rank %d had %d rows", rank, rows)
		}
	}
	f.pace(0)
	f.complete(name)
	f.recount(examples, f.at("job/ledger-0"), f.at("job/ledger-1"))
}

// job starts the trainers of a session.
func (f *fleet) job(name string, args ...string) {
	f.t.Helper()
	text, err := os.ReadFile(f.at("test/fleet/job.yaml"))
	f.check(err)
	session := "--session=" + name
	for _, arg := range args {
		session += "\n            - " + arg
	}
	manifest := f.at("test/" + name + ".yaml")
	f.check(os.WriteFile(manifest, []byte(strings.NewReplacer("JOB_DIR", f.at("job"), "name: training,", "name: "+name+",",
		"--session=training", session).Replace(string(text))), 0o644))
	f.must("apply", "-f", manifest)
	f.eventually("the trainers run", time.Minute, func() error {
		running := f.must("get", "pods", "-n", "training", "--field-selector=status.phase=Running",
			"-l", "batch.kubernetes.io/job-name="+name, "-o", "name")
		if n := len(strings.Fields(running)); n != trainers {
			return fmt.Errorf("%d trainers run", n)
		}
		return nil
	})
}
