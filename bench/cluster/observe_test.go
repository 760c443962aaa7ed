package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// loops are trainers that read until the test ends.
type loops struct {
	t      *testing.T
	c      *cluster.Cluster
	master string
	more   []string // masters
	conn   *grpc.ClientConn
	code   []byte // of functions
}

func newLoops(t *testing.T, cfg cluster.Config, workers int) *loops {
	t.Helper()
	cfg.Binary, cfg.Dir = binary, t.TempDir()
	l := &loops{t: t, c: startCluster(t, cfg, workers)}
	var err error
	if l.master, err = l.c.Master(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.conn, err = rpc.Dial(l.master, l.c.RPC()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.conn.Close() })
	return l
}

// train has the ranks of a session read, each step of which takes some time.
func (l *loops) train(id string, s *pb.Spec, world uint32, step time.Duration) {
	l.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(l.t.Context()))
	var group sync.WaitGroup
	l.t.Cleanup(func() {
		stop()
		group.Wait()
	})
	for rank := range world {
		job, err := client.Open(context.WithoutCancel(l.t.Context()), client.Config{
			Masters: append([]string{l.master}, l.more...), Session: id, Spec: s, Rank: rank, WorldSize: world,
			Code: l.code, Budget: 4 << 20,
			Dial:   func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, l.c.RPC()) },
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			l.t.Fatal(err)
		}
		group.Go(func() {
			defer job.Close()
			for b, err := range job.Batches(ctx) {
				if err != nil {
					return
				}
				b.Release()
				time.Sleep(step) // the step's compute
			}
		})
	}
}

// sleeping has a spec call the function of testdata/sleeps.py, which is handed over with it.
func (l *loops) sleeping(s *pb.Spec) *pb.Spec {
	l.t.Helper()
	var called struct {
		Spec json.RawMessage `json:"spec"`
		Code []byte          `json:"code"`
	}
	if err := json.Unmarshal([]byte(python(l.t, "sleeps.py")), &called); err != nil {
		l.t.Fatal(err)
	}
	var more pb.Spec
	if err := protojson.Unmarshal(called.Spec, &more); err != nil {
		l.t.Fatal(err)
	}
	proto.Merge(s, &more)
	s.Features = append(s.Features, &pb.Feature{Name: []string{"slow"}, Layout: pb.Layout_DENSE})
	l.code = called.Code
	return s
}

// sees waits until the master says something of its sessions that holds, and returns it.
func (l *loops) sees(what string, holds func(map[string]*pb.SessionLoad) bool) *pb.Observation {
	l.t.Helper()
	var seen *pb.Observation
	defer func() {
		if l.t.Failed() {
			l.t.Logf("the master says %v", seen)
		}
	}()
	eventually(l.t, what, func() bool {
		o, err := pb.NewMasterClient(l.conn).Observe(l.t.Context(), &pb.ObserveRequest{Workers: true})
		if err != nil {
			l.t.Fatal(err)
		}
		o.Points = nil
		sessions := map[string]*pb.SessionLoad{}
		for _, s := range o.GetSessions() {
			s.Points, s.Progress = nil, nil
			sessions[s.GetSession()] = s
		}
		seen = o
		return holds(sessions)
	})
	return seen
}

// The master sees that a training loop takes no more, and how many workers that takes.
func TestVerdictTrainer(t *testing.T) {
	l := newLoops(t, cluster.Config{}, 1)
	s := provenanceSpec(t, 20_000, 10_000)
	l.train("job", s, 1, 100*time.Millisecond)
	o := l.sees("the training loop is the bottleneck", func(m map[string]*pb.SessionLoad) bool {
		return m["job"].GetBottleneck() == pb.Bottleneck_TRAINER && m["job"].GetNeeded() > 0
	})
	job := o.GetSessions()[0]
	if limit := float64(s.GetBatchSize()) / 0.1; job.GetDemand() > limit || job.GetNeeded() >= 1 ||
		!strings.Contains(o.GetVerdict(), "the training loop is the bottleneck") {
		t.Errorf("%v of %v", job, o.GetVerdict())
	}
}

