package cluster_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// TestMasterStopsWhileCutOff stops two masters, of which one leads a running job, by SIGTERM, while etcd, the trainers
// or both do not hear them: they end by themselves (process.Stop would kill them after 15 s, a kubelet after 30).
// Another takes the job up.
func TestMasterStopsWhileCutOff(t *testing.T) {
	t.Parallel()
	const rows, epochs = 20_000, 2
	for name, cut := range map[string]struct{ etcd, trainers bool }{
		"from etcd": {etcd: true}, "from trainers": {trainers: true}, "from all": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := etcds(t, "127.0.0.1")
			toEtcd := rpctest.NewWire(t, strings.TrimPrefix(e.Endpoints()[0], "http://"))
			listen, other := freeAddress(t), freeAddress(t)
			toMaster := rpctest.NewWire(t, listen)
			f := startFleet(t, []string{"http://" + toEtcd.Address}, 1, "--listen="+listen,
				"--advertise="+toMaster.Address)
			log := &diary{}
			job := f.join(provenanceSpec(t, rows, epochs), 0, 1, log, toMaster.Address, other)
			seen := map[row]int{}
			take(t, job, seen)
			candidate, _ := f.addMaster("candidate", []string{"http://" + toEtcd.Address}, "--listen=127.0.0.1:0",
				"--advertise=")
			if cut.etcd {
				toEtcd.Cut()
			}
			if cut.trainers {
				toMaster.Cut()
			}
			eventually(t, "the trainer notices", func() bool {
				within(t, job, seen, 10*time.Millisecond)
				return log.says("Sync failed; streams go on")
			})
			for _, p := range []*process.Process{candidate, f.MasterProcess()} {
				asked := time.Now()
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
				t.Logf("%s ended after %v", p.Name, time.Since(asked).Round(100*time.Millisecond))
			}
			f.addMaster("next", e.Endpoints(), "--listen="+other, "--advertise="+other)
			for take(t, job, seen) { //nolint:revive // to the end
			}
			closeJob(t, job)
			exactlyOnce(t, seen, rows*epochs)
		})
	}
}

// TestMasterWaitsForEtcd starts a master before its etcd, as a cluster that comes up does.
func TestMasterWaitsForEtcd(t *testing.T) {
	t.Parallel()
	e := etcds(t, "127.0.0.1")
	member := e.Members()[0]
	if err := member.Kill(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	launch := func(name string) *process.Process {
		p, err := process.Start(process.Config{
			Name: name, Binary: binary, Log: filepath.Join(dir, name+".log"),
			Args: []string{"master", "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--http=", "--data-dir=" +
				dir, "--etcd=" + e.Endpoints()[0]},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() })
		eventually(t, name+" says what it waits for", func() bool {
			return strings.Contains(text(t, filepath.Join(dir, name+".log")), "etcd does not answer; waiting for it")
		})
		return p
	}
	stopped, patient := launch("stopped"), launch("patient")
	if err := stopped.Stop(); err != nil {
		t.Errorf("a master that waits and is stopped: %v", err)
	}
	if err := member.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := patient.Announced(t.Context()); err != nil {
		t.Fatal(err)
	}
}