// The master sees that a worker has more to do than it can, and with what: a function that waits, for which it takes no
// CPU that others on this machine may have. So it has a stream for three of its slots, whatever goes on beside.
func TestVerdictWorkers(t *testing.T) {
	interpreter, err := exec.LookPath(python3(t, "penstock", "cloudpickle"))
	if err != nil {
		t.Fatal(err)
	}
	l := newLoops(t, cluster.Config{
		MasterFlags: []string{"--code=by-value"},
		WorkerFlags: []string{
			"--slots=4", "--code=by-value", "--python=default=" + interpreter, "--python-processes=4",
		},
	}, 1)
	s := l.sleeping(catalogueSpec(t, 300_000))
	s.Epochs = 10_000
	l.train("job", s, 2, 0)
	o := l.sees("the worker is the bottleneck", func(m map[string]*pb.SessionLoad) bool {
		return m["job"].GetBottleneck() == pb.Bottleneck_WORKERS && m["job"].GetNeeded() > 1 &&
			strings.Contains(m["job"].GetStage(), "sleeps") // at first, processes start
	})
	job := o.GetSessions()[0]
	if stages := job.GetStages(); job.GetStage() != stages[0].GetStage() || len(stages) < 10 {
		t.Errorf("%s, of %v", job.GetStage(), stages)
	}
	for _, want := range []string{"workers are the bottleneck", job.GetStage(), "and it has"} {
		if !strings.Contains(o.GetVerdict(), want) {
			t.Errorf("%q lacks %q", o.GetVerdict(), want)
		}
	}
	if w := o.GetWorkers()[0]; w.GetSessions()[0] != "job" || w.GetBusy() < 0.5 || w.GetMemoryLimit() == 0 {
		t.Errorf("%v", w)
	}
}

// The master sees that workers wait for storage.
func TestVerdictStorage(t *testing.T) {
	minio := storagetest.StartMinIO(t)
	minio.MakeBucket(t, "criteo")
	s := provenanceSpec(t, 20_000, 10_000)
	_, files := listed(t, s)
	for _, f := range files {
		minio.PutFile(t, "criteo", filepath.Base(f.GetUri()), strings.TrimPrefix(f.GetUri(), "file://"))
	}
	s.Dataset.Uri = []string{"s3://criteo/"}
	upstream, err := url.Parse(minio.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(upstream)
		r.Out.Host = r.In.Host // which is signed
	}}
	address := freeAddress(t)
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Range") != "" {
			time.Sleep(300 * time.Millisecond) // what makes it slow
		}
		proxy.ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	l := newLoops(t, cluster.Config{Env: append(minio.Environ(), "AWS_ENDPOINT_URL=http://"+address)}, 1)
	l.train("job", s, 1, 0)
	o := l.sees("storage is the bottleneck",
		func(m map[string]*pb.SessionLoad) bool { return m["job"].GetBottleneck() == pb.Bottleneck_STORAGE })
	if o.GetSessions()[0].GetStage() != "storage" || !strings.Contains(o.GetVerdict(), "storage is the bottleneck") {
		t.Errorf("%v", o)
	}
}

// A session of many trainers that never have enough leaves one of little demand what it needs, though there are more
// streams than places.
func TestLightSessionsAreNotStarved(t *testing.T) {
	l := newLoops(t, cluster.Config{WorkerFlags: []string{"--slots=3"}}, 1)
	heavy := catalogueSpec(t, 300_000)
	heavy.Epochs = 10_000
	l.train("heavy", heavy, 6, 0)
	l.sees("the heavy session has the worker",
		func(m map[string]*pb.SessionLoad) bool { return m["heavy"].GetGranted() > 0.6 })
	light := provenanceSpec(t, 20_000, 10_000)
	light.BatchSize = 20
	l.train("light", light, 1, 50*time.Millisecond)
	l.sees("the light session has what it needs, and the heavy one is short of workers",
		func(m map[string]*pb.SessionLoad) bool {
			return m["light"].GetBottleneck() == pb.Bottleneck_TRAINER && m["light"].GetDemand() > 0 &&
				m["light"].GetRate() > 0 &&
				m["heavy"].GetStall() > 0.1 && m["heavy"].GetRate() > m["light"].GetRate()
		})
}

// A share is told when a session is opened, kept, and not changed by those who come later.
func TestShares(t *testing.T) {
	c, master, spec := start(t, 1000)
	at, token := "--master="+master, "--token-file="+c.TokenFile()
	out, _ := run(t, 0, nil, "session", "create", spec, "--id=job", "--weight=2.5", "--min-workers=1",
		"--max-workers=3", at, token, "--output=json")
	if want := `"share":{"weight":2.5,"min_workers":1,"max_workers":3}`; !strings.Contains(strings.ReplaceAll(out,
		" ", ""), want) {
		t.Errorf("%s lacks %s", out, want)
	}
	if _, errs := run(t, 1, nil, "session", "create", spec, "--id=job", "--weight=1", at,
		token); !strings.Contains(errs, "exists with another share: weight 2.5, 1 to 3 workers") {
		t.Error(errs)
	}
	if _, errs := run(t, 1, nil, "session", "create", spec, "--id=other", fmt.Sprint("--weight=", -1), at,
		token); !strings.Contains(errs, "want a weight from 0") {
		t.Error(errs)
	}
}
